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
from kvgate.kv.reuse import keys_of
from kvgate.kv.reuse_sampled import PARTS, Estimates, Followed, Sampler, sliced
from kvgate.kv.trace import Batch, Floats, Options, batches


@dataclasses.dataclass(frozen=True, slots=True)
class PartResult:
    """What one part gives: estimated tokens of each request by level, and what it has found."""

    served: Floats
    followed: Followed


def follow_part(
    paths: Sequence[str], options: Options, question: Question, part: int
) -> PartResult:
    """Follow a trace for one part of its sample; raises TraceError, UsageError as one process."""
    sampler: Sampler | None = None
    served = []
    for batch in batches([Path(each) for each in paths], options):
        sampler = sampler or _sampler(question, batch.block_tokens)
        sampler.count(batch)
        mine = sampler.parts[part]
        served += [mine.feed(each, keys_of(each.ids)) for each in sliced(batch)]
    if sampler is None:
        raise UsageError("no request in the trace")
    followed = sampler.parts[part].followed(sampler.references, sampler.tokens)
    return PartResult(np.concatenate(served), followed)


def _sampler(question: Question, block: int) -> Sampler:
    levels = np.array(level_blocks(question, block), np.int64)
    return Sampler(block, levels, rate=question.rate, size=question.size)


class Gathered:
    """The parts of a sample that others followed, told to an Assessor batch by batch."""

    def __init__(self, parts: Iterable[PartResult]) -> None:
        """Take the parts, in their order; raises UsageError where they are of different traces."""
        total: Floats | None = None
        self._followed: list[Followed] = []
        for part in parts:
            if total is None:
                total = part.served.copy()
            elif total.shape != part.served.shape:
                raise UsageError("the parts are of traces of different length")
            else:
                total += part.served
            self._followed.append(part.followed)
        if len(self._followed) != PARTS or total is None:
            raise UsageError(f"{len(self._followed)} parts of {PARTS} came back")
        self._served, self._at = total, 0

    def feed(self, batch: Batch) -> Floats:
        """Return the estimated tokens of each request of the next batch by level."""
        served = self._served[self._at : self._at + len(batch)]
        if len(served) < len(batch):
            raise UsageError("the trace is longer here than where its parts were followed")
        self._at += len(batch)
        found: Floats = served / PARTS
        return found

    @property
    def all_told(self) -> bool:
        """Tell whether as many requests were told as the parts followed."""
        return self._at == len(self._served)

    def estimates(self) -> Estimates:
        """Return what the parts tell together."""
        return Estimates(self._followed)


Follow = Callable[[Sequence[str], Options, Question], Iterable[PartResult]]
"""Has the parts of a trace followed, anywhere, and gives them in their order."""


def assess_parts(
    paths: Sequence[str], options: Options, question: Question, follow: Follow
) -> Assessment:
    """Return the assessment of a trace whose parts `follow` has followed; raises as `assess`."""
    if question.rate is None and question.size is None:
        raise UsageError(
            "parts are of a sample: an exact curve can't be put together of them",
            hint="follow it whole; or --rate 1: what an infinite cache hits is exact then",
        )
    gathered = Gathered(follow(paths, options, question))
    assessor: Assessor | None = None
    for batch in batches([Path(each) for each in paths], options):
        assessor = assessor or Assessor(question, batch.block_tokens, gathered)
        assessor.feed(batch)
    if assessor is None or not gathered.all_told:
        raise UsageError("the trace is shorter here than where its parts were followed")
    return assessor.result()
