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

LIVE, CLOCK, DONE, AGAIN, ROWS, PAGES, SHIFT = range(7)
"""What a tracker counts: blocks, the next place, requests done, blocks used again; of the
directory rows and pages in use, and the bits of an id that are within its page."""

_NEAR = 6
_SPARSE = 4
_FIRST_ROWS = 2**12
_FIRST_PAGES = 2**8
_SCRATCH = 2**13


def keys_of(ids: Ints) -> Ints:
    """Return ids scattered over all bits, each to its own, to choose a sample by.

    Multiplying by an odd number and adding a shift are both one-to-one.
    """
    mixed = ids.view(np.uint64)
    for odd in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        mixed = mixed * np.uint64(odd)
        mixed ^= mixed >> np.uint64(32)
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
    2) choose a sample of the blocks by their keys, which are scattered then (`keys_of`).
    """

    def __init__(
        self, block: int, levels: Sequence[int] = (), *, limit: int = ALL, part: int = 0,
        parts: int = 1,
    ) -> None:  # fmt: skip
        self.block, self.limit, self.part, self.parts = block, limit, part, parts
        self.levels = np.array(levels, np.int64)
        self.counters = np.zeros(SHIFT + 1, np.int64)
        self.counters[SHIFT] = 0 if parts > 1 or limit < ALL else _NEAR
        self.pages = np.zeros((_FIRST_PAGES, 2), np.int64)
        self.rows = np.zeros((_FIRST_ROWS, 2), np.int64)
        self.words, self.tree = _marks(_FIRST_ROWS)
        self.blocks = np.zeros(_FIRST_ROWS + 1, np.int64)
        self.weights = np.zeros(_FIRST_ROWS + 1, np.int64)
        self.intervals = np.zeros(BUCKETS, np.int64)
        self._scratch = [np.zeros(_SCRATCH, np.int64) for _ in range(3)]

    @property
    def distinct(self) -> int:
        """Return the number of distinct blocks so far (in the sample, those held)."""
        return int(self.counters[LIVE])

    @property
    def used_again(self) -> int:
        """Return how many of the distinct blocks were used at least twice."""
        return int(self.counters[AGAIN])

    @property
    def held(self) -> Ints:
        """Return the keys of the blocks that a sample holds, in no order."""
        found: Ints = self.pages[self.pages[:, 1] != 0, 0]
        return found

    @property
    def held_again(self) -> int:
        """Return how many of the blocks that are held were used at least twice."""
        return int((self.rows[: self.counters[ROWS], 0] & 1).sum())

    def feed(self, batch: Batch, keys: Ints) -> Ints:
        """Look at a batch whose ids have `keys` (exact: are); return tokens by request and level.

        The last column are hits beyond all levels; what misses is in none.
        """
        from kvgate.kv import reuse_kernel as kernel
        from kvgate.kv.reuse_pages import State

        served = np.zeros((len(batch), len(self.levels) + 1), np.int64)
        times = np.round(batch.times_s * 1e6).astype(np.int64)
        self.counters[DONE] = 0
        asked = kernel.Requests(keys, batch.starts, times, batch.input_tokens)
        sample = kernel.Sample(self.limit, self.part, self.parts)
        while kernel.run(
            State(self.pages, self.rows, self.words, self.tree, self.counters),
            asked, self.block, sample, self.levels,
            kernel.Sums(self.blocks, self.weights, self.intervals),
            served, kernel.Scratch(*self._scratch),
        ):  # fmt: skip
            at = int(self.counters[DONE])
            self.make_room(keys[batch.starts[at] : batch.starts[at + 1]])
        return served

    def make_room(self, keys: Ints) -> None:
        """Make room for a request of `keys`: drop those at the limit, close places up, grow."""
        from kvgate.kv import reuse_kernel as kernel
        from kvgate.kv.reuse_pages import turns

        many = len(keys)
        if many > len(self._scratch[0]):
            self._scratch = [np.zeros(many, np.int64) for _ in range(3)]
        if self.limit < ALL:
            kernel.drop(self.pages, self.rows, self.words, self.limit)
        sums = np.empty(len(self.words), np.int64)
        live = int(kernel.sums_of(self.words, sums))
        used = int(self.counters[ROWS])
        kernel.renumber(self.rows, used, self.words, sums)
        if used > _SPARSE * live or (self.limit < ALL and used > live):
            self._spread(live)
        self._grow(int(turns(keys, self.counters[SHIFT])))
        self.words, self.tree = _marks(max(_FIRST_ROWS, 4 * (live + many)))
        kernel.mark_first(self.words, self.tree, live)
        self.counters[LIVE] = self.counters[CLOCK] = live
        most = min(len(self.rows), 32 * len(self.words)) + 1
        self.blocks = _grown(self.blocks, most)
        self.weights = _grown(self.weights, most)

    def _spread(self, live: int) -> None:
        """Give each of the `live` blocks a page of its own, and no row to what is none."""
        from kvgate.kv import reuse_pages

        used, shift = int(self.counters[ROWS]), int(self.counters[SHIFT])
        kept = np.zeros((_size(live, _FIRST_ROWS), 2), np.int64)
        into = np.empty(used, np.int64)
        reuse_pages.compact(self.rows, used, kept, into)
        single = np.zeros((_size(2 * live, _FIRST_PAGES), 2), np.int64)
        reuse_pages.singly(self.pages, shift, into, single)
        self.pages, self.rows = single, kept
        self.counters[ROWS] = self.counters[PAGES] = live
        self.counters[SHIFT] = 0

    def _grow(self, more: int) -> None:
        """Make the directory and the rows large enough for `more` pages."""
        from kvgate.kv.reuse_pages import rehash

        pages = int(self.counters[PAGES]) + more
        if 10 * pages > 7 * len(self.pages):
            bigger = np.zeros((_size(2 * pages, _FIRST_PAGES), 2), np.int64)
            rehash(self.pages, bigger)
            self.pages = bigger
        used = int(self.counters[ROWS])
        needed = used + (more << int(self.counters[SHIFT]))
        if needed > len(self.rows):
            rows = np.zeros((_size(needed, _FIRST_ROWS), 2), np.int64)
            rows[:used] = self.rows[:used]
            self.rows = rows

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


def _size(least: int, first: int) -> int:
    """Return the least power of 2, from `first` on, that is at least `least`."""
    return max(first, 1 << (least - 1).bit_length())


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
