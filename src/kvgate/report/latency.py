"""Draws latency over time, by job and arm, from the logs that fio wrote while it was measured."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator

from kvgate.errors import KvgateError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.report import show, timeline
from kvgate.report.series import Bin, significant
from kvgate.report.sources import Sources
from kvgate.report.timeline import Panel
from kvgate.report.views import Chart
from kvgate.workloads import fio_logs
from kvgate.workloads.fio_logs import Logs

GAPS = ("fio.longest_gap", "arms.longest_gap")
"""Measures whose evidence holds logs."""

_TITLE = "fio latency over time, by job and arm"
_SHOWN = 12  # panels in one picture
_NOTE = (
    "Line: mean of all ranks; band: from the least to the most of any rank, over all rounds; by "
    "fio's latency logs, whose points are averages over at least 100 ms."
)


@dataclasses.dataclass(slots=True)
class _Told:
    """The rounds of one job on one arm: what each logged, and its longest gap."""

    logs: list[Logs] = dataclasses.field(default_factory=list)
    gaps: list[Quantity] = dataclasses.field(default_factory=list)
    unread: int = 0


def chart(gate: str, taken: Iterable[Measurement], sources: Sources) -> Chart | None:
    """Return the chart of the logs behind `taken`; None where none of it has any."""
    found = _gathered(taken, sources)
    if not found:
        return None
    drawn = [
        (label, direction, each, bins)
        for label, each in found.items()
        for direction in _directions(each)
        if (bins := _bins(each.logs, direction))
    ]
    name = f"{gate.lower()}-latency"
    unread = sum(each.unread for each in found.values())
    lost = f" {unread} logs could not be read." if unread else ""
    if not drawn:
        return Chart(name, _TITLE, f"Nothing to draw.{lost}", None)
    shown = drawn[:_SHOWN]
    panels = tuple(_panel(f"{label}, {way}s", bins) for label, way, _, bins in shown)
    end_s = max(each.at for panel in panels for each in panel.bins) or 1.0
    more = f" {len(drawn) - _SHOWN} more are in the table." if len(drawn) > _SHOWN else ""
    picture = timeline.draw(name, _TITLE, panels, (), end_s, _NOTE + more + lost)
    return dataclasses.replace(
        picture,
        columns=("Job", "Mean", "Highest window", "Highest p99 of a window", "Longest gap"),
        rows=tuple(_row(label, way, each, bins) for label, way, each, bins in drawn),
    )


def _gathered(taken: Iterable[Measurement], sources: Sources) -> dict[str, _Told]:
    """Return what was logged by job, arm and (of several) host, in the order it was measured."""
    kept = [each for each in taken if each.name in GAPS and isinstance(each.value, Quantity)]
    several = len({each.host for each in kept}) > 1
    found: dict[str, _Told] = {}
    for each in kept:
        arm = f" on {each.labels['arm']}" if "arm" in each.labels else ""
        label = each.labels.get("job", "?") + arm + (f", {each.host}" if several else "")
        told = found.setdefault(label, _Told())
        logs = _logs(each, sources)
        if isinstance(each.value, Quantity):
            told.gaps.append(each.value)
        if logs is None:
            told.unread += 1
        else:
            told.logs.append(logs)
    return dict(sorted(found.items()))


def _logs(each: Measurement, sources: Sources) -> Logs | None:
    """Return the logs that a measurement rests on; None where they can't be read (any more)."""
    try:
        for ref in reversed(each.evidence):
            piece = sources.run.evidence(ref)
            if fio_logs.FETCH in piece.command:
                return fio_logs.told(piece.stdout)
    except KvgateError:
        return None
    return None


def _directions(each: _Told) -> Iterator[str]:
    yield from (
        direction
        for direction in ("read", "write")
        if any(direction in logs.course.figures for logs in each.logs)
    )


def _bins(logs: list[Logs], direction: str) -> tuple[Bin, ...]:
    """Return the windows of all rounds, one on the other, in seconds and ns."""
    found: dict[float, list[tuple[int, float, int]]] = {}
    for each in logs:
        for window in each.course.windows:
            if (figures := window.figures.get(direction)) is not None:
                at = (window.begin_ms + each.course_ms / 2) / 1000
                found.setdefault(at, []).append((figures.least, figures.mean, figures.most))
    return tuple(
        Bin(
            at,
            float(min(least for least, _, _ in some)),
            statistics.fmean(mean for _, mean, _ in some),
            float(max(most for _, _, most in some)),
        )
        for at, some in sorted(found.items())
    )


def _panel(title: str, bins: tuple[Bin, ...]) -> Panel:
    unit, factor = _unit(bins)
    scaled = tuple(
        Bin(each.at, each.low / factor, each.middle / factor, each.high / factor) for each in bins
    )
    return Panel(title, unit, bins=scaled)


def _unit(bins: tuple[Bin, ...]) -> tuple[str, float]:
    middle = statistics.median(each.middle for each in bins)
    return next(
        (unit, factor)
        for unit, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))
        if middle >= factor or unit == "ns"
    )


def _row(label: str, direction: str, each: _Told, bins: tuple[Bin, ...]) -> tuple[str, ...]:
    peaks = [ns for logs in each.logs for _, ns in fio_logs.over_time(logs, direction, 99)]
    return (
        f"{label}, {direction}s",
        _shown(statistics.fmean(each.middle for each in bins)),
        _shown(max(each.high for each in bins)),
        _shown(max(peaks)) if peaks else "no window has 100 I/Os",
        str(max(each.gaps)),
    )


def _shown(ns: float) -> str:
    unit, factor = _unit((Bin(0.0, ns, ns, ns),))
    return f"{significant(ns / factor)} {show.written(unit)}"
