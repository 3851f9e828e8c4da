"""A load as parts, one after another, each a workload in a shape; and what came of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from kvgate.kv import trace
from kvgate.load.endpoint import Endpoint
from kvgate.load.from_trace import Replay, TraceSource
from kvgate.load.issued import Issued
from kvgate.load.loop import Interrupted, run_load
from kvgate.load.rows import LoadResult, Request, Row
from kvgate.load.sessions import Sessions, SessionSource
from kvgate.load.shape import Closed, Open, Shape
from kvgate.load.source import Told

AnySource = SessionSource | TraceSource


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """Requests of trace files, as `how` says."""

    paths: tuple[str, ...]
    how: Replay


What = Sessions | Traced


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a load. ``counts`` False: it only prepares, such as storing what is restored."""

    name: str
    what: What
    shape: Shape
    duration_s: float | None = None
    warm_up_s: float = 0.0
    counts: bool = True

    def source(self) -> AnySource:
        """Return the part's requests from their beginning; raises TraceError."""
        if isinstance(self.what, Sessions):
            return SessionSource(self.what)
        paths = [Path(each) for each in self.what.paths]
        return TraceSource(trace.requests(paths), self.what.how)

    def of(self, number: int, clients: int) -> Part:
        """Return what client `number` of `clients` does of this part: its share of all of it."""
        shape = self.shape
        if isinstance(shape, Closed):
            own = shape.concurrency // clients + (number < shape.concurrency % clients)
            shape = dataclasses.replace(shape, concurrency=max(1, own))
        what: What
        if isinstance(self.what, Sessions):
            what = dataclasses.replace(self.what, part=number, parts=clients)
        else:
            how = dataclasses.replace(self.what.how, part=number, parts=clients)
            what = dataclasses.replace(self.what, how=how)
        return dataclasses.replace(self, what=what, shape=shape)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A part and what came of it; ``untold`` says why nothing follows from it, () where it does."""

    part: Part
    result: LoadResult
    issued: Issued
    untold: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class PartInterrupted(KeyboardInterrupt):
    """Ctrl-C in a part; `done` is what had come of it by then."""

    def __init__(self, done: Done) -> None:
        super().__init__()
        self.done = done


def run_part(
    endpoint: Endpoint,
    part: Part,
    *,
    on_row: Callable[[Row], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Done:
    """Run a part from this machine; raises what `run_load` does, and PartInterrupted at Ctrl-C."""
    source = part.source()
    try:
        result = run_load(
            endpoint,
            _Begun(source),
            part.shape,
            duration_s=part.duration_s,
            warm_up_s=part.warm_up_s,
            on_row=on_row,
            stop=stop,
        )
    except Interrupted as cut:
        after_s = cut.result.warm_up_s + cut.result.elapsed_s
        why = f"interrupted after {after_s:,.1f} s; what was under way then is not counted"
        done = _done(part, source, cut.result)
        raise PartInterrupted(dataclasses.replace(done, untold=(why, *done.untold))) from cut
    return _done(part, source, result)


def _done(part: Part, source: AnySource, result: LoadResult) -> Done:
    untold = [f"the client was the bottleneck: {each}" for each in result.bottleneck]
    if result.unsent:
        untold.append(f"{result.unsent} requests were due and not sent")
    return Done(
        part=part, result=result, issued=source.issued, untold=tuple(untold), notes=notes(source)
    )


class _Begun:
    """A source whose first request is made before the load starts: reading may take its time."""

    def __init__(self, source: AnySource) -> None:
        self.follows = source.follows
        self._source = source
        self._first = source.next()
        self._given = False

    def next(self) -> Request | None:
        """Return the source's next request."""
        if self._given:
            return self._source.next()
        self._given = True
        return self._first

    def ended(self, row: Row, answer: Told) -> Request | None:
        """Return what the source has follow."""
        return self._source.ended(row, answer)


def notes(source: AnySource) -> tuple[str, ...]:
    """Return what a source did otherwise than was asked, in words."""
    told = []
    if source.dropped:
        told.append(f"{source.dropped} further turns were not sent: one before them had failed")
    if isinstance(source, SessionSource) and source.replaced:
        told.append(f"{source.replaced} answers had no token ids: later turns hold others instead")
    return tuple(told)


def levels(
    what: Sessions,
    concurrencies: Sequence[int],
    *,
    requests: Callable[[int], int] | None,
    ramp_s: float = 0.0,
    duration_s: float | None = None,
    warm_up_s: float = 0.0,
) -> tuple[Part, ...]:
    """Return a part for each concurrency, each with sessions of its own.

    `requests` tells how many sessions a level has; None: no end but the time.
    """
    found, first = [], what.first
    for concurrency in concurrencies:
        count = None if requests is None else requests(concurrency)
        found.append(
            Part(
                name=f"concurrency {concurrency}",
                what=dataclasses.replace(what, first=first, count=count),
                shape=Closed(concurrency=concurrency, ramp_s=ramp_s),
                duration_s=duration_s,
                warm_up_s=warm_up_s,
            )
        )
        first += _APART if count is None else count
    return tuple(found)


_APART = 10**7
"""Sessions between the beginnings of endless levels: no level comes to the next one's."""


def stored_then_restored(what: Sessions, concurrencies: Sequence[int]) -> tuple[Part, ...]:
    """Return the parts of a restore: all sessions stored, then as many as are under way read once.

    As in report R2: each level reads N = concurrency sessions, once each. Those that were read
    longest ago are read first. Raises ValueError where a level has more than there are.
    """
    count = what.count or 0
    if max(concurrencies) > count:
        raise ValueError(f"concurrency {max(concurrencies)} takes as many sessions; it is {count}")
    store = Part(
        name=f"store {count} sessions",
        what=what,
        shape=Closed(concurrency=max(concurrencies)),
        counts=False,
    )
    parts, first = [store], 0
    for concurrency in concurrencies:
        first = first if first + concurrency <= count else 0
        own = dataclasses.replace(what, first=what.first + first, count=concurrency)
        parts.append(
            Part(name=f"restore at {concurrency}", what=own, shape=Closed(concurrency=concurrency))
        )
        first += concurrency
    return tuple(parts)


def in_open_loop(
    what: What, *, max_in_flight: int, duration_s: float | None, warm_up_s: float
) -> Part:
    """Return the one part of an open loop: requests when they are due."""
    if isinstance(what, Sessions):
        name = f"{what.rate:g} sessions a second"
    else:
        name = f"trace at {what.how.speed:g} times its speed"
    return Part(
        name=name,
        what=what,
        shape=Open(max_in_flight=max_in_flight),
        duration_s=duration_s,
        warm_up_s=warm_up_s,
    )


R2_SESSIONS = 34
R2_TOKENS = 30_272
R2_OUTPUT = 64
R2_CONCURRENCY = (8, 16, 32)


def r2_cold(seed: int) -> Sessions:
    """Return the sessions of joint test report R2 (mingxin-kvcache-bench): cold long contexts.

    34 distinct sessions of which 30,208 tokens hit (118 whole chunks of 256, and half a chunk
    more here, since the last token of a prompt is always computed), 64 tokens out. There one
    sentence was repeated; here every block is another one.
    """
    return Sessions(seed=seed, input_tokens=R2_TOKENS, output_tokens=R2_OUTPUT, count=R2_SESSIONS)
