"""The times at which nothing completed: the longest gaps of one or many logs, in bounded memory.

Times are kept as one bit a millisecond: 72 h take at most 32 MB whatever the number of samples,
and logs of many jobs need not be sorted among each other.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Iterator

_BLOCK = 12  # 4,096 ms a block
_MASK = (1 << _BLOCK) - 1


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Gap:
    """A time without completions: from the last before to the first after it, by the log's clock.

    ``length_ms`` is the most that it can have been; logs that average over windows stamp a
    window's end, so that it was at least ``length_ms`` less the course's ``resolution_ms``.
    """

    length_ms: int
    begin_ms: int

    @property
    def end_ms(self) -> int:
        """Return when something completed again."""
        return self.begin_ms + self.length_ms


class Occupied:
    """The milliseconds in which something completed."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}

    def add(self, times_ms: Iterable[int]) -> None:
        """Note that something completed at each of `times_ms`."""
        blocks = self._blocks
        current, bits = -1, 0
        for time_ms in dict.fromkeys(times_ms):  # once each, in their order
            block = time_ms >> _BLOCK
            if block != current:
                if bits:
                    blocks[current] = blocks.get(current, 0) | bits
                current, bits = block, 0
            bits |= 1 << (time_ms & _MASK)
        if bits:
            blocks[current] = blocks.get(current, 0) | bits

    def merge(self, other: Occupied) -> None:
        """Take over what `other` has noted."""
        for block, bits in other._blocks.items():
            self._blocks[block] = self._blocks.get(block, 0) | bits

    def longest(
        self, most: int, *, begin_ms: int | None = None, end_ms: int | None = None
    ) -> tuple[Gap, ...]:
        """Return the `most` longest gaps, longest first, of those over 1 ms.

        `begin_ms` and `end_ms` are the job's: what lacks at its two ends counts then too.
        """
        found: list[Gap] = []
        before = begin_ms
        for block in sorted(self._blocks):
            start = block << _BLOCK
            bits = self._blocks[block]
            first = (bits & -bits).bit_length() - 1
            before = self._note(found, most, before, start + first)
            bits >>= first
            if _zeros(bits, found[0].length_ms if len(found) == most else 1):
                for at in _ones(format(bits, "b")[::-1]):
                    before = self._note(found, most, before, start + first + at)
            before = start + first + bits.bit_length() - 1
        if end_ms is not None and before is not None:
            self._note(found, most, before, end_ms)
        return tuple(sorted(found, key=lambda gap: (-gap.length_ms, gap.begin_ms)))

    @staticmethod
    def _note(found: list[Gap], most: int, before: int | None, at: int) -> int:
        if before is not None and at - before > 1:
            heapq.heappush(found, Gap(at - before, before))
            if len(found) > most:
                heapq.heappop(found)
        return at


def _zeros(bits: int, run: int) -> bool:
    """Tell whether `bits` has so many zeros in a row between ones, in log2(run) steps."""
    clear = ~bits & ((1 << bits.bit_length()) - 1)
    have = 1
    while have < run and clear:
        step = min(have, run - have)
        clear &= clear >> step
        have += step
    return clear != 0


def _ones(text: str) -> Iterator[int]:
    at = 0
    while (at := text.find("1", at + 1)) >= 0:
        yield at
