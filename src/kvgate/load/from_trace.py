"""Replays a trace's requests: its arrivals, lengths and prefixes, with content from a seed."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from kvgate.kv import trace
from kvgate.load.issued import Issued
from kvgate.load.prompts import Ids, TextRate, Tokens, as_text, stream_of, tokens
from kvgate.load.rows import Request, Row
from kvgate.load.source import Told


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """How a trace is replayed: ``speed`` times as fast as it came.

    ``turns`` *as told*: every request when the trace says, whatever became of those before it;
    *after answers*: a conversation's next request not before its last was answered and ``think_s``
    have passed. ``block`` tokens stand for each block of the trace (None: as many as the trace
    says); lengths shrink with it, so that a small engine sees the same reuse. ``most`` requests
    are replayed at most. Of ``parts`` clients this is number ``part``, by conversation.
    """

    seed: int
    speed: float = 1.0
    turns: Literal["as told", "after answers"] = "as told"
    think_s: float = 0.0
    block: int | None = None
    most: int | None = None
    part: int = 0
    parts: int = 1
    ids: Ids = dataclasses.field(default_factory=Ids)
    text: TextRate | None = None

    def __post_init__(self) -> None:
        """Refuse what can't be; raises ValueError."""
        if not 0 < self.speed < 1e9 or self.think_s < 0:
            raise ValueError("a speed is above 0, a time to think 0 s or more")
        if (self.block is not None and self.block < 1) or (self.most is not None and self.most < 1):
            raise ValueError("tokens of a block and requests are 1 or more")
        if not 0 <= self.part < self.parts:
            raise ValueError(f"part {self.part} of {self.parts}")


class TraceSource:
    """The requests of a trace in order of time; ``issued`` knows what each was made of.

    With *after answers* all requests are read first; else as they are asked for. Raises
    kvgate.kv.trace.TraceError, from `next` too.
    """

    def __init__(self, requests: Iterable[trace.Request], how: Replay) -> None:
        self.how = how
        self.issued = Issued(off_tokens=how.text.per_word if how.text else 0.0)
        self.follows = how.turns == "after answers"
        self.dropped = 0
        self._began: float | None = None
        self._waiting: dict[str, collections.deque[tuple[trace.Request, float]]] = {}
        self._turns: collections.Counter[str] = collections.Counter()
        self._names: dict[str, str] = {}
        self._begun_blocks = True
        self._blocks: dict[int, Tokens] = {}
        timed = map(self._timed, itertools.islice(requests, how.most))
        self._requests: Iterator[tuple[trace.Request, float]]
        self._requests = (each for each in timed if _mine(each[0], how))
        if self.follows:
            self._requests = iter(self._first_turns())

    def next(self) -> Request | None:
        """Return the next request that follows no answer, due when the trace says."""
        found = next(self._requests, None)
        return None if found is None else self._made(*found)

    def ended(self, row: Row, _answer: Told) -> Request | None:
        """Return the conversation's next request; once one has failed, none."""
        waiting = self._waiting.get(row.session)
        if not waiting:
            return None
        if row.failure is not None:
            self.dropped += len(self._waiting.pop(row.session))
            return None
        request, due = waiting.popleft()
        return self._made(request, max(due, row.ended_s + self.how.think_s))

    def _timed(self, request: trace.Request) -> tuple[trace.Request, float]:
        if self._began is None:
            self._began = request.time_s
        return request, (request.time_s - self._began) / self.how.speed

    def _first_turns(self) -> list[tuple[trace.Request, float]]:
        """Read all; keep the first of each conversation, let the others wait for their turn."""
        first = []
        for request, due in self._requests:
            if (name := self._session(request)) in self._waiting:
                self._waiting[name].append((request, due))
            else:
                self._waiting[name] = collections.deque()
                first.append((request, due))
        return first

    def _made(self, request: trace.Request, due: float) -> Request:
        session = self._session(request)
        turn = self._turns[session]
        self._turns[session] += 1
        prompt = self._prompt(request)
        exact = len(prompt) if self.how.text is None else None
        output = self._scaled(request.output_tokens, request.block_tokens)
        if self._begun_blocks:
            self._begun_blocks = False
            self.issued.block = self.how.block or request.block_tokens
        wanted = request.ids if self.how.text is None else None
        self.issued.add(session, turn, prompt, output, exact, wanted)
        return Request(
            session=session,
            prompt=as_text(prompt) if self.how.text else tuple(prompt.tolist()),
            output_tokens=output,
            due_s=due,
            turn=turn,
        )

    def _session(self, request: trace.Request) -> str:
        """Return the session's name: its file's, and there its conversation or its line."""
        name = self._names.get(request.file)
        if name is None:
            name = Path(request.file).name
            again = sum(each.partition("#")[0] == name for each in self._names.values())
            name = f"{name}#{again + 1}" if again else name
            self._names[request.file] = name
        if request.session < 0:
            return f"{name}:{request.line}"
        return f"{name}:conversation-{request.session}"

    def _scaled(self, count: int, block: int) -> int:
        """Return a length in tokens, as small as blocks are made; at least one token."""
        wanted = self.how.block or block
        return max(1, count * wanted // block)

    def _prompt(self, request: trace.Request) -> Tokens:
        """Return a request's tokens: each block's from its id, what no id stands for its own."""
        how, size = self.how, self.how.block or request.block_tokens
        length = self._scaled(request.input_tokens, request.block_tokens)
        parts = [self._block(each, size) for each in request.ids.tolist()]
        missing = length - size * len(parts)
        if missing > 0:
            own = stream_of("rest", request.file, request.line)
            parts.append(tokens(how.seed, own, missing, how.ids))
        made = np.concatenate(parts)[:length]
        if how.text is not None:
            return made[: how.text.words(length)]
        return made

    def _block(self, block_id: int, size: int) -> Tokens:
        """Return the tokens of a block; the last used stay at hand."""
        found = self._blocks.pop(block_id, None)
        if found is None:
            stream = stream_of("block", block_id)
            found = tokens(self.how.seed, stream, size, self.how.ids)
        self._blocks[block_id] = found
        if len(self._blocks) > _AT_HAND:
            del self._blocks[next(iter(self._blocks))]
        return found


_AT_HAND = 4096
"""Blocks whose tokens are kept: what a conversation's next request asks for again."""


def _mine(request: trace.Request, how: Replay) -> bool:
    """Tell whether this client sends it: conversations stay whole, with one client."""
    number = request.session if request.session >= 0 else request.line
    return number % how.parts == how.part
