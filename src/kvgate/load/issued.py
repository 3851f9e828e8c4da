"""What a load has really issued, and what of it is shared: its evidence, assessed as a trace is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kvgate.kv.trace import Batch
from kvgate.load.prompts import Tokens, block_ids
from kvgate.load.rows import Row

if TYPE_CHECKING:
    from kvgate.kv.assess import Assessment

BLOCK = 16
"""Tokens of a block that is looked at: what engines share prefixes by at their finest."""


class Issued:
    """The prompts that a source has made, each as the numbers of its blocks.

    Of what was made ahead only that counts whose row there is: it was sent. ``off_tokens`` is what
    a length may be off by, where words are sent: a word's tokens, and 1 % of all.
    """

    def __init__(self, block: int = BLOCK, off_tokens: float = 0.0) -> None:
        self.block, self.off_tokens = block, off_tokens
        self._made: dict[tuple[str, int], tuple[int, int, Tokens]] = {}
        self._asked: dict[tuple[str, int], int] = {}
        self._wanted: dict[tuple[str, int], Tokens] = {}

    def add(
        self,
        session: str,
        turn: int,
        prompt: Tokens,
        output_tokens: int,
        asked: int | None,
        wanted: Tokens | None = None,
    ) -> None:
        """Keep what `prompt` is made of; `asked` is its exact length, None where nobody knows it.

        A text's words are looked at as its tokens are. `wanted` are a trace's own ids of its
        blocks: what is issued is to share what these do.
        """
        self._made[session, turn] = (len(prompt), output_tokens, block_ids(prompt, self.block))
        if asked is not None:
            self._asked[session, turn] = asked
        if wanted is not None:
            self._wanted[session, turn] = wanted

    def take(self, other: Issued) -> None:
        """Take what another client of the same load has made."""
        self.block, self.off_tokens = other.block, other.off_tokens
        self._made |= other._made
        self._asked |= other._asked
        self._wanted |= other._wanted

    def lengths(self, rows: Iterable[Row]) -> tuple[int, int]:
        """Return how many prompts of `rows` have a length that is known, and how many a wrong one.

        What was asked for is compared with the engine's own count, where it tells one.
        """
        compared = wrong = 0
        for row in rows:
            asked = self._asked.get((row.session, row.turn))
            if asked is None or row.prompt_tokens is None:
                continue
            compared += 1
            allowed = max(self.off_tokens, 0.01 * asked) if self.off_tokens else 0.0
            wrong += abs(row.prompt_tokens - asked) > allowed
        return compared, wrong

    def batch(
        self, rows: Iterable[Row], after_s: float = 0.0, *, wanted: bool = False
    ) -> Batch | None:
        """Return the requests of `rows` in order of sending, `after_s` later; None for none.

        With `wanted` their blocks are those that a trace told.
        """
        known = self._wanted if wanted else self._made
        sent = [row for row in sorted(rows, key=_when) if (row.session, row.turn) in known]
        if not sent:
            return None
        made = [self._made[row.session, row.turn] for row in sent]
        ids = [self._wanted[row.session, row.turn] for row in sent] if wanted else []
        ids = ids or [each[2] for each in made]
        return Batch(
            file="issued",
            block_tokens=self.block,
            lines=np.arange(1, len(sent) + 1, dtype=np.int64),
            times_s=np.array([after_s + row.sent_s for row in sent], np.float64),
            input_tokens=np.array([each[0] for each in made], np.int64),
            output_tokens=np.array([each[1] for each in made], np.int64),
            starts=np.cumsum([0, *map(len, ids)], dtype=np.int64),
            ids=np.concatenate(ids),
            sessions=_numbered([row.session for row in sent]),
        )


def _when(row: Row) -> float:
    return row.sent_s


def _numbered(names: Sequence[str]) -> Tokens:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came of the asked shared-prefix ratio: ``assessment`` is of all that was issued.

    ``asked`` None: none was asked for. Of ``compared_lengths`` prompts ``wrong_lengths`` had
    another number of tokens than was asked for.
    """

    assessment: Assessment
    asked: float | None
    wrong_lengths: int
    compared_lengths: int

    @property
    def shared(self) -> float:
        """Return the ratio that came out: input tokens an infinite cache hits, of all."""
        return self.assessment.shared

    @property
    def off(self) -> str:
        """Say why the workload is not the one that was asked for, "" where it is.

        One block a request is what a ratio may be off by, since prefixes are whole blocks.
        """
        if self.wrong_lengths:
            return (
                f"{self.wrong_lengths} of {self.compared_lengths} prompts had another number of "
                "tokens than was asked for, by the engine's own count"
            )
        totals = self.assessment.totals
        allowed = self.assessment.block_tokens * totals.requests / max(1, totals.input_tokens)
        if self.asked is not None and abs(self.shared - self.asked) > allowed:
            return f"a shared-prefix ratio of {self.shared:.3f} came of {self.asked:.3f} asked for"
        return ""


def came(
    issued: Sequence[tuple[Issued, Sequence[Row]]], *, asked: float | None = None
) -> Came | None:
    """Return what came of a load's parts, one after another; None where nothing was sent.

    A prompt's length is compared where the engine tells it; what failed tells nothing. Of a trace
    the ratio that is asked for is its own, of the requests that were sent.
    """
    from kvgate.kv.assess import Question, assess  # with Numba: a second before any load

    found, traced, after_s, wrong, compared = [], list[Batch](), 0.0, 0, 0
    for made, rows in issued:
        if (batch := made.batch(rows, after_s)) is not None:
            if (wanted := made.batch(rows, after_s, wanted=True)) is not None:
                traced.append(wanted)
            found.append(batch)
            after_s = float(batch.times_s[-1])
        lengths = made.lengths(rows)
        compared, wrong = compared + lengths[0], wrong + lengths[1]
    if not found:
        return None
    if traced:
        asked = assess(traced, Question()).shared
    return Came(
        assessment=assess(found, Question()),
        asked=asked,
        wrong_lengths=wrong,
        compared_lengths=compared,
    )
