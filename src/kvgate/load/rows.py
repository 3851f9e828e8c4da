"""What a load run produces: one row a request, whatever became of it; and as evidence."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import itertools
import json

from kvgate.judge.percentile import least_sample, percentile
from kvgate.load.watch import Watched
from kvgate.model.record import Evidence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to send: a prompt (token ids, or a text) and the exact length of its answer.

    ``due_s`` is when it is to be sent, in seconds after the load's start; None: at once. ``turn``
    counts a session's requests from 0. ``history`` is of chats alone: what user and assistant
    said before ``prompt``, by turns (elsewhere the prompt holds all of it).
    """

    session: str
    prompt: tuple[int, ...] | str
    output_tokens: int
    due_s: float | None = None
    turn: int = 0
    history: tuple[str, ...] = ()


class Failure(enum.StrEnum):
    """What kept a request from counting."""

    CONNECTION = "connection"  # refused, reset, no route
    TLS = "tls"  # no TLS, or a certificate that can't be trusted
    TIMEOUT = "timeout"
    HTTP = "http"  # another status than 200, or no event stream
    PROTOCOL = "protocol"  # the stream is not what OpenAI's protocol says
    ENGINE = "engine"  # the engine reported an error in the stream
    TRUNCATED = "truncated"  # the stream ended before its end mark
    COUNT = "count"  # another number of tokens than was asked for, or none reported
    CLIENT = "client"  # this client had no descriptor or port left: no fault of the endpoint's


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request and what came of it; times are seconds after it was due, monotonic.

    ``due_s`` and ``sent_s`` count from the start of the load; ``due_s`` None: it was due when it
    was sent. ``failure`` None: the answer was whole. What the endpoint did not say is None, never
    0.
    """

    session: str
    sent_at: datetime.datetime  # UTC
    sent_s: float
    ttft_s: float | None
    token_times_s: tuple[float, ...]  # arrival of each event that carried tokens
    end_s: float
    asked_tokens: int
    prompt_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    output_sha256: str | None  # over the token ids, or the text where ids were not given
    logits_sha256: str | None
    failure: Failure | None = None
    error: str = ""
    turn: int = 0
    due_s: float | None = None

    @property
    def send_lag_s(self) -> float:
        """Return how much later than due it was sent, whoever kept it."""
        return 0.0 if self.due_s is None else self.sent_s - self.due_s

    @property
    def ended_s(self) -> float:
        """Return when it had ended, in seconds after the start of the load."""
        return (self.sent_s if self.due_s is None else self.due_s) + self.end_s

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """Return the times between the events that carried tokens (inter-token latencies)."""
        return tuple(b - a for a, b in itertools.pairwise(self.token_times_s))

    @property
    def tpot_s(self) -> float | None:
        """Return the mean time a further token took, None where there was no further token."""
        if self.output_tokens is None or self.output_tokens < 2 or self.ttft_s is None:
            return None
        return (self.token_times_s[-1] - self.ttft_s) / (self.output_tokens - 1)

    @property
    def output_digest(self) -> str | None:
        """Return what two arms' answers are compared by: tokens and, where known, logits."""
        if self.failure is not None or self.output_sha256 is None:
            return None
        return f"{self.output_sha256}/{self.logits_sha256 or 'no-logits'}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A load run: its rows in order of ending, how long it took, and how the client fared.

    ``warm_up`` are the rows of what was due in the warm-up, which ``elapsed_s`` and ``rows`` leave
    out. ``concurrency`` is the most that was to be under way. Of an open loop, ``held_back`` had to
    wait for that, and ``unsent`` were due and never sent.
    """

    base_url: str
    model: str
    concurrency: int
    started_at: datetime.datetime  # UTC
    elapsed_s: float
    lag_max_s: float  # the longest the client's event loop was late
    rows: tuple[Row, ...]
    warm_up: tuple[Row, ...] = ()
    warm_up_s: float = 0.0
    held_back: int = 0
    unsent: int = 0
    watched: Watched | None = None  # None: of a load recorded before the client watched itself

    @property
    def bottleneck(self) -> tuple[str, ...]:
        """Return why the client, not the endpoint, was measured; () where it was not so."""
        told = [] if self.watched is None else [*self.watched.bottleneck(self._ttft_s())]
        ours = sum(row.failure is Failure.CLIENT for row in self.rows)
        if ours:
            told.append(f"it had no descriptor or port left for {ours} requests")
        return tuple(told)

    def _ttft_s(self) -> float | None:
        """Return the median TTFT, None where there are too few for one."""
        values = [row.ttft_s for row in self.good if row.ttft_s is not None]
        return percentile(values, 50) if len(values) >= least_sample(50) else None

    @property
    def good(self) -> tuple[Row, ...]:
        """Return the rows of whole answers."""
        return tuple(row for row in self.rows if row.failure is None)

    @property
    def failed(self) -> tuple[Row, ...]:
        """Return the rows of requests that came to nothing."""
        return tuple(row for row in self.rows if row.failure is not None)


def command(base_url: str, concurrency: int) -> tuple[str, ...]:
    """Return what stands for the command in a load's evidence: the client is this program."""
    return ("kvgate.load", base_url, f"--concurrency={concurrency}")


def as_evidence(result: LoadResult, host: str) -> Evidence:
    """Return the rows as a piece of evidence: one JSON object a line, the run's facts first.

    The rows of the warm-up come before the others.
    """
    rows = [dataclasses.asdict(row) for row in (*result.warm_up, *result.rows)]
    facts = {
        "base_url": result.base_url,
        "model": result.model,
        "concurrency": result.concurrency,
        "elapsed_s": result.elapsed_s,
        "lag_max_s": result.lag_max_s,
        "rows": len(rows),
        "warm_up": len(result.warm_up),
        "warm_up_s": result.warm_up_s,
        "held_back": result.held_back,
        "unsent": result.unsent,
        "watched": None if result.watched is None else dataclasses.asdict(result.watched),
    }
    text = "".join(json.dumps(line, default=_plain) + "\n" for line in (facts, *rows))
    return Evidence(
        host=host,
        command=command(result.base_url, result.concurrency),
        exit_status=0,
        stdout=text.encode(),
        stderr=b"",
        started_at=result.started_at,
        ended_at=result.started_at
        + datetime.timedelta(seconds=result.warm_up_s + result.elapsed_s),
    )


def _plain(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form here")
