"""Sessions from a seed: exact lengths, a set shared-prefix ratio, turns that grow, think time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from kvgate.load.arrivals import Pattern, arrivals
from kvgate.load.issued import Issued
from kvgate.load.prompts import Ids, TextRate, Tokens, as_text, stream_of, tokens
from kvgate.load.rows import Request, Row
from kvgate.load.source import Told


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """What sessions are like. Lengths are tokens, ``think_s`` seconds.

    ``shared`` is the share of all input tokens that an infinite prefix cache would hit, over first
    turns: it comes out within one block a request. ``prefixes`` is how many different beginnings
    they share. With ``turns`` above 1, a session goes on with its prompt, the answer and
    ``turn_tokens`` more. ``rate`` (a second) has sessions arrive in an open loop. ``text`` makes
    words instead of token ids; ``chat`` sends them as messages. ``first`` is the first session's
    number, ``count`` how many there are (None: no end). Of ``parts`` clients this is number
    ``part``: every session is one client's, and all make the same prompts. With ``pool`` there are
    only so many different prompts, sent in turn again and again: what was stored once is restored.
    """

    seed: int
    input_tokens: int
    output_tokens: int
    count: int | None = None
    first: int = 0
    pool: int | None = None
    part: int = 0
    parts: int = 1
    shared: float = 0.0
    prefixes: int = 1
    turns: int = 1
    turn_tokens: int = 0
    think_s: float = 0.0
    rate: float | None = None
    pattern: Pattern = "poisson"
    block: int = 16
    ids: Ids = dataclasses.field(default_factory=Ids)
    text: TextRate | None = None
    chat: bool = False

    def __post_init__(self) -> None:
        """Refuse what can't be made; raises ValueError."""
        if min(self.input_tokens, self.output_tokens, self.turns, self.prefixes) < 1:
            raise ValueError("tokens, turns and prefixes are 1 or more")
        if not 0 <= self.part < self.parts:
            raise ValueError(f"part {self.part} of {self.parts}")
        if not 0 <= self.shared < 1 or self.think_s < 0 or self.block < 1:
            raise ValueError("a shared ratio is from 0 to below 1, a time to think 0 s or more")
        if self.rate is not None and not 0 < self.rate < 10**6:
            raise ValueError(f"{self.rate:g} sessions a second: above 0, below a million")
        if self.turns > 1 and self.turn_tokens < 1:
            raise ValueError("turns after the first have tokens of their own: turn_tokens")
        if self.shared and self.input_tokens < 2 * self.block:
            raise ValueError(f"a shared prefix takes prompts of {2 * self.block} tokens or more")
        if self.pool is not None and (self.pool < 1 or self.shared or self.turns > 1):
            raise ValueError("a pool is of 1 prompt or more, which share nothing and have one turn")
        if self.chat and self.text is None:
            raise ValueError("a chat is of texts")


@dataclasses.dataclass(slots=True)
class _Going:
    """A session under way: its last turn, all tokens so far, and what was said."""

    turn: int
    tokens: Tokens
    said: list[str]


class SessionSource:
    """The requests of `Sessions`, in order; ``issued`` knows what each was made of.

    ``replaced`` counts answers whose token ids nobody told: the next turn holds others then.
    """

    def __init__(self, what: Sessions) -> None:
        self.what = what
        self.issued = Issued(off_tokens=what.text.per_word if what.text else 0.0)
        self.follows = what.turns > 1
        self.replaced = 0
        self.dropped = 0
        self._number = what.first
        self._prefixes = _Prefixes(what)
        self._due: Iterator[float] | None = (
            arrivals(what.seed, what.rate, what.pattern) if what.rate is not None else None
        )
        self._going: dict[str, _Going] = {}

    def next(self) -> Request | None:
        """Return the first turn of the next session; None after the last."""
        what = self.what
        while what.count is None or self._number - what.first < what.count:
            number = self._number
            self._number += 1
            due = None if self._due is None else next(self._due)
            prompt = self._prefixes.prompt(number % what.pool if what.pool else number)
            if (number - what.first) % what.parts == what.part:
                return self._first(number, prompt, due)
        return None

    def _first(self, number: int, prompt: Tokens, due: float | None) -> Request:
        session = f"session-{number:06d}"
        going = _Going(0, prompt, [])
        if self.follows:
            self._going[session] = going
        return self._request(session, going, prompt, due)

    def ended(self, row: Row, answer: Told) -> Request | None:
        """Return the session's next turn; None after its last, and once a turn has failed."""
        going = self._going.pop(row.session, None)
        if going is None or going.turn + 1 >= self.what.turns:
            return None
        if row.failure is not None:
            self.dropped += 1
            return None
        more = self._made(row.session, going.turn + 1)
        going.said.append(answer if isinstance(answer, str) else "")
        going.tokens = np.concatenate([going.tokens, self._answered(row, answer), more])
        going.turn += 1
        self._going[row.session] = going
        return self._request(row.session, going, more, row.ended_s + self.what.think_s)

    def _answered(self, row: Row, answer: Told) -> Tokens:
        """Return the answer's tokens; where they are not told, as many others."""
        if not isinstance(answer, str) and len(answer):
            return np.array(answer, np.int64)
        what = self.what
        self.replaced += what.text is None
        stream = stream_of("answer", row.session, row.turn)
        return tokens(what.seed, stream, what.output_tokens, what.ids)

    def _made(self, session: str, turn: int) -> Tokens:
        what = self.what
        count = what.text.more(what.turn_tokens) if what.text else what.turn_tokens
        return tokens(what.seed, stream_of("turn", session, turn), count, what.ids)

    def _request(self, session: str, going: _Going, more: Tokens, due_s: float | None) -> Request:
        """Return the request of a session's turn, whose own part is `more`."""
        what = self.what
        exact = len(going.tokens) if what.text is None else None
        if what.text is not None and going.turn == 0:
            exact = what.input_tokens
        self.issued.add(session, going.turn, going.tokens, what.output_tokens, exact)
        history: tuple[str, ...] = ()
        prompt: tuple[int, ...] | str
        if what.text is None:
            prompt = tuple(going.tokens.tolist())
        else:
            going.said.append(
                f" {as_text(more)}" if going.said and not what.chat else as_text(more)
            )
            history = tuple(going.said[:-1]) if what.chat else ()
            prompt = going.said[-1] if what.chat else "".join(going.said)
        return Request(
            session=session,
            prompt=prompt,
            output_tokens=what.output_tokens,
            due_s=due_s,
            turn=going.turn,
            history=history,
        )


class _Prefixes:
    """Prompts of first turns, whose beginnings are shared so that the ratio comes out.

    Every prefix's first prompt shares nothing; the others take as many whole blocks of it as the
    ratio is short of by then.
    """

    def __init__(self, what: Sessions) -> None:
        self._what = what
        self._size = what.text.words(what.input_tokens) if what.text else what.input_tokens
        self._begun: dict[int, Tokens] = {}
        self._made_tokens = 0
        self._shared_tokens = 0

    def prompt(self, number: int) -> Tokens:
        what, size = self._what, self._size
        own = tokens(what.seed, stream_of("session", number), size, what.ids)
        self._made_tokens += size
        if not what.shared:
            return own
        which = number % what.prefixes
        begun = self._begun.setdefault(which, own)
        if begun is own:
            return own
        short = what.shared * self._made_tokens - self._shared_tokens
        blocks = min(max(0, round(short / what.block)), (size - 1) // what.block)
        shared = blocks * what.block
        self._shared_tokens += shared
        return np.concatenate([begun[:shared], own[shared:]])
