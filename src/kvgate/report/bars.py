"""Draws fio's results: one bar a job at its median, each round's value as a point on it."""

from __future__ import annotations

import dataclasses
import math

from kvgate.judge.ratio import Interval, interval_of
from kvgate.model.quantity import Quantity
from kvgate.report import show, svg
from kvgate.report.series import Group, Grouped, significant
from kvgate.report.views import Chart
from kvgate.spec.ratio import LEAST_BLOCKS

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 540.0, 158.0, 104.0, 38.0, 8.0
_SHOWN = 24  # bars in one picture; more are in the table


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """A limit to draw beside a bar: its value and how it is told."""

    limit: Quantity
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Ceilings:
    """What paths can carry at most, in base units, and why one's is not known.

    By what bars name beside the job (a host, an arm, ``arm on host``); `only` is the host of bars
    that name nothing.
    """

    known: dict[str, float]
    unknown: dict[str, str]
    only: str = ""

    def share(self, group: Group) -> str:
        """Return how much of its path's ceiling a bar is: ``82 %``; empty where none is known."""
        most = self.known.get(self._path(group))
        return f"{significant(100 * group.median / most)} %" if most else ""

    def told(self, group: Group) -> str:
        """Return the same for a table, with the reason where there is no ceiling."""
        why = self.unknown.get(self._path(group), "not measured")
        return self.share(group) or f"no ceiling known: {why}"

    def _path(self, group: Group) -> str:
        return " on ".join(group.key[1:]) or self.only


def draw(
    name: str,
    title: str,
    data: Grouped,
    bounds: dict[str, Bound],
    *,
    what: str,
    ceilings: Ceilings | None = None,
    column: str = "Job",
) -> Chart:
    """Return the bar chart of `data`, whose groups are (job,), (job, host) or (job, arm, …).

    `column` heads what groups are called by.

    Bars of so many rounds as an interval takes have one.

    `bounds` are limits by job; `what` says what a bar is, e.g. "median of 2 rounds"; of
    `ceilings` each bar tells its share.
    """
    groups = data.groups[:_SHOWN]
    height = _TOP + _ROW * len(groups) + 40
    board = svg.Drawing(name, _WIDTH, height, title=title, description=_told(data, groups))
    drawn = [data.scaled(value) for group in groups for _, value in group.rounds]
    scale = svg.from_zero(drawn, _LEFT, _WIDTH - _RIGHT)
    bottom = _TOP + _ROW * len(groups)
    _axis(board, scale, bottom, show.written(data.unit))
    for row, group in enumerate(groups):
        share = ceilings.share(group) if ceilings else ""
        _bar(board, scale, data, group, _TOP + _ROW * row, bounds.get(group.key[0]), share)
    board.line(_LEFT, _TOP, _LEFT, bottom, "axis")
    columns = (column, "Median", "Rounds", "Limit", *(("Of ceiling",) if ceilings else ()))
    rows = [
        (*_row(data, group, bounds), *((ceilings.told(group),) if ceilings else ()))
        for group in data.groups
    ]
    note = _note(data, what, ceilings)
    return Chart(name, title, note, board.markup(), columns=columns, rows=tuple(rows))


def _axis(board: svg.Drawing, scale: svg.Scale, bottom: float, unit: str) -> None:
    for tick in scale.ticks(4):
        board.line(scale(tick), _TOP, scale(tick), bottom, "grid")
        board.text(scale(tick), bottom + 15, svg.number(tick), "tick", "middle")
    board.text(_WIDTH - _RIGHT, bottom + 31, unit, "unit", "end")


def _row(data: Grouped, group: Group, bounds: dict[str, Bound]) -> tuple[str, str, str, str]:
    return (
        " on ".join(group.key),
        data.shown(group.median),
        ", ".join(data.shown(value) for _, value in group.rounds),
        bounds[group.key[0]].text if group.key[0] in bounds else "none",
    )


def _bar(
    board: svg.Drawing,
    scale: svg.Scale,
    data: Grouped,
    group: Group,
    y: float,
    bound: Bound | None,
    share: str,
) -> None:
    label, *host = group.key
    middle = y + _ROW / 2
    below = ", ".join(part for part in (*host, bound.text if bound else "") if part)
    board.text(_LEFT - 8, middle + (0 if below else 4), _short(label), "label", "end")
    if below:
        board.text(_LEFT - 8, middle + 13, _short(below), "tick", "end")
    end = scale(data.scaled(group.median))
    board.rect(_LEFT, middle - 8, end - _LEFT, 16, "bar", f"{label}: {data.shown(group.median)}")
    _dots(board, scale, data, group, middle)
    furthest = max([end, *(scale(data.scaled(value)) for _, value in group.rounds)])
    if found := _interval(group):
        low, high = (scale(data.scaled(value)) for value in (found.low, found.high))
        board.line(low, middle, high, middle, "interval")
        for at in (low, high):
            board.line(at, middle - 5, at, middle + 5, "interval")
        furthest = max(furthest, high)
    drawn = bound is not None and data.scaled(float(bound.limit.base)) <= scale.high
    if bound is not None and drawn:  # one beyond the axis is told below the label only
        at = scale(data.scaled(float(bound.limit.base)))
        board.line(at, middle - 14, at, middle + 14, "limit")
        if furthest <= at < furthest + _RIGHT:
            furthest = at  # the figure stands behind the limit's line, not across it
    board.text(furthest + 8, middle + (0 if share else 4), data.shown(group.median), "value")
    if share:
        board.text(furthest + 8, middle + 13, f"{share} of ceiling", "tick")


def _dots(board: svg.Drawing, scale: svg.Scale, data: Grouped, group: Group, middle: float) -> None:
    """Draw a dot a round, neighbours a little apart."""
    spread = 4.5 if len(group.rounds) > 1 else 0.0
    for number, (round_, value) in enumerate(group.rounds):
        offset = spread * (2 * (number % 2) - 1)
        told = f"{group.key[0]}, round {round_ or '?'}: {data.shown(value)}"
        board.point(scale(data.scaled(value)), middle + offset, "circle", "dot", told, 2.8)


def _interval(group: Group) -> Interval | None:
    """Return the interval of a bar's mean over rounds (geometric, Student's); None for a few."""
    values = [value for _, value in group.rounds]
    if len(values) < LEAST_BLOCKS or min(values) <= 0:
        return None
    return interval_of([math.log(value) for value in values])


def _short(text: str) -> str:
    return text if len(text) <= 26 else text[:25] + "…"


def _told(data: Grouped, groups: tuple[Group, ...]) -> str:
    return "; ".join(f"{' on '.join(group.key)}: {data.shown(group.median)}" for group in groups)


def _note(data: Grouped, what: str, ceilings: Ceilings | None) -> str:
    ranged = any(_interval(group) for group in data.groups)
    thin = " thin line: 95 % interval of the mean over rounds;" if ranged else ""
    parts = [f"Bar: {what}; points: each round;{thin} dashed line: limit."]
    if len(data.groups) > _SHOWN:
        parts.append(f"{len(data.groups) - _SHOWN} more are in the table.")
    if ceilings and not ceilings.known:
        why = "; ".join(dict.fromkeys(ceilings.unknown.values()))
        parts.append(f"No ceiling of the path is known: {why or 'not measured'}.")
    if data.missing:
        parts.append(f"Measurements without a value: {data.missing}.")
    return " ".join(parts)
