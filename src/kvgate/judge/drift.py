"""Tells whether a series drifts: the Mann-Kendall trend test and Sen's slope.

Both are free of assumptions about the distribution, and one outlier does not sway them. Sources:
H. B. Mann, Econometrica 13 (1945) 245; M. G. Kendall, Rank Correlation Methods (1975); P. K. Sen,
J. Am. Stat. Assoc. 63 (1968) 1379; formulas as in R. O. Gilbert, Statistical Methods for
Environmental Pollution Monitoring (1987), sections 16.4.1, 16.4.2 and 16.5.1.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence

from kvgate.errors import KvgateError

MIN_POINTS = 5
"""Fewer points can't show a trend: of 4, even the strictest order has p = 2/4! = 0.083."""

EXACT_UP_TO = 10
"""Series up to this long, without ties, get the exact p; the normal one is for n > 10 (Gilbert)."""


class SeriesError(KvgateError):
    """A series can't be tested for a trend: too short, or its numbers can't carry one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """What a series does over its whole length.

    ``s`` is Mann-Kendall's statistic (pairs that rise less pairs that fall), ``p`` its two-sided
    probability without a trend (rounded to 6 decimals). ``slope`` is Sen's, in units of y per
    unit of x. ``rise`` is what Sen's line gains from the first x to the last, divided by the
    median of y: +0.10 is 10 % up over the whole series.
    """

    points: int
    s: int
    p: float
    slope: float
    rise: float

    def significant(self, level: float = 0.05) -> bool:
        """Tell whether a series without a trend would look like this less often than `level`."""
        return self.p < level


def trend(x: Sequence[float], y: Sequence[float]) -> Trend:
    """Return the trend of `y` over strictly rising `x` (times, or window numbers).

    Raises SeriesError for fewer than MIN_POINTS points, unequal lengths, numbers that are not
    finite, an `x` that does not rise, or a median of `y` that is not positive (a relative rise
    needs something to be relative to).
    """
    _refuse(x, y)
    s = mann_kendall_s(y)
    slope = sen_slope(x, y)
    middle = statistics.median(y)
    return Trend(points=len(y), s=s, p=_p(s, y), slope=slope, rise=slope * (x[-1] - x[0]) / middle)


def mann_kendall_s(y: Sequence[float]) -> int:
    """Return S: the sum of sign(y[j] - y[i]) over all pairs i < j."""
    return sum((b > a) - (b < a) for a, b in itertools.combinations(y, 2))


def sen_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return Sen's slope: the median of (y[j] - y[i]) / (x[j] - x[i]) over all pairs i < j."""
    points = itertools.combinations(zip(x, y, strict=True), 2)
    return statistics.median((b[1] - a[1]) / (b[0] - a[0]) for a, b in points)


def _refuse(x: Sequence[float], y: Sequence[float]) -> None:
    if len(x) != len(y):
        raise SeriesError(f"{len(x)} places and {len(y)} values are not one series")
    if len(y) < MIN_POINTS:
        raise SeriesError(f"{len(y)} points can't show a trend; it takes {MIN_POINTS}")
    if not all(math.isfinite(each) for each in (*x, *y)):
        raise SeriesError("the series holds a number that is not finite")
    if any(b <= a for a, b in itertools.pairwise(x)):
        raise SeriesError("the places of the series do not rise")
    if statistics.median(y) <= 0:
        raise SeriesError("the median of the series is not positive: no relative rise")


def _p(s: int, y: Sequence[float]) -> float:
    """Return the two-sided p of S: exact for short series without ties, else the normal's."""
    ties = [count for count in Counter(y).values() if count > 1]
    if len(y) <= EXACT_UP_TO and not ties:
        return round(_exact_p(abs(s), len(y)), 6)
    deviation = math.sqrt(variance_of_s(len(y), ties))  # 0 only where all are equal, so S is 0
    z = (abs(s) - 1) / deviation if s else 0.0  # continuity correction, Gilbert (16.5)
    return round(math.erfc(z / math.sqrt(2)), 6)


def variance_of_s(n: int, ties: Sequence[int]) -> float:
    """Return the variance of S without a trend (Gilbert 16.4); `ties` are the sizes of ties."""
    return (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18


@functools.lru_cache(maxsize=512)
def _exact_p(s: int, n: int) -> float:
    """Return P(|S| >= s) over all n! orders, by counting orders by their inversions.

    S = n(n-1)/2 - 2·inversions; appending the k-th value adds 0 to k-1 inversions (Kendall 1975).
    """
    orders = [1]
    for k in range(2, n + 1):
        longer = [0] * (len(orders) + k - 1)
        for inversions, count in enumerate(orders):
            for added in range(k):
                longer[inversions + added] += count
        orders = longer
    most = n * (n - 1) // 2
    extreme = sum(count for i, count in enumerate(orders) if abs(most - 2 * i) >= s)
    return extreme / math.factorial(n)
