"""Reuse of prefix blocks: exact LRU hits of every capacity at once, by reuse distances.

**The rule.** One LRU list of blocks, the last used first. A request looks all its blocks up as
the list is when it arrives; then they become the last used, its first block the very last one.
So of one request the tail is evicted before the head, as engines do it (vLLM's prefix cache frees
a request's blocks in reverse order), and a request that is larger than the cache leaves its
head there. Everything missed is stored.

The *distance* of a block is its place in that list, from 1, when it is looked up: a cache of C
blocks holds it if and only if the distance is at most C (LRU is a stack algorithm: R. L. Mattson
et al., "Evaluation techniques for storage hierarchies", 1970). A block *hits* at C only if it and
all before it in its request are held, so the largest distance up to it counts. Where an id stands
for its block and all before it, distances grow along a request by themselves, and the two rules
are one. With requests of one block it is the classic LRU on a stream of references.

A whole block takes its place in a cache even where it is the last and partial; tokens are counted
as they are, ``min(hits × block, input_length)`` a request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvgate.kv.trace import Batch, Floats, Ints

ALL = 2**32
"""The limit below which every block is in the sample."""

A_DECADE = 20
"""Buckets of the reuse intervals a decade, from 1 µs up."""

BUCKETS = 14 * A_DECADE
"""Buckets of the reuse intervals: up to 10⁸ s."""

_FIRST_SLOTS = 2**12
_SCRATCH = 2**13


def keys_of(ids: Ints, near: int = 3) -> Ints:
    """Return ids scattered over the bits, each to its own; the last `near` bits stay as they are.

    So neighbours, as numbered ids often are, stay near each other in the table. Multiplying by
    an odd number and adding a shift are both one-to-one on the other bits.
    """
    bits = np.uint64(64 - near)
    mask = np.uint64(2**64 - 1) >> np.uint64(near)
    mixed = ids.view(np.uint64) >> np.uint64(near)
    for odd in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        mixed *= np.uint64(odd)
        mixed &= mask
        mixed ^= mixed >> (bits // np.uint64(2))
    mixed <<= np.uint64(near)
    mixed |= ids.view(np.uint64) & np.uint64(2**near - 1)
    return mixed.view(np.int64)


@dataclasses.dataclass(frozen=True, slots=True)
class Curve:
    """Hits by capacity: up to ``distances[i]`` blocks (growing) add up to ``blocks[i]`` hits.

    ``tokens`` likewise; the last entries are the hits of an infinite cache. ``references`` and
    ``input_tokens`` are what there was to hit.
    """

    distances: Floats
    blocks: Floats
    tokens: Floats
    references: float
    input_tokens: float

    def hits(self, capacity: float) -> tuple[float, float]:
        """Return the blocks and tokens that a cache of `capacity` blocks hits."""
        at = int(np.searchsorted(self.distances, capacity, side="right")) - 1
        return (float(self.blocks[at]), float(self.tokens[at])) if at >= 0 else (0.0, 0.0)

    @property
    def most(self) -> tuple[float, float]:
        """Return the blocks and tokens that an infinite cache hits."""
        return self.hits(np.inf)


class Tracker:
    """Follows a trace, batch by batch; its memory is that of the distinct blocks.

    ``levels`` are cache sizes in blocks, growing; ``limit`` and ``part`` of ``parts`` (a power of
    2) choose a sample of the blocks by their keys.
    """

    def __init__(
        self, block: int, levels: Sequence[int] = (), *, limit: int = ALL, part: int = 0,
        parts: int = 1,
    ) -> None:  # fmt: skip
        self.block, self.limit, self.part, self.parts = block, limit, part, parts
        self.levels = np.array(levels, np.int64)
        self.counters = np.zeros(4, np.int64)
        self.table = np.zeros((_FIRST_SLOTS, 3), np.int64)
        self.words, self.tree = _marks(_FIRST_SLOTS)
        self.blocks = np.zeros(_FIRST_SLOTS, np.int64)
        self.weights = np.zeros(_FIRST_SLOTS, np.int64)
        self.intervals = np.zeros(BUCKETS, np.int64)
        self._scratch = [np.zeros(_SCRATCH, np.int64) for _ in range(3)]

    @property
    def distinct(self) -> int:
        """Return the number of distinct blocks so far (in the sample, those held)."""
        return int(self.counters[0])

    @property
    def used_again(self) -> int:
        """Return how many of the distinct blocks were used at least twice."""
        return int(self.counters[3])

    def feed(self, batch: Batch, keys: Ints) -> Ints:
        """Look at a batch whose ids have `keys`; return tokens by request and serving level.

        The last column are hits beyond all levels; what misses is in none.
        """
        from kvgate.kv import reuse_kernel as kernel

        served = np.zeros((len(batch), len(self.levels) + 1), np.int64)
        times = np.round(batch.times_s * 1e6).astype(np.int64)
        self.counters[2] = 0
        asked = kernel.Requests(keys, batch.starts, times, batch.input_tokens)
        sample = kernel.Sample(self.limit, self.part, self.parts)
        while kernel.run(
            kernel.State(self.table, self.words, self.tree, self.counters),
            asked, self.block, sample, self.levels,
            kernel.Sums(self.blocks, self.weights, self.intervals),
            served, kernel.Scratch(*self._scratch),
        ):  # fmt: skip
            at = int(self.counters[2])
            self.make_room(int(batch.starts[at + 1] - batch.starts[at]))
        return served

    def make_room(self, more: int) -> None:
        """Make room for `more` blocks: drop those at the limit, close the places up, grow."""
        from kvgate.kv import reuse_kernel as kernel

        if more > len(self._scratch[0]):
            self._scratch = [np.zeros(more, np.int64) for _ in range(3)]
        if self.limit < ALL:
            kernel.drop(self.table, self.words, self.limit)
        sums = np.empty(len(self.words), np.int64)
        live = int(kernel.sums_of(self.words, sums))
        slots = _FIRST_SLOTS
        while 10 * (live + more) > 6 * slots:
            slots *= 2
        if self.limit == ALL and slots <= len(self.table):
            kernel.renumber(self.table, self.words, sums)
        else:
            bigger = np.zeros((slots, 3), np.int64)
            kernel.rebuild(self.table, bigger, self.words, sums)
            self.table = bigger
        self.words, self.tree = _marks(max(2 * slots, 4 * (live + more)))
        kernel.mark_first(self.words, self.tree, live)
        self.counters[0] = self.counters[1] = live
        self.blocks = _grown(self.blocks, slots)
        self.weights = _grown(self.weights, slots)

    def curve(self) -> Curve:
        """Return the hits so far, by capacity."""
        distances = np.flatnonzero(self.blocks[1:]) + 1
        return Curve(
            distances=distances.astype(np.float64),
            blocks=np.cumsum(self.blocks[distances]).astype(np.float64),
            tokens=np.cumsum(self.weights[distances]).astype(np.float64),
            references=float(self.blocks.sum()),
            input_tokens=float(self.weights.sum()),
        )


def _marks(places: int) -> tuple[Ints, Ints]:
    """Return no marks on at least `places` places, and the tree of their counts."""
    words = -(-places // 32)
    return np.zeros(words, np.int64), np.zeros(words + 1, np.int64)


def _grown(column: npt.NDArray[np.int64], size: int) -> Ints:
    if len(column) >= size:
        return column
    more = np.zeros(size, np.int64)
    more[: len(column)] = column
    return more
