"""fio's latency bins and percentiles from them, only where the sample carries them.

Bins are as fio has them (stat.c, plat_val_to_idx): 64 a power of two, so within 1/64 of the value.
A percentile is the nearest rank (Hyndman and Fan type 1), told as the upper bound of its bin: a
latency is never told as less than it was.
"""

from __future__ import annotations

import bisect
import dataclasses
import decimal
import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from fiopy.errors import FioOutputError

_BITS = 6
_PER_GROUP = 1 << _BITS
_GROUPS_NS = 29  # since fio 3.0
_GROUPS_US = 19  # fio 2.x
COARSEST = 6
"""The most that ``log_hist_coarseness`` takes; each step makes one bin of two."""


@dataclasses.dataclass(frozen=True, slots=True)
class Percentile:
    """One percentile of latencies in ns; None with the reason where the sample has none."""

    percent: float
    ns: float | None
    because: str = ""


def index(value: int) -> int:
    """Return the bin of `value` (whole, not negative)."""
    beyond = value.bit_length() - 1 - _BITS
    if beyond <= 0:
        return value
    return ((beyond + 1) << _BITS) + ((value >> beyond) & (_PER_GROUP - 1))


def upper(number: int) -> int:
    """Return the largest value that falls into bin `number`."""
    if number < 2 * _PER_GROUP:
        return number
    beyond = (number >> _BITS) - 1
    return ((_PER_GROUP + (number & (_PER_GROUP - 1)) + 1) << beyond) - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a histogram log: how many, how many bins in each, and the ns of one unit."""

    columns: int
    stride: int
    unit_ns: int

    @classmethod
    def of(cls, columns: int) -> Layout:
        """Return the layout with so many columns: it tells fio's unit and coarseness by itself."""
        for groups, unit_ns in ((_GROUPS_NS, 1), (_GROUPS_US, 1000)):
            for coarseness in range(COARSEST + 1):
                if groups * _PER_GROUP >> coarseness == columns:
                    return cls(columns, 1 << coarseness, unit_ns)
        raise FioOutputError(
            f"a histogram of {columns} bins is none of fio's",
            hint="1856 bins (fio 3.x), 1216 (2.x), or a power of two fewer",
        )

    def upper_ns(self, column: int) -> int:
        """Return the largest latency, in ns, that is counted in `column`."""
        return upper((column + 1) * self.stride - 1) * self.unit_ns


@functools.cache
def least_sample(percent: float) -> int:
    """Return how many values a percentile takes: 2 for 50, 100 for 99, 1000 for 99.9."""
    exact = _exact(percent)
    return math.ceil(100 / min(exact, 100 - exact))


def percentiles(counts: Mapping[int, int], percents: Iterable[float]) -> tuple[Percentile, ...]:
    """Return the percentiles of `counts` (largest value of a bin in ns → how many)."""
    bounds = sorted(counts)
    sums = list(itertools.accumulate(counts[bound] for bound in bounds))
    total = sums[-1] if sums else 0
    found: list[Percentile] = []
    for percent in percents:
        least = least_sample(percent)
        if total < least:
            few = f"p{percent:g} takes {least} latencies; there are {total}"
            found.append(Percentile(percent, None, few))
            continue
        rank = math.ceil(_exact(percent) * total / 100)
        found.append(Percentile(percent, bounds[bisect.bisect_left(sums, rank)]))
    return tuple(found)


@functools.cache
def _exact(percent: float) -> Fraction:
    exact = Fraction(decimal.Decimal(repr(percent)))
    if not 0 < exact < 100:
        raise ValueError(f"{percent!r} is no percentile between 0 and 100")
    return exact
