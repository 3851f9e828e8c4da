"""A soak's series by windows: which count, which are missing, and what was concluded of one.

A window that a fault, or the recovery after it, touches is left out; all others have to be there.
Times are seconds of one clock that is never set (the run's), in window middles.
"""

from __future__ import annotations

import bisect
import dataclasses
import enum
import functools
import itertools
import math
from collections.abc import Iterator

from kvgate.model.verdict import Verdict


class Worse(enum.StrEnum):
    """Which way a series gets worse: latency up, throughput down, temperature and others either."""

    UP = "up"
    DOWN = "down"
    EITHER = "either"

    def beyond(self, effect: float, limit: float) -> bool:
        """Tell whether `effect` goes the worse way by more than `limit`."""
        way = {"up": effect, "down": -effect, "either": abs(effect)}[self.value]
        return way > limit


class Kind(enum.StrEnum):
    """What was looked for in a series."""

    COURSE = "course"
    PEER = "peer"
    FLAPPING = "flapping"
    STUCK = "stuck"
    CLOCK = "clock"


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """Values by window middles, None where there is none. A counter is read, not yet a rate."""

    name: str
    times: tuple[float, ...]
    values: tuple[float | None, ...]
    worse: Worse = Worse.EITHER
    counter: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no series."""
        if len(self.times) != len(self.values):
            raise ValueError(f"{self.name}: {len(self.times)} times, {len(self.values)} values")
        if any(b <= a for a, b in itertools.pairwise(self.times)):
            raise ValueError(f"{self.name}: the times do not rise")


@dataclasses.dataclass(frozen=True, slots=True)
class Broken:
    """A fault from its start to its proven repair."""

    start: float
    end: float


@dataclasses.dataclass(frozen=True, slots=True)
class Period:
    """When the run was, how wide its windows are, what was broken, how long recovery may take."""

    start: float
    end: float
    width: float
    faults: tuple[Broken, ...] = ()
    recovery: float = 0.0

    def counts(self, middle: float) -> bool:
        """Tell whether the window at `middle` lies outside every fault and its recovery."""
        first, last = middle - self.width / 2, middle + self.width / 2
        return not any(
            first < each.end + self.recovery and last > each.start for each in self.faults
        )

    def disturbed(self, after: float, before: float) -> bool:
        """Tell whether a fault or its recovery touches the time between two readings."""
        return any(after < each.end + self.recovery and before > each.start for each in self.faults)

    def middles(self) -> Iterator[float]:
        """Yield the middles of all windows that count and lie whole in the run."""
        for number in range(math.floor((self.end - self.start) / self.width + 1e-9)):
            middle = self.start + (number + 0.5) * self.width
            if self.counts(middle):
                yield middle


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What was concluded of one series and why; ``effect`` is a share, a count or seconds.

    ``p`` is adjusted for all the series judged together; ``at`` is when it happened.
    """

    name: str
    kind: Kind
    verdict: Verdict
    told: str
    effect: float | None = None
    p: float | None = None
    at: float | None = None


def kept(series: Series, period: Period) -> tuple[list[float], list[float]]:
    """Return times and values of the windows that count and have a finite value."""
    counting = _counting(period, series.times)
    pairs = [
        (at, value)
        for at, value, counts in zip(series.times, series.values, counting, strict=True)
        if counts and value is not None and math.isfinite(value)
    ]
    return [at for at, _ in pairs], [value for _, value in pairs]


def missing(series: Series, period: Period) -> tuple[int, int]:
    """Return how many windows that count have no value, and how many there should be."""
    there, _ = kept(series, period)
    wanted = _wanted(period)
    half = period.width / 2
    lacking = 0
    for middle in wanted:
        place = bisect.bisect_left(there, middle - half)
        lacking += place == len(there) or there[place] >= middle + half
    return lacking, len(wanted)


@functools.lru_cache(maxsize=64)
def _counting(period: Period, times: tuple[float, ...]) -> tuple[bool, ...]:
    """Return which windows count; series of one soak share their times."""
    return tuple(map(period.counts, times))


@functools.lru_cache(maxsize=64)
def _wanted(period: Period) -> tuple[float, ...]:
    return tuple(period.middles())


def moves(
    series: Series, period: Period, *, across: bool = False
) -> list[tuple[float, float, float]]:
    """Return (before, after, change) of neighbouring readings.

    Those that a fault comes between are left out, unless `across`.
    """
    times, values = kept(series, period)
    points = list(zip(times, values, strict=True))
    return [
        (before, after, later - value)
        for (before, value), (after, later) in itertools.pairwise(points)
        if across or not period.disturbed(before, after)
    ]


def rates(series: Series, period: Period) -> tuple[Series, int]:
    """Return a counter's change a second by window, and how often it went back."""
    changes = moves(series, period)
    forward = [(after, change / (after - before)) for before, after, change in changes]
    back = len([rate for _, rate in forward if rate < 0])
    good = [(at, rate) for at, rate in forward if rate >= 0]
    made = Series(
        series.name, tuple(at for at, _ in good), tuple(rate for _, rate in good), series.worse
    )
    return made, back
