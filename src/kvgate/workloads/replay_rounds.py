"""Rounds of the two factors, dedup and parallel reads, on one host: all four cells in each."""

from __future__ import annotations

import dataclasses
import random

from kvgate.errors import CommandError, UsageError
from kvgate.witness import Witness
from kvgate.workloads import replay
from kvgate.workloads.replay_result import Level
from kvgate.workloads.replay_two import Cells, TwoByTwo, two_by_two

DEDUP_PCT = 80
"""How much of each session is the same in all, where data can be deduplicated."""

DEFAULT_READERS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Rounds:
    """What the rounds came to; ``not_cold`` holds, level by level, why it does not count."""

    cells: tuple[Cells, ...]
    found: TwoByTwo
    not_cold: tuple[str, ...]


def kinds(spec: replay.Spec, number: int, *, dedup: bool) -> replay.Spec:
    """Return a round's replay of one kind of data: both ways of reading, in random order.

    Data of each round is its own, so that an array can't hold it from the round before.
    """
    readers = max((each.readers for each in spec.levels), default=1)
    concurrency = max((each.concurrency for each in spec.levels), default=1)
    ways = [
        replay.Reads(concurrency=concurrency, readers=each)
        for each in (1, readers if readers > 1 else DEFAULT_READERS)
    ]
    random.Random(f"{spec.seed}/{number}/{dedup}").shuffle(ways)  # noqa: S311  reproducible
    shared = max(1, spec.chunks * DEDUP_PCT // 100) if dedup else 0
    return dataclasses.replace(
        spec,
        seed=spec.seed * 100_003 + 2 * number + dedup,
        shared=shared,
        levels=tuple(ways),
        fill=(),
        full=False,
        plant=False,
    )


def order(seed: int, number: int) -> list[bool]:
    """Return in which order a round takes its kinds of data."""
    both = [False, True]
    random.Random(f"{seed}/{number}").shuffle(both)  # noqa: S311  reproducible, guards nothing
    return both


def rounds(witness: Witness, spec: replay.Spec, many: int) -> Rounds:
    """Measure `many` rounds and return gains and interaction. Raises as `replay.run` does."""
    cells, problems = [], []
    for number in range(many):
        rates: dict[tuple[bool, bool], float] = {}
        for dedup in order(spec.seed, number):
            (told,) = replay.run([witness], kinds(spec, number, dedup=dedup))
            if told.found.problems or told.found.damaged:
                why = "; ".join([*told.found.problems, *told.found.damages])
                raise CommandError(witness.host.name, f"round {number + 1}: {why}")
            levels = told.found.of_phase("restore")
            problems += [why for each in levels if (why := each.not_cold or each.disturbed)]
            rates.update({(dedup, level.line["readers"] > 1): _rate(level) for level in levels})
        cells.append(cells_of(rates))
    return Rounds(tuple(cells), two_by_two(cells), tuple(problems))


def cells_of(rates: dict[tuple[bool, bool], float]) -> Cells:
    """Return a round's cells by (dedup, parallel); raises UsageError where one is missing."""
    try:
        return Cells(*(rates[dedup, way] for dedup in (False, True) for way in (False, True)))
    except KeyError as err:
        raise UsageError(f"a round lacks the cell {err.args[0]} (dedup, parallel)") from err


def _rate(level: Level) -> float:
    rate = level.rate("read")
    if rate is None:
        raise UsageError("a round restored nothing")
    return rate
