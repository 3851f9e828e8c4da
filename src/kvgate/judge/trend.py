"""Tells whether a long series of windows rises or falls, though each window resembles the last.

`drift` tests a handful of independent rounds; here are hundreds of windows, each like the one
before. Mann-Kendall's variance is widened by how alike they are: K. H. Hamed, A. R. Rao, J.
Hydrology 204 (1998) 182, from the autocorrelation of the ranks after Sen's line is taken away. Of
their sum, the lags up to the first that is not significant count (lags after that are noise), it
never narrows the variance, and it is never below what an AR(1) process of the same first lag has,
whose estimate is corrected upwards for its known bias, (1 + 4ρ)/n (P. Tjøstheim, J. Paulsen,
Biometrika 70 (1983) 389). Pre-whitening (S. Yue et al., Hydrol. Process. 16 (2002) 1807) was not
taken: it fits an AR(1) only, and a service's noise is not one. Sen's slope and its interval as in
R. O. Gilbert (1987), 16.5, the interval with the widened variance.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
import operator
import statistics
from collections import Counter
from collections.abc import Sequence

from kvgate.judge.drift import MIN_POINTS, SeriesError, variance_of_s
from kvgate.judge.student import normal_above, normal_tail

MOST_PAIRED = 72
"""Points whose pairs Sen's slope takes; a longer series is thinned to medians of neighbours."""

MOST_LAGS = 100
"""Lags that are looked at for likeness; a quarter of the series at most."""

_SOUGHT = 9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Where a series goes: S, its two-sided p, and Sen's slope (a unit of time) with interval.

    ``likeness``: how many times its neighbours' likeness widened the variance of S (1: not at
    all). ``middle``: the median value. ``span``: time from the first point to the last.
    """

    points: int
    s: int
    p: float
    likeness: float
    slope: float
    low: float
    high: float
    middle: float
    span: float

    @property
    def rise(self) -> float | None:
        """Return what the line gains over the span as part of the median; None for one ≤ 0."""
        return self.slope * self.span / self.middle if self.middle > 0 else None


def course(times: Sequence[float], values: Sequence[float], *, confidence: float = 0.95) -> Course:
    """Return where `values` go over rising `times`.

    Raises SeriesError for fewer than MIN_POINTS points, unequal lengths, numbers that are not
    finite, or times that do not rise.
    """
    refuse(times, values)
    n, slopes = len(values), sorted(_slopes(*thinned(times, values)))
    slope = statistics.median(slopes)
    start = times[0]
    rest = [value - slope * (at - start) for at, value in zip(times, values, strict=True)]
    wider = likeness(rest)
    ties = [count for count in Counter(values).values() if count > 1]
    deviation = math.sqrt(variance_of_s(n, ties) * wider)
    s = count_s(values)
    z = (abs(s) - 1) / deviation if s and deviation else 0.0  # continuity: Gilbert 16.5
    low, high = _interval(slopes, normal_above((1 - confidence) / 2) * deviation, n)
    return Course(
        points=n,
        s=s,
        p=min(1.0, 2 * normal_tail(z)),
        likeness=wider,
        slope=slope,
        low=low,
        high=high,
        middle=statistics.median(values),
        span=times[-1] - start,
    )


def refuse(times: Sequence[float], values: Sequence[float]) -> None:
    """Raise SeriesError for what is no series that could be tested."""
    if len(times) != len(values):
        raise SeriesError(f"{len(times)} times and {len(values)} values are not one series")
    if len(values) < MIN_POINTS:
        raise SeriesError(f"{len(values)} points can't show a trend; it takes {MIN_POINTS}")
    if not all(map(math.isfinite, itertools.chain(times, values))):
        raise SeriesError("the series holds a number that is not finite")
    if not all(map(operator.lt, times, itertools.islice(times, 1, None))):
        raise SeriesError("the times of the series do not rise")


def count_s(values: Sequence[float]) -> int:
    """Return Mann-Kendall's S as `drift` does, in n log n comparisons: places among those before.

    A value counts those before it that are smaller, less those that are larger.
    """
    before: list[float] = []
    s = 0
    for value in values:
        smaller = bisect.bisect_left(before, value)
        upto = bisect.bisect_right(before, value, smaller)
        s += smaller - (len(before) - upto)
        before.insert(upto, value)
    return s


def ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, less n + 1: whole numbers around 0, ties shared."""
    order, n = sorted(values), len(values)
    place = {}
    at = 0
    for value, count in Counter(order).items():
        place[value] = 2 * at + count - n
        at += count
    return [place[value] for value in values]


def likeness(rest: Sequence[float], *, sought: bool = False) -> float:
    """Return n/n*: how many times less `rest` tells than as many independent values.

    `rest` is a series without its trend or step. At least 1; n at most. `sought`: the place of a
    step was, which takes away likeness too: the correction for bias is taken _SOUGHT times,
    by measurement (docs/soak-judging.md), not by theory.
    """
    ranked, n = ranks(rest), len(rest)
    whole = math.fsum(map(operator.mul, ranked, ranked))
    if not whole:
        return 1.0
    least, total, first = normal_above(0.05) / math.sqrt(n), 0.0, 0.0
    for lag in range(1, min(MOST_LAGS, n // 4) + 1):
        like = math.fsum(map(operator.mul, ranked, ranked[lag:])) / whole
        first = first or like
        if like < least:
            break
        total += (n - lag) * (n - lag - 1) * (n - lag - 2) * like
    summed = 1 + 2 * total / (n * (n - 1) * (n - 2))
    known = min(first + (_SOUGHT if sought else 1) * (1 + 4 * first) / n, 1 - 1 / n)
    modelled = (1 + known) / (1 - known) if first > 0 else 1.0
    return min(max(1.0, summed, modelled), float(n))


def thinned(
    times: Sequence[float], values: Sequence[float], most: int = MOST_PAIRED
) -> tuple[Sequence[float], Sequence[float]]:
    """Return the series, or the medians of at most `most` runs of neighbours as alike as can be."""
    n = len(values)
    if n <= most:
        return times, values
    cuts = [n * place // most for place in range(most + 1)]
    runs = list(itertools.pairwise(cuts))
    return (
        [statistics.median(times[a:b]) for a, b in runs],
        [statistics.median(values[a:b]) for a, b in runs],
    )


def _slopes(times: Sequence[float], values: Sequence[float]) -> list[float]:
    points = list(zip(times, values, strict=True))
    return [
        (later - value) / (after - at)
        for place, (at, value) in enumerate(points, 1)
        for after, later in points[place:]
    ]


def _interval(slopes: Sequence[float], reach: float, n: int) -> tuple[float, float]:
    """Return the slopes at M1 and M2 + 1 of Gilbert 16.5.2; of thinned pairs, at the same share."""
    count = len(slopes)
    part = min(1.0, reach / (n * (n - 1) / 2))
    low = math.floor(count * (1 - part) / 2)
    high = math.ceil(count * (1 + part) / 2)
    return slopes[max(0, low - 1)], slopes[min(count - 1, high)]
