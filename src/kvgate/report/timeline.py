"""Draws a soak: each window's latency over time, faults shaded, telemetry on the same time axis."""

from __future__ import annotations

import dataclasses
import statistics

from kvgate.report import show, svg
from kvgate.report.series import Bin, significant, thinned
from kvgate.report.views import Chart

_WIDTH, _LEFT, _RIGHT, _PANEL, _GAP, _TOP = 960.0, 60.0, 168.0, 104.0, 30.0, 28.0
_SINGLE = 150  # up to so many windows each one is a point; more are drawn as a band
_STATES = {"normal": "circle", "fault": "diamond", "recovery": "ring"}


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One window's value: its middle in seconds since the start, and its state."""

    at: float
    value: float
    state: str = "normal"


@dataclasses.dataclass(frozen=True, slots=True)
class Panel:
    """One quantity over time: points (windows) or bins (samples), in `unit`."""

    title: str
    unit: str
    points: tuple[Point, ...] = ()
    bins: tuple[Bin, ...] = ()
    top: float | None = None  # a fixed upper end of the axis, e.g. 100 %


@dataclasses.dataclass(frozen=True, slots=True)
class Shade:
    """A fault: from when to when (None: no repair was journalled), and what it was."""

    start: float
    end: float | None
    label: str


def draw(
    name: str,
    title: str,
    panels: tuple[Panel, ...],
    shades: tuple[Shade, ...],
    end_s: float,
    note: str,
) -> Chart:
    """Return the timeline of `panels` from 0 to `end_s` seconds."""
    height = _TOP + len(panels) * (_PANEL + _GAP) + 24
    board = svg.Drawing(name, _WIDTH, height, title=title, description=_told(panels, shades))
    seconds, unit = _time_unit(end_s)
    across = svg.Scale(0.0, end_s / seconds, _LEFT, _WIDTH - _RIGHT)
    bottom = _TOP + len(panels) * (_PANEL + _GAP) - _GAP + 6
    for shade in shades:
        _shade(board, across, shade, end_s, seconds, bottom)
    for row, panel in enumerate(panels):
        _panel(board, across, panel, _TOP + row * (_PANEL + _GAP), seconds)
    for tick in across.ticks(8):
        board.line(across(tick), bottom, across(tick), bottom + 4, "axis")
        board.text(across(tick), bottom + 18, svg.number(tick), "tick", "middle")
    board.text(_WIDTH - _RIGHT + 10, bottom + 18, f"{unit} since its start", "unit")
    return Chart(
        name,
        title,
        note,
        board.markup(),
        wide=True,
        columns=("Measure", "From (s)", "Value", "State"),
        rows=_rows(panels),
    )


def _time_unit(end_s: float) -> tuple[float, str]:
    return (3600.0, "h") if end_s > 3 * 3600 else (60.0, "min") if end_s > 600 else (1.0, "s")


def _shade(
    board: svg.Drawing, across: svg.Scale, shade: Shade, end_s: float, seconds: float, bottom: float
) -> None:
    left = across(shade.start / seconds)
    right = across((end_s if shade.end is None else shade.end) / seconds)
    board.rect(left, _TOP - 8, max(right - left, 2.0), bottom - _TOP + 8, "fault", shade.label)
    board.line(left, _TOP - 8, left, bottom, "fault-edge")
    board.text(left, _TOP - 13, shade.label, "note")


def _panel(board: svg.Drawing, across: svg.Scale, panel: Panel, top: float, seconds: float) -> None:
    values = [point.value for point in panel.points] + [each.high for each in panel.bins]
    scale = svg.from_zero(values, top + _PANEL, top + 16)
    if panel.top is not None:
        scale = svg.Scale(0.0, panel.top, top + _PANEL, top + 16)
    for tick in scale.ticks(3):
        board.line(_LEFT, scale(tick), _WIDTH - _RIGHT, scale(tick), "grid")
        board.text(_LEFT - 7, scale(tick) + 4, svg.number(tick), "tick", "end")
    board.text(_LEFT + 4, top + 10, f"{panel.title}, {show.written(panel.unit)}", "label")
    board.line(_LEFT, top + 16, _LEFT, top + _PANEL, "axis")
    board.line(_LEFT, top + _PANEL, _WIDTH - _RIGHT, top + _PANEL, "axis")
    bins = panel.bins or (_binned(panel.points) if len(panel.points) > _SINGLE else ())
    if bins:
        _band(board, across, scale, bins, seconds)
    else:
        _points(board, across, scale, panel, seconds)
    for row, line in enumerate(_summary(panel)):
        board.text(_WIDTH - _RIGHT + 10, top + 30 + 16 * row, line, "value" if row == 0 else "tick")


def _binned(points: tuple[Point, ...]) -> tuple[Bin, ...]:
    pairs = [(point.at, point.value) for point in points]
    return thinned(pairs, 0.0, max(at for at, _ in pairs), _SINGLE)


def _band(
    board: svg.Drawing, across: svg.Scale, scale: svg.Scale, bins: tuple[Bin, ...], seconds: float
) -> None:
    upper = [(across(each.at / seconds), scale(each.high)) for each in bins]
    lower = [(across(each.at / seconds), scale(each.low)) for each in reversed(bins)]
    board.area(upper + lower, "band")
    board.path([(across(each.at / seconds), scale(each.middle)) for each in bins], "trace")


def _points(
    board: svg.Drawing, across: svg.Scale, scale: svg.Scale, panel: Panel, seconds: float
) -> None:
    points = sorted(panel.points, key=lambda point: point.at)
    board.path([(across(point.at / seconds), scale(point.value)) for point in points], "trace thin")
    for point in points:
        board.point(
            across(point.at / seconds),
            scale(point.value),
            _STATES.get(point.state, "cross"),
            "s1",
            f"{show.duration(point.at)}: {significant(point.value)} {show.written(panel.unit)}, "
            f"{point.state}",
            4.0 if point.state != "normal" else 3.4,
        )


def _summary(panel: Panel) -> tuple[str, ...]:
    """Return what is told beside a panel: the middle and the extremes, by state where known."""
    unit = show.written(panel.unit)
    if panel.bins:
        middle = statistics.median(each.middle for each in panel.bins)
        low, high = min(each.low for each in panel.bins), max(each.high for each in panel.bins)
        return (
            f"median {significant(middle)} {unit}",
            f"from {significant(low)} to {significant(high)} {unit}",
        )
    normal = [point.value for point in panel.points if point.state == "normal"]
    all_ = [point.value for point in panel.points]
    lines = [f"median {significant(statistics.median(normal or all_))} {unit}"]
    for state in dict.fromkeys(point.state for point in panel.points):
        worst = max(point.value for point in panel.points if point.state == state)
        lines.append(f"{state}: up to {significant(worst)} {unit}")
    return tuple(lines[:5])


def _told(panels: tuple[Panel, ...], shades: tuple[Shade, ...]) -> str:
    parts = [f"{panel.title}: {', '.join(_summary(panel))}" for panel in panels]
    return "; ".join(parts + [shade.label for shade in shades])


def _rows(panels: tuple[Panel, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the windows' values as a table; samples are too many for one."""
    rows = [
        (
            panel.title,
            f"{point.at:.0f}",
            f"{significant(point.value)} {show.written(panel.unit)}",
            point.state,
        )
        for panel in panels
        for point in panel.points
    ]
    return tuple(rows[: _SINGLE * 3])
