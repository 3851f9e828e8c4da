"""Reuse distances of a sample of the blocks, for traces beyond memory, with a measured error.

SHARDS (C. Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015): blocks are
chosen by a hash of their id, so that a block's every use is in the sample or none; a distance of
the sample divided by the rate estimates the real one. With a fixed size the rate falls as blocks
come, and what was counted at a higher rate keeps its weight. The difference between the expected
and the sampled number of references is added at distance 1 (SHARDS-adj, section 3.3 there):
most of it is due to few blocks that are in every request.

The error is measured, not assumed: the sample is of PARTS disjoint parts with a curve each; what
is told is their mean, and ± is Student's 95 % interval of that mean. A bias that all parts share
is not in it. Ids have to stand for their block and all before it: only of sampled blocks can be
known whether they are held.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from kvgate.errors import UsageError
from kvgate.judge.student import t_above
from kvgate.kv.reuse import ALL, BUCKETS, Curve, Tracker, keys_of
from kvgate.kv.trace import Batch, Floats, Ints

PARTS = 8
"""Disjoint parts of a sample; a power of 2."""

LEAST_SIZE = 64 * PARTS
"""Blocks of a sample of fixed size, at least."""

SLICE = 2**16
"""Requests' blocks between two looks at the size, about."""


@dataclasses.dataclass(frozen=True, slots=True)
class Followed:
    """What one part has found: its curve and rate, and of its blocks how many, and used again."""

    curve: Curve
    rate: float
    distinct: int
    again: int
    intervals: Floats


class Estimates:
    """What the parts of a sample tell together; ``curves`` are their estimates of the whole."""

    def __init__(self, parts: Sequence[Followed]) -> None:
        self._parts = parts
        self.curves = [part.curve for part in parts]

    @property
    def distinct(self) -> float:
        """Return the estimated number of distinct blocks."""
        return float(np.mean([part.distinct / part.rate for part in self._parts]))

    @property
    def used_again(self) -> float:
        """Return the estimated share of the distinct blocks that were used at least twice."""
        held = sum(part.distinct for part in self._parts)
        return sum(part.again for part in self._parts) / max(held, 1)

    @property
    def rate(self) -> float:
        """Return the share of all blocks that is in the sample at the end."""
        return sum(part.rate for part in self._parts)

    @property
    def intervals(self) -> Floats:
        """Return the estimated reuse intervals of the whole."""
        mean: Floats = np.mean([part.intervals for part in self._parts], axis=0)
        return corrected(mean, self.curves[0].references - self.distinct)

    @property
    def intervals_of_parts(self) -> list[Floats]:
        """Return each part's estimate of the reuse intervals of the whole."""
        return [
            corrected(part.intervals, part.curve.references - part.distinct / part.rate)
            for part in self._parts
        ]


def corrected(intervals: Floats, expected: float) -> Floats:
    """Return reuse intervals that are as many as `expected`; what differs is of the shortest.

    As with distances: it is due to few blocks that are in every request, or to their absence.
    """
    excess = intervals.sum() - max(0.0, expected)
    if excess <= 0:
        return np.concatenate(([intervals[0] - excess], intervals[1:]))
    left: Floats = np.maximum(0.0, np.cumsum(intervals) - excess)
    return np.diff(left, prepend=0.0)


class Sampling(Protocol):
    """A sample that is told a trace batch by batch."""

    def feed(self, batch: Batch) -> Floats:
        """Return the estimated tokens of each request of the next batch by serving level."""

    def estimates(self) -> Estimates:
        """Return what the sample tells of what was fed."""


class _Part:
    """One part of the sample: a tracker, and what it counted at higher rates."""

    def __init__(self, block: int, levels: Ints, part: int, rate: float, size: int | None) -> None:
        self.tracker = Tracker(
            block, (0,) * len(levels), limit=max(1, round(rate * ALL)), part=part, parts=PARTS
        )
        self.levels, self.size = levels, size
        self.settled: list[tuple[Floats, Floats, Floats]] = []
        self.references = self.tokens = 0.0
        self.intervals = np.zeros(BUCKETS)

    @property
    def rate(self) -> float:
        """Return the share of all blocks that this part has now."""
        return self.tracker.limit / ALL / PARTS

    def feed(self, batch: Batch, keys: Ints) -> Floats:
        """Return the estimated tokens of each request by level."""
        self.tracker.levels = np.floor(self.levels * self.rate).astype(np.int64)
        served = self.tracker.feed(batch, keys) / self.rate
        if self.size is not None and self.tracker.distinct > self.size:
            self._shrink(self.size)
        return served

    def _shrink(self, size: int) -> None:
        """Lower the rate until nine tenths of `size` blocks are left."""
        self._settle()
        tracker = self.tracker
        hashes = np.sort((tracker.held >> 20) & 0xFFFFFFFF)
        tracker.limit = max(1, int(hashes[9 * size // 10]))
        tracker.make_room(np.zeros(1, np.int64))

    def _settle(self) -> None:
        """Put what was counted at this rate aside, as estimates of the whole."""
        blocks, weights = self.tracker.blocks, self.tracker.weights
        places = np.flatnonzero(blocks[1:]) + 1
        rate = self.rate
        self.settled.append((places / rate, blocks[places] / rate, weights[places] / rate))
        self.references += float(blocks.sum()) / rate
        self.tokens += float(weights.sum()) / rate
        self.intervals += self.tracker.intervals / rate
        for counted in (blocks, weights, self.tracker.intervals):
            counted[:] = 0

    def followed(self, references: int, tokens: int) -> Followed:
        """Return what this part has found; `references` and `tokens` are of the whole trace."""
        tracker = self.tracker
        again = tracker.held_again
        curve = self._curve(references, tokens)
        return Followed(curve, self.rate, tracker.distinct, again, self.intervals)

    def _curve(self, references: int, tokens: int) -> Curve:
        """Return this part's estimate of the whole curve; the difference may be below 0."""
        self._settle()
        more = (1.0, references - self.references, tokens - self.tokens)
        columns = zip(*self.settled, strict=True)
        distances, blocks, weights = (
            np.concatenate([*column, [first]]) for column, first in zip(columns, more, strict=True)
        )
        order = np.argsort(distances, kind="stable")
        return Curve(
            distances=distances[order],
            blocks=np.cumsum(blocks[order]),
            tokens=np.cumsum(weights[order]),
            references=float(references),
            input_tokens=float(tokens),
        )


class Sampler:
    """Follows a trace as a Tracker does, by a sample: of a fixed rate, or of at most `size`."""

    def __init__(
        self,
        block: int,
        levels: Ints,
        *,
        rate: float | None = None,
        size: int | None = None,
    ) -> None:
        """Make the parts; raises UsageError for a rate or a size that can't be."""
        if (rate is None) == (size is None):
            raise UsageError("a sample has a rate or a size")
        if rate is not None and not 0 < rate <= 1:
            raise UsageError(f"a rate of {rate:g}: it is above 0 and at most 1")
        if size is not None and size < LEAST_SIZE:
            raise UsageError(f"a sample of {size} blocks: at least {LEAST_SIZE}")
        each = None if size is None else size // PARTS
        self.parts = [_Part(block, levels, part, rate or 1.0, each) for part in range(PARTS)]
        self.references = self.tokens = 0

    def feed(self, batch: Batch) -> Floats:
        """Look at a batch; return the estimated tokens of each request by serving level."""
        self.count(batch)
        return np.concatenate([self._slice(piece) for piece in sliced(batch)])

    def count(self, batch: Batch) -> None:
        """Count a batch among what there was to hit."""
        self.references += len(batch.ids)
        counts = np.diff(batch.starts)
        ends = np.minimum(batch.input_tokens, counts * self.parts[0].tracker.block)
        self.tokens += int(ends.sum())

    def _slice(self, batch: Batch) -> Floats:
        keys = keys_of(batch.ids)
        found: Floats = np.mean([part.feed(batch, keys) for part in self.parts], axis=0)
        return found

    def estimates(self) -> Estimates:
        """Return what the sample tells of what was fed."""
        return Estimates([part.followed(self.references, self.tokens) for part in self.parts])


def sliced(batch: Batch) -> Iterator[Batch]:
    """Yield `batch` in pieces of about SLICE blocks, of whole requests."""
    first = 0
    while first < len(batch):
        last = int(np.searchsorted(batch.starts, batch.starts[first] + SLICE, side="right")) - 1
        last = max(last, first + 1)
        yield dataclasses.replace(
            batch,
            lines=batch.lines[first:last],
            times_s=batch.times_s[first:last],
            input_tokens=batch.input_tokens[first:last],
            output_tokens=batch.output_tokens[first:last],
            sessions=batch.sessions[first:last],
            starts=batch.starts[first : last + 1] - batch.starts[first],
            ids=batch.ids[batch.starts[first] : batch.starts[last]],
        )
        first = last


def middle(curves: list[Curve], capacity: float) -> tuple[float, float]:
    """Return the share of tokens hit at `capacity`, and the half of its 95 % interval."""
    shares = np.array([each.hits(capacity)[1] / each.input_tokens for each in curves])
    off = t_above(0.025, len(shares) - 1) * float(shares.std(ddof=1)) / math.sqrt(len(shares))
    return max(0.0, float(shares.mean())), off
