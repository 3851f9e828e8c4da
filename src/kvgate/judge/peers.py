"""Which of equals is slow: one drive of eight, one host of many, by robust distance from the rest.

Every window is compared within itself, so that load, time of day and what meets all of them
alike cancel. A unit's level is the median over its windows of its value as part of the median of
all units in that window. Its distance is from the median of the others' levels, in their scaled
median deviations (F. R. Hampel, J. Am. Stat. Assoc. 69 (1974) 383), at least FLOOR each.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from kvgate.judge.cycle import SCALED
from kvgate.judge.windows import Judged, Kind, Period, Series, kept
from kvgate.model.verdict import Verdict

LEAST_PEERS = 4
"""Of three, two that agree by chance would convict the third."""

FAR = 5.0
"""Scaled median deviations that are no chance."""

FLOOR = 0.01
"""Least deviation, as a share: equals that agree to the digit convict nobody over a trifle."""

LEAST_TOGETHER = 30
"""Windows that a level takes."""


def parts(units: Sequence[Series], period: Period) -> list[Series]:
    """Return each unit as part of the median of all, by window; windows of under 4 are left out.

    A unit that gets slow within the run shows in `soaked.courses` of these.
    """
    told = [dict(zip(*kept(each, period), strict=True)) for each in units]
    middles: dict[float, float] = {}
    for at in sorted(set().union(*told)):
        there = [each[at] for each in told if at in each]
        if len(there) >= LEAST_PEERS and (middle := statistics.median(there)) > 0:
            middles[at] = middle
    made = []
    for unit, values_at in zip(units, told, strict=True):
        times = tuple(at for at in middles if at in values_at)
        shares = tuple(values_at[at] / middles[at] for at in times)
        made.append(Series(unit.name, times, shares, unit.worse))
    return made


def slow(units: Sequence[Series], period: Period, most: float = 0.10) -> tuple[Judged, ...]:
    """Return for each of `units` whether it is worse than its peers by more than `most` and far."""
    levels: list[float | None] = []
    for each in parts(units, period):
        values = [value for value in each.values if value is not None]
        levels.append(statistics.median(values) if len(values) >= LEAST_TOGETHER else None)
    return tuple(
        _judge(
            unit,
            level,
            [each for i, each in enumerate(levels) if i != at and each is not None],
            most,
        )
        for at, (unit, level) in enumerate(zip(units, levels, strict=True))
    )


def _judge(unit: Series, level: float | None, others: Sequence[float], most: float) -> Judged:
    if level is None or len(others) < LEAST_PEERS - 1:
        told = f"has {len(others)} peers in enough windows; it takes {LEAST_PEERS - 1}"
        return Judged(name=unit.name, kind=Kind.PEER, verdict=Verdict.INCONCLUSIVE, told=told)
    middle = statistics.median(others)
    apart = level / middle - 1
    spread = SCALED * statistics.median([abs(each - middle) for each in others]) / middle
    distance = abs(apart) / max(spread, FLOOR)
    over = unit.worse.beyond(apart, most)
    told = f"{apart:+.1%} from {len(others)} peers ({distance:.1f} deviations), limit {most:.1%}"
    verdict = Verdict.PASS
    if over:
        verdict = Verdict.FAIL if distance > FAR else Verdict.INCONCLUSIVE
    return Judged(name=unit.name, kind=Kind.PEER, verdict=verdict, told=told, effect=apart)
