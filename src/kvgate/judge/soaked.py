"""Whether the series of a soak drift, leak or step: sure among all of them, and over the limit.

A series fails if its trend or its step is a discovery among all that are judged together
(`discovery`) and its effect goes the worse way by more than the limit; whichever of the two leaves
less of the series unexplained names it. It is inconclusive where windows are missing, a counter
went back, the effect is over the limit but not sure, or the noise would hide a rise of the limit:
a test that could not have failed passes nothing.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from kvgate.judge.cycle import without_day
from kvgate.judge.discovery import adjusted
from kvgate.judge.shift import Step, step
from kvgate.judge.trend import Course, course
from kvgate.judge.windows import Judged, Kind, Period, Series, kept, missing, rates
from kvgate.model.verdict import Verdict

LEAST_WINDOWS = 30
"""Windows that a course takes: of fewer, neighbours' likeness can't be told."""

LIKELY = 0.2
"""A step's p up to which the day is looked for a second time."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """How far a series may go over the run, as shares, and how sure it has to be.

    ``rate`` bounds the share of false ones among those told; ``lacking`` is the share of windows
    that may be missing. `any_dependence`: see `discovery.adjusted`.
    """

    rise: float = 0.10
    step: float = 0.10
    rate: float = 0.01
    lacking: float = 0.10
    any_dependence: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    """What one series shows, before it is known what the others do."""

    series: Series
    doubts: tuple[str, ...]
    course: Course | None = None
    step: Step | None = None
    stepped: bool = False


def courses(
    series: Sequence[Series], period: Period, bounds: Bounds | None = None
) -> tuple[Judged, ...]:
    """Return what each series does over the soak, in their order, judged together."""
    bounds = bounds or Bounds()
    seen = [_see(each, period, bounds) for each in series]
    ps = [found.p for each in seen for found in (each.course, each.step) if found is not None]
    sure = iter(adjusted(ps, any_dependence=bounds.any_dependence))
    judged = []
    for each in seen:
        trend_p = next(sure) if each.course is not None else 1.0
        step_p = next(sure) if each.step is not None else 1.0
        judged.append(_judge(each, bounds, trend_p, step_p))
    return tuple(judged)


def _see(series: Series, period: Period, bounds: Bounds) -> _Seen:
    """Return the tests of one series and what makes them doubtful."""
    doubts = []
    if series.counter:
        read, back = rates(series, period)
        if back:
            doubts.append(f"the counter went back {back} times outside of faults")
    else:
        read = series
    lacking, wanted = missing(series, period)
    if lacking > bounds.lacking * wanted or not wanted:
        doubts.append(f"{lacking} of {wanted} windows are missing")
    times, raw = kept(read, period)
    if len(raw) < LEAST_WINDOWS:
        doubts.append(f"{len(raw)} windows can't show a trend; it takes {LEAST_WINDOWS}")
        return _Seen(series, tuple(doubts))
    values, jump = _stepping(times, raw)
    line = course(times, values)
    if line.middle <= 0 and min(raw) < max(raw):
        doubts.append("its median is not above 0: no change is a share of it")
    stepped = jump is not None and _left_by(jump, values) < _left_of(line, times, values)
    return _Seen(series, tuple(doubts), line, jump, stepped)


def _stepping(times: Sequence[float], raw: Sequence[float]) -> tuple[list[float], Step | None]:
    """Return the values without their day, and their likeliest step.

    A step looks a little like a day and would partly be taken for one: where there may be one,
    the day is looked for again in what is left without it.
    """
    values = without_day(times, raw)
    jump = step(times, values)
    if jump is None or jump.p > LIKELY:
        return values, jump
    rise = jump.after - jump.before
    flat = [value - (rise if place >= jump.at else 0) for place, value in enumerate(raw)]
    days = [value - rest for value, rest in zip(flat, without_day(times, flat), strict=True)]
    values = [value - day for value, day in zip(raw, days, strict=True)]
    return values, step(times, values)


def _left_of(line: Course, times: Sequence[float], values: Sequence[float]) -> float:
    """Return what Sen's line leaves unexplained: the sum of the distances from it."""
    rest = [value - line.slope * at for at, value in zip(times, values, strict=True)]
    middle = statistics.median(rest)
    return math.fsum(abs(each - middle) for each in rest)


def _left_by(jump: Step, values: Sequence[float]) -> float:
    """Return what two levels leave unexplained."""
    before = math.fsum(abs(value - jump.before) for value in values[: jump.at])
    return before + math.fsum(abs(value - jump.after) for value in values[jump.at :])


def _judge(seen: _Seen, bounds: Bounds, trend_p: float, step_p: float) -> Judged:
    """Return the verdict on one series with its adjusted p."""
    name, worse = seen.series.name, seen.series.worse
    effect, p, limit, told, at = _told(seen, bounds, trend_p, step_p)
    over = effect is not None and worse.beyond(effect, limit)
    if over and p <= bounds.rate:
        return _made(name, Verdict.FAIL, told, effect, p, at)
    doubts = list(seen.doubts)
    if over:
        doubts.append(f"{told}, and that is not sure (p {p:.2g}): a longer soak tells")
    elif (hidden := _hidden(seen.course)) is not None and hidden > bounds.rise:
        doubts.append(f"its noise would hide a rise of {hidden:.1%}, limit {bounds.rise:.1%}")
    if doubts:
        return _made(name, Verdict.INCONCLUSIVE, "; ".join(doubts), effect, p, None)
    return _made(name, Verdict.PASS, told, effect, p, None)


def _told(
    seen: _Seen, bounds: Bounds, trend_p: float, step_p: float
) -> tuple[float | None, float, float, str, float | None]:
    """Return effect, p, limit, sentence and time of what describes the series better."""
    line, jump = seen.course, seen.step
    if seen.stepped and jump is not None and jump.share is not None:
        told = f"steps by {jump.share:+.1%} at {jump.time:.0f} s, limit {bounds.step:.1%}"
        return jump.share, step_p, bounds.step, told, jump.time
    if line is None or line.rise is None:
        return None, 1.0, bounds.rise, "does not change", None
    part = line.span / line.middle
    told = (
        f"goes {line.rise:+.1%} over the run (95 %: {line.low * part:+.1%} to"
        f" {line.high * part:+.1%}), limit {bounds.rise:.1%}"
    )
    return line.rise, trend_p, bounds.rise, told, None


def _hidden(line: Course | None) -> float | None:
    """Return the rise that the noise would hide: half the width of the interval."""
    if line is None or line.middle <= 0:
        return None
    return (line.high - line.low) / 2 * line.span / line.middle


def _made(
    name: str, verdict: Verdict, told: str, effect: float | None, p: float, at: float | None
) -> Judged:
    return Judged(
        name=name, kind=Kind.COURSE, verdict=verdict, told=told, effect=effect, p=p, at=at
    )
