"""What a load has really issued, and what of it is shared: its evidence, assessed as a trace is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from kvgate.kv.assess import Assessment, Question, assess
from kvgate.kv.trace import Batch
from kvgate.load.prompts import Tokens, block_ids
from kvgate.load.rows import Row

BLOCK = 16
"""Tokens of a block that is looked at: what engines share prefixes by at their finest."""


class Issued:
    """The prompts that a source has made, each as the numbers of its blocks.

    Of what was made ahead only that counts whose row there is: it was sent.
    """

    def __init__(self, block: int = BLOCK) -> None:
        self.block = block
        self._made: dict[tuple[str, int], tuple[int, int, Tokens]] = {}
        self._asked: dict[tuple[str, int], int] = {}

    def add(
        self, session: str, turn: int, prompt: Tokens, output_tokens: int, asked: int | None
    ) -> None:
        """Keep what `prompt` is made of; `asked` is its exact length, None where nobody knows it.

        A text's words are looked at as its tokens are.
        """
        self._made[session, turn] = (len(prompt), output_tokens, block_ids(prompt, self.block))
        if asked is not None:
            self._asked[session, turn] = asked

    def take(self, other: Issued) -> None:
        """Take what another client of the same load has made."""
        self._made |= other._made
        self._asked |= other._asked

    def asked_tokens(self, row: Row) -> int | None:
        """Return how many tokens the prompt of `row` was to have, None where nobody knows it."""
        return self._asked.get((row.session, row.turn))

    def batch(self, rows: Iterable[Row], after_s: float = 0.0) -> Batch | None:
        """Return the requests of `rows` in order of sending, `after_s` later; None for none."""
        sent = [row for row in sorted(rows, key=_when) if (row.session, row.turn) in self._made]
        if not sent:
            return None
        made = [self._made[row.session, row.turn] for row in sent]
        return Batch(
            file="issued",
            block_tokens=self.block,
            lines=np.arange(1, len(sent) + 1, dtype=np.int64),
            times_s=np.array([after_s + row.sent_s for row in sent], np.float64),
            input_tokens=np.array([each[0] for each in made], np.int64),
            output_tokens=np.array([each[1] for each in made], np.int64),
            starts=np.cumsum([0, *(len(each[2]) for each in made)], dtype=np.int64),
            ids=np.concatenate([each[2] for each in made]),
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

    ``asked`` None: none was asked for. ``answer_tokens`` is how far answers let it be off: turns
    share what was answered, of which nobody knows before how it falls into blocks.
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

    A prompt's length is compared where the engine tells it; what failed tells nothing.
    """
    found, after_s, wrong, compared = [], 0.0, 0, 0
    for made, rows in issued:
        if (batch := made.batch(rows, after_s)) is not None:
            found.append(batch)
            after_s = float(batch.times_s[-1])
        told = [(row.prompt_tokens, made.asked_tokens(row)) for row in rows]
        both = [(had, wanted) for had, wanted in told if had is not None and wanted is not None]
        compared += len(both)
        wrong += sum(had != wanted for had, wanted in both)
    if not found:
        return None
    return Came(
        assessment=assess(found, Question()),
        asked=asked,
        wrong_lengths=wrong,
        compared_lengths=compared,
    )
