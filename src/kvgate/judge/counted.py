"""What a soak's counters, states and clocks may not do: flap, stand still, go back, step.

No statistics: these are counted outside of faults and their recovery, against a limit.
"""

from __future__ import annotations

import math

from kvgate.judge.windows import Judged, Kind, Period, Series, missing, moves
from kvgate.model.verdict import Verdict

LACKING = 0.10
"""Share of windows that may be missing before nothing can be said of the rest."""

SLEW = 500e-6
"""Seconds a second by which a clock is slewed at most (Linux's adjtimex): no step."""


def flapping(series: Series, period: Period, most: int = 2) -> Judged:
    """Return whether a port or path changed its state more than `most` times by itself.

    A series of states counts each change between windows; a counter (link downed, carrier
    changes) by how much it moved.
    """
    changes = [(after, change) for _, after, change in moves(series, period) if change]
    counted = [abs(change) if series.counter else 1.0 for _, change in changes]
    number = round(math.fsum(counted))
    at = changes[0][0] if changes else None
    told = f"{number} changes outside of faults, limit {most}"
    bad = number > most
    return _made(series, period, Kind.FLAPPING, bad, told, float(number), at)


def stuck(series: Series, period: Period, longest: float = 3600.0) -> Judged:
    """Return whether what has to move in every window stood still for `longest` seconds or more.

    It starts anew after a fault. For series that are declared to move under load, only.
    """
    since: float | None = None
    until, worst, at = float("-inf"), 0.0, None
    for before, after, change in moves(series, period):
        if change:
            since = None
            continue
        if since is None or before != until:
            since = before
        until = after
        if after - since > worst:
            worst, at = after - since, since
    told = f"stands still for {worst:.0f} s at most, limit under {longest:.0f} s"
    return _made(series, period, Kind.STUCK, worst >= longest, told, worst, at)


def clock(
    series: Series, period: Period, most: float = 0.5, *, set_by_fault: bool = False
) -> Judged:
    """Return whether a host's clock was set: its offset jumps by more than `most` seconds.

    `series` are offsets (s) of the host's clock from one that is never set. What slewing may do
    between two readings is allowed on top. A fault excuses no jump, unless the plan's faults set
    clocks (`set_by_fault`).
    """
    worst, at, bad = 0.0, None, False
    for before, after, change in moves(series, period, across=not set_by_fault):
        beyond = abs(change) > most + SLEW * (after - before)
        if abs(change) > abs(worst):
            worst = change
        if beyond and not bad:
            bad, at = True, after
    told = f"its offset moves by {worst:+.3f} s between two readings at most, limit {most:g} s"
    return _made(series, period, Kind.CLOCK, bad, told, worst, at)


def _made(
    series: Series,
    period: Period,
    kind: Kind,
    bad: bool,
    told: str,
    effect: float,
    at: float | None,
) -> Judged:
    """Return FAIL for what is bad, INCONCLUSIVE for what was not seen whole or went back."""
    doubts = []
    lacking, wanted = missing(series, period)
    if lacking > LACKING * wanted or not wanted or not moves(series, period):
        doubts.append(f"{lacking} of {wanted} windows are missing")
    if series.counter and (back := len([1 for *_, by in moves(series, period) if by < 0])):
        doubts.append(f"the counter went back {back} times outside of faults")
    verdict = Verdict.FAIL if bad else Verdict.INCONCLUSIVE if doubts else Verdict.PASS
    if verdict is not Verdict.FAIL:
        at = None
    if doubts:
        told = "; ".join([told, *doubts])
    return Judged(name=series.name, kind=kind, verdict=verdict, told=told, effect=effect, at=at)
