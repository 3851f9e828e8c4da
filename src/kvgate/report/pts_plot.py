"""Draws SNIA's tests: what is tracked round by round with its window, and saturation over time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from kvgate.judge.steady import Window
from kvgate.report import show, svg, timeline
from kvgate.report.series import significant
from kvgate.report.timeline import Panel, Point
from kvgate.report.views import Chart

_WIDTH, _LEFT, _RIGHT, _PANEL, _GAP, _TOP = 620.0, 66.0, 118.0, 132.0, 40.0, 24.0
_LEAST_ROUNDS = 5
_ROOM = 0.12  # of the axis above the highest value, so that nothing touches the title


@dataclasses.dataclass(frozen=True, slots=True)
class Tracked:
    """One variable that must become steady: a value a round, in `unit`, and its last window.

    The window is in the dimension's base unit, `factor` of which are one `unit`.
    """

    label: str
    unit: str
    values: tuple[float, ...]
    window: Window | None
    factor: float

    def shown(self, value: float) -> str:
        """Return a value in its unit, for people."""
        return f"{significant(value)} {show.written(self.unit)}".rstrip()


def rounds(name: str, title: str, tracked: Sequence[Tracked], note: str) -> Chart:
    """Return the plot of every round: a panel a variable, with window, ±10 % and fit."""
    height = _TOP + len(tracked) * (_PANEL + _GAP) + 14
    told = "; ".join(
        f"{each.label}: {', '.join(each.shown(value) for value in each.values)}" for each in tracked
    )
    board = svg.Drawing(name, _WIDTH, height, title=title, description=told)
    count = max(len(each.values) for each in tracked)
    across = svg.Scale(0.5, max(count, _LEAST_ROUNDS) + 0.5, _LEFT, _WIDTH - _RIGHT)
    for row, each in enumerate(tracked):
        _panel(board, across, each, _TOP + row * (_PANEL + _GAP))
    bottom = _TOP + len(tracked) * (_PANEL + _GAP) - _GAP
    step = 1 if count <= 12 else 2 if count <= 20 else 5
    for number in range(1, max(count, _LEAST_ROUNDS) + 1):
        if number % step == 0 or number == 1:
            board.text(across(number), bottom + 17, str(number), "tick", "middle")
    board.text(_WIDTH - _RIGHT, bottom + 34, "round", "unit", "end")
    columns = ("Round", *(f"{each.label}, {show.written(each.unit)}" for each in tracked))
    rows = tuple(
        (str(number + 1), *(significant(each.values[number]) for each in tracked))
        for number in range(count)
    )
    return Chart(name, title, note, board.markup(), columns=columns, rows=rows)


def window(name: str, title: str, tracked: Sequence[Tracked], note: str) -> Chart | None:
    """Return the plot of the measurement window alone, seen closely; None without a window."""
    shown = [each for each in tracked if each.window is not None and each.window.average > 0]
    if not shown:
        return None
    height = _TOP + len(shown) * (_PANEL + _GAP) + 14
    told = "; ".join(
        f"{each.label}: fit {float(each.window.slope) / each.factor:.6g} a round"
        for each in shown
        if each.window
    )
    board = svg.Drawing(name, _WIDTH, height, title=title, description=told)
    bottom = _TOP + len(shown) * (_PANEL + _GAP) - _GAP
    for row, each in enumerate(shown):
        if each.window:
            ends = each.window.first - 0.5, each.window.last + 0.5
            across = svg.Scale(*ends, _LEFT, _WIDTH - _RIGHT)
            _panel(board, across, each, _TOP + row * (_PANEL + _GAP), close=True)
            for number in range(each.window.first, each.window.last + 1):
                if row == len(shown) - 1:
                    board.text(across(number), bottom + 17, str(number), "tick", "middle")
    board.text(_WIDTH - _RIGHT, bottom + 34, "round", "unit", "end")
    return Chart(name, title, note, board.markup())


def _closely(each: Tracked, floor: float, top: float) -> svg.Scale:
    """Return a scale around the window's values and its average ± 10 %, not from 0."""
    average = float(each.window.average) / each.factor if each.window else 0.0
    values = [float(value) / each.factor for value in (each.window.values if each.window else ())]
    low, high = min(*values, 0.9 * average), max(*values, 1.1 * average)
    room = (high - low) * _ROOM
    return svg.Scale(low - room, high + room, floor, top)


def _panel(
    board: svg.Drawing, across: svg.Scale, each: Tracked, top: float, *, close: bool = False
) -> None:
    """Draw one variable: its rounds as points, and what the rule looks at."""
    window, floor = each.window, top + _PANEL
    average = float(window.average) / each.factor if window else 0.0
    highest = max((*each.values, 1.1 * average), default=0.0)
    scale = svg.from_zero([highest * (1 + _ROOM)], floor, top + 8)
    if close:
        scale = _closely(each, floor, top + 8)
    board.text(_LEFT, top - 6, each.label, "label")
    for tick in scale.ticks(4):
        board.line(_LEFT, scale(tick), _WIDTH - _RIGHT, scale(tick), "grid")
        board.text(_LEFT - 7, scale(tick) + 4, svg.number(tick), "tick", "end")
    board.text(_LEFT - 7, top - 6, show.written(each.unit), "unit", "end")
    if window is not None and average > 0:
        _window(board, across, scale, each, window)
    board.line(_LEFT, floor, _WIDTH - _RIGHT, floor, "axis")
    board.line(_LEFT, top + 8, _LEFT, floor, "axis")
    inside = range(window.first, window.last + 1) if window else range(0)
    shown = [
        (number, value)
        for number, value in enumerate(each.values, 1)
        if not close or number in inside
    ]
    board.path([(across(number), scale(value)) for number, value in shown], "trace thin")
    for number, value in shown:
        shape = "circle" if number in inside else "ring"
        tip = f"round {number}: {each.shown(value)}"
        board.point(across(number), scale(value), shape, "s1", tip, 3.4)


def _window(
    board: svg.Drawing, across: svg.Scale, scale: svg.Scale, each: Tracked, window: Window
) -> None:
    """Draw the window's span, its average with 10 % either way, and the fitted line."""
    left, right = across(window.first - 0.4), across(window.last + 0.4)
    average = float(window.average) / each.factor
    high, low = scale(1.1 * average), scale(0.9 * average)
    board.rect(left, high, right - left, low - high, "window", "average of the window ± 10 %")
    for y in (high, low):
        board.line(left, y, right, y, "bound")
    board.line(left, scale(average), right, scale(average), "average")
    ends = [
        float(window.slope * number + window.intercept) / each.factor
        for number in (window.first, window.last)
    ]
    board.line(across(window.first), scale(ends[0]), across(window.last), scale(ends[1]), "fit")
    beside = _WIDTH - _RIGHT + 8
    spread, rise = window.spread_share, window.rise_share
    lines = [f"mean {each.shown(average)}"]
    if spread is not None and rise is not None:
        lines += [f"range {percent(spread)}", f"slope {percent(rise)}"]
    for row, line in enumerate(lines):
        board.text(beside, scale(average) - 6 + 15 * row, line, "value" if row == 0 else "tick")


def percent(share: Fraction) -> str:
    """Return a share as percent for people; rounding never moves one onto 10 or 20."""
    exact = 100 * share
    text = f"{float(exact):.1f}"
    if text in ("10.0", "20.0") and exact not in (10, 20):
        return f"{float(exact):.9g} %"
    return f"{text} %"


def over_time(
    name: str, title: str, series: Sequence[tuple[str, str, tuple[float, ...]]], per_round_s: float
) -> Chart:
    """Return write saturation over time: a panel for each (title, unit, value a round)."""
    panels = tuple(
        Panel(
            told,
            unit,
            points=tuple(
                Point((number + 0.5) * per_round_s, value) for number, value in enumerate(values)
            ),
        )
        for told, unit, values in series
    )
    count = max(len(values) for _, _, values in series)
    drawn = timeline.draw(
        name, title, panels, (), count * per_round_s, "A point is a round; only its time counts."
    )
    return dataclasses.replace(drawn, columns=drawn.columns[:3], rows=_without_state(drawn.rows))


def _without_state(rows: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(row[:3] for row in rows)
