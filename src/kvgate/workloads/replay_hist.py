"""A histogram of times with many digits: 128 bins an octave, so that each is known to 0.8 %.

The bins are those of HDR histograms: exact below 256 ns, then by the leading eight bits. Runs on
hosts: the standard library of Python 3.8.
"""

from __future__ import annotations

from collections.abc import Iterable

_BITS = 8


class Histogram:
    """Counts of times in nanoseconds; bins are named by their lowest time."""

    def __init__(self, counts: Iterable[tuple[int, int]] = ()) -> None:
        self.counts: dict[int, int] = {}
        for low, count in counts:
            self.counts[low] = self.counts.get(low, 0) + count

    def add(self, ns: int) -> None:
        """Count one time."""
        shift = max(0, ns.bit_length() - _BITS)
        low = ns >> shift << shift
        self.counts[low] = self.counts.get(low, 0) + 1

    def merge(self, other: Histogram) -> None:
        """Count all that `other` has."""
        for low, count in other.counts.items():
            self.counts[low] = self.counts.get(low, 0) + count

    @property
    def total(self) -> int:
        """Return how many times were counted."""
        return sum(self.counts.values())

    def at(self, rank: int) -> int:
        """Return the `rank`-th time in ns, from 1 in rising order (its bin's middle)."""
        seen = 0
        for low in sorted(self.counts):
            seen += self.counts[low]
            if seen >= rank:
                return low + (width(low) - 1) // 2
        raise ValueError(f"of {seen} times there is no {rank}th")

    def pairs(self) -> list[tuple[int, int]]:
        """Return (lowest ns, count) of every bin in use, rising: what is stored."""
        return sorted(self.counts.items())


def width(low: int) -> int:
    """Return how many nanoseconds the bin that begins at `low` covers."""
    return 1 << max(0, low.bit_length() - _BITS)
