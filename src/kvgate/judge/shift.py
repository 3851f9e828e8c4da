"""Tells whether a series steps from one level to another, when, and by what share.

The place is A. N. Pettitt's, Appl. Statist. 28 (1979) 126: where the ranks before and after differ
most, so that no outlier counts for more than its rank. His probability holds for independent
values, and ranks can't tell a step of five deviations from one of fifty; so the sum that leads up
to that place (CUSUM) is taken of values cut at 3 scaled median deviations from their own level,
and measured against the long-run deviation, which the likeness of neighbours widens
(`trend.likeness`, of what is left when the step is taken away). Its probability is that of the
largest reach of a Brownian bridge (Kolmogorov's distribution; E. S. Page, Biometrika 41 (1954)
100; long-run variance: W. Ploberger, W. Krämer, Econometrica 60 (1992) 271).
More steps by halving: each side is looked at again (A. J. Scott, M. Knott, Biometrics 30 (1974)
507).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import statistics
from collections.abc import Iterator, Sequence

from kvgate.judge.cycle import SCALED
from kvgate.judge.trend import likeness, ranks, refuse

LEAST_SIDE = 6
"""Points on each side of a step: fewer are an outlier, not a level."""

_CUT = 3
MOST_DEEP = 3
"""Times that a side is halved again: 7 steps at most."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change of level before the point `at` (its index), at `time`; p is of there being none."""

    at: int
    time: float
    p: float
    before: float
    after: float

    @property
    def share(self) -> float | None:
        """Return the change as part of the level before; None where that is not above 0."""
        return (self.after - self.before) / self.before if self.before > 0 else None


def step(times: Sequence[float], values: Sequence[float]) -> Step | None:
    """Return the likeliest step of the series; None where it is too short or all are equal.

    Raises SeriesError as `trend.course` does.
    """
    refuse(times, values)
    n = len(values)
    if n < 2 * LEAST_SIDE:
        return None
    sums = list(itertools.accumulate(ranks(values)))
    at = max(range(LEAST_SIDE, n - LEAST_SIDE + 1), key=lambda place: abs(sums[place - 1]))
    if not sums[at - 1]:
        return None
    before, after = statistics.median(values[:at]), statistics.median(values[at:])
    rest = [value - (before if place < at else after) for place, value in enumerate(values)]
    reach = _CUT * SCALED * statistics.median([abs(each) for each in rest])
    rest = [min(max(each, -reach), reach) for each in rest] if reach else rest
    own = math.fsum(map(operator.mul, rest, rest)) * likeness(rest, sought=True)
    mean = math.fsum(rest) / n
    # The sum of what lies before the step, less its share of the whole: the bridge at that place.
    off = math.fsum(rest[:at]) - at * mean - (after - before) * at * (n - at) / n
    return Step(
        at=at,
        time=times[at],
        p=bridge_tail(abs(off) / math.sqrt(own)) if own else 0.0,
        before=before,
        after=after,
    )


def steps(times: Sequence[float], values: Sequence[float], level: float = 0.01) -> tuple[Step, ...]:
    """Return the steps whose p is below `level`, in time's order, each between its neighbours."""
    refuse(times, values)
    cuts = sorted(_cuts(times, values, 0, level, MOST_DEEP), key=lambda each: each.at)
    edges = [0, *(each.at for each in cuts), len(values)]
    levels = [statistics.median(values[a:b]) for a, b in itertools.pairwise(edges)]
    sides = zip(cuts, levels, levels[1:], strict=False)
    return tuple(dataclasses.replace(cut, before=b, after=a) for cut, b, a in sides)


def _cuts(
    times: Sequence[float], values: Sequence[float], start: int, level: float, deep: int
) -> Iterator[Step]:
    found = step(times, values) if deep and len(values) >= 2 * LEAST_SIDE else None
    if found is None or found.p >= level:
        return
    yield dataclasses.replace(found, at=start + found.at)
    yield from _cuts(times[: found.at], values[: found.at], start, level, deep - 1)
    after = start + found.at
    yield from _cuts(times[found.at :], values[found.at :], after, level, deep - 1)


def bridge_tail(reach: float) -> float:
    """Return the probability that a Brownian bridge gets beyond ±`reach` (A. Kolmogorov, 1933)."""
    if reach < 0.3:
        return 1.0  # to 6 digits, where the series converges slowly
    terms = ((-1) ** (k - 1) * math.exp(-2 * (k * reach) ** 2) for k in range(1, 16))
    return min(1.0, 2 * math.fsum(terms))
