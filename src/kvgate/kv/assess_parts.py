"""An assessment in parts, each by another process: a sample's disjoint parts, then put together.

Each part of `reuse_sampled` follows the whole trace but holds only its own blocks, so a process
that follows one needs an eighth of the memory. What comes out is the same, to the last bit, as of
one process with the same rate or size. At rate 1 every block is in one part: then what an infinite
cache hits is exact, and only what depends on a capacity has an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from kvgate.errors import UsageError
from kvgate.kv.assess import Assessment, Assessor, Question, level_blocks
from kvgate.kv.reuse import Curve, keys_of
from kvgate.kv.reuse_sampled import PARTS, Sampler, sliced
from kvgate.kv.trace import Batch, Floats, Ints, Options, batches


@dataclasses.dataclass(frozen=True, slots=True)
class PartResult:
    """What one part gives: estimated tokens of each request by level, its curve and counts."""

    served: Floats
    curve: Curve
    rate: float
    distinct: int
    again: int
    intervals: Ints


def follow_part(
    paths: Sequence[str], options: Options, question: Question, part: int
) -> PartResult:
    """Follow a trace for one part of its sample; raises TraceError, UsageError as one process."""
    sampler: Sampler | None = None
    served = []
    references = tokens = 0
    for batch in batches([Path(each) for each in paths], options):
        sampler = sampler or _sampler(question, batch.block_tokens)
        mine = sampler.parts[part]
        ends = np.minimum(batch.input_tokens, np.diff(batch.starts) * batch.block_tokens)
        references += len(batch.ids)
        tokens += int(ends.sum())
        served += [mine.feed(each, keys_of(each.ids, near=0)) for each in sliced(batch)]
    if sampler is None:
        raise UsageError("no request in the trace")
    mine = sampler.parts[part]
    held = mine.tracker.table[mine.tracker.table[:, 1] != 0, 1] & 1
    return PartResult(
        served=np.concatenate(served),
        curve=mine.curve(references, tokens),
        rate=mine.rate,
        distinct=mine.tracker.distinct,
        again=int(held.sum()),
        intervals=mine.tracker.intervals,
    )


def _sampler(question: Question, block: int) -> Sampler:
    levels = np.array(level_blocks(question, block), np.int64)
    return Sampler(block, levels, rate=question.rate, size=question.size)


class Gathered(Sampler):
    """The parts of a sample that others followed, told to an Assessor batch by batch."""

    def __init__(self, parts: Iterable[PartResult]) -> None:
        """Take the parts, in their order; raises UsageError where they are of different traces."""
        self._sum: Floats | None = None
        self._rest: list[PartResult] = []
        for part in parts:
            if self._sum is None:
                self._sum = part.served.copy()
            elif self._sum.shape != part.served.shape:
                raise UsageError("the parts are of traces of different length")
            else:
                self._sum += part.served
            self._rest.append(dataclasses.replace(part, served=part.served[:0]))
        if len(self._rest) != PARTS or self._sum is None:
            raise UsageError(f"{len(self._rest)} parts of {PARTS} came back")
        self._at = 0

    def feed(self, batch: Batch) -> Floats:
        """Return the estimated tokens of each request of the next batch by level."""
        served = self._served[self._at : self._at + len(batch)]
        if len(served) < len(batch):
            raise UsageError("the trace is longer here than where its parts were followed")
        self._at += len(batch)
        found: Floats = served / PARTS
        return found

    @property
    def _served(self) -> Floats:
        if self._sum is None:
            raise UsageError("no parts")
        return self._sum

    @property
    def all_told(self) -> bool:
        """Tell whether as many requests were told as the parts followed."""
        return self._at == len(self._served)

    @property
    def distinct(self) -> float:
        """Return the estimated number of distinct blocks."""
        return float(np.mean([part.distinct / part.rate for part in self._rest]))

    @property
    def used_again(self) -> float:
        """Return the estimated share of the distinct blocks that were used at least twice."""
        held = sum(part.distinct for part in self._rest)
        return float(sum(part.again for part in self._rest) / max(held, 1))

    @property
    def rate(self) -> float:
        """Return the share of all blocks that is in the sample at the end."""
        return sum(part.rate for part in self._rest)

    @property
    def intervals(self) -> Ints:
        """Return the reuse intervals of the sample."""
        found: Ints = np.sum([part.intervals for part in self._rest], axis=0)
        return found

    def curves(self) -> list[Curve]:
        """Return each part's estimate of the whole curve."""
        return [part.curve for part in self._rest]


Follow = Callable[[Sequence[str], Options, Question], Iterable[PartResult]]
"""Has the parts of a trace followed, anywhere, and gives them in their order."""


def assess_parts(
    paths: Sequence[str], options: Options, question: Question, follow: Follow
) -> Assessment:
    """Return the assessment of a trace whose parts `follow` has followed; raises as `assess`."""
    if question.rate is None and question.size is None:
        raise UsageError(
            "parts are of a sample: an exact curve can't be put together of them",
            hint="--rate 1 looks at every block; what an infinite cache hits is exact then",
        )
    gathered = Gathered(follow(paths, options, question))
    assessor: Assessor | None = None
    for batch in batches([Path(each) for each in paths], options):
        assessor = assessor or Assessor(question, batch.block_tokens, gathered)
        assessor.feed(batch)
    if assessor is None or not gathered.all_told:
        raise UsageError("the trace is shorter here than where its parts were followed")
    return assessor.result()
