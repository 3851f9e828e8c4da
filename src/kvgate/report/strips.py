"""Draws results by arm and concurrency: a dot a round, a bar at the median of the rounds."""

from __future__ import annotations

from kvgate.report import show, svg
from kvgate.report.series import Group, Grouped
from kvgate.report.views import Chart

ARMS = ("recompute", "local", "device")
"""The arms in the order in which they are drawn, each with a shape of its own."""

_LEFT, _TOP, _PLOT, _STRIP = 54.0, 30.0, 200.0, 86.0


def draw(name: str, title: str, data: Grouped) -> Chart:
    """Return the chart of `data`, whose groups are (arm, concurrency)."""
    arms = sorted({group.key[0] for group in data.groups}, key=_order)
    levels = list(dict.fromkeys(group.key[1] for group in sorted(data.groups, key=_level)))
    by_key = {group.key: group for group in data.groups}
    width = max(_LEFT + _STRIP * len(arms) * len(levels) + 16, 540.0)
    board = svg.Drawing(name, width, _TOP + _PLOT + 60, title=title, description=_told(data))
    scale = svg.spread(
        [data.scaled(value) for group in data.groups for _, value in group.rounds],
        _TOP + _PLOT,
        _TOP,
    )
    _axis(board, scale, data, width)
    across = (width - _LEFT - 8) / max(len(levels), 1)
    for column, level in enumerate(levels):
        left = _LEFT + across * column
        if column:
            board.line(left, _TOP, left, _TOP + _PLOT, "grid")
        board.text(
            left + across / 2, _TOP + _PLOT + 38, f"concurrency {level or '?'}", "label", "middle"
        )
        for place, arm in enumerate(arms):
            if (group := by_key.get((arm, level))) is not None:
                middle = left + across * (place + 0.5) / len(arms)
                _strip(board, scale, data, group, middle, arms)
    return Chart(
        name,
        title,
        _note(data, scale.log),
        board.markup(),
        wide=width > 620,
        columns=("Arm", "Concurrency", "Median", "Rounds"),
        rows=tuple(_row(data, group) for group in sorted(data.groups, key=_level)),
    )


def _row(data: Grouped, group: Group) -> tuple[str, ...]:
    rounds = ", ".join(data.shown(value) for _, value in group.rounds)
    return (*group.key, data.shown(group.median), rounds)


def _axis(board: svg.Drawing, scale: svg.Scale, data: Grouped, width: float) -> None:
    for tick in scale.ticks(4):
        board.line(_LEFT, scale(tick), width - 8, scale(tick), "grid")
        board.text(_LEFT - 7, scale(tick) + 4, svg.number(tick), "tick", "end")
    board.text(4, 10, show.written(data.unit) or "count", "unit")
    board.line(_LEFT, _TOP, _LEFT, _TOP + _PLOT, "axis")
    board.line(_LEFT, _TOP + _PLOT, width - 8, _TOP + _PLOT, "axis")


def _strip(
    board: svg.Drawing,
    scale: svg.Scale,
    data: Grouped,
    group: Group,
    middle: float,
    arms: list[str],
) -> None:
    arm = group.key[0]
    series = arms.index(arm)
    shape = svg.SHAPES[series % len(svg.SHAPES)]
    style = f"s{series % 3 + 1}"
    at = scale(data.scaled(group.median))
    board.line(middle - 16, at, middle + 16, at, f"median {style}")
    count = len(group.rounds)
    for number, (round_, value) in enumerate(group.rounds):
        x = middle + (0 if count == 1 else 16 * (number / (count - 1) - 0.5))
        tip = f"{arm}, concurrency {group.key[1]}, round {round_ or '?'}: {data.shown(value)}"
        board.point(x, scale(data.scaled(value)), shape, style, tip)
    near_top = min(at, *(scale(data.scaled(value)) for _, value in group.rounds), _TOP + _PLOT)
    board.text(middle, near_top - 9, data.shown(group.median), "value", "middle")
    board.text(
        middle, _TOP + _PLOT + 17, arm if len(arm) <= 14 else arm[:13] + "…", "tick", "middle"
    )


def _order(arm: str) -> tuple[int, str]:
    return (ARMS.index(arm) if arm in ARMS else len(ARMS), arm)


def _level(group: Group) -> tuple[object, ...]:
    concurrency = group.key[1]
    numeric = float(concurrency) if concurrency.isascii() and concurrency.isdecimal() else 1e18
    return (numeric, concurrency, _order(group.key[0]))


def _told(data: Grouped) -> str:
    return "; ".join(
        f"{group.key[0]} at concurrency {group.key[1]}: {data.shown(group.median)}"
        for group in sorted(data.groups, key=_level)
    )


def _note(data: Grouped, log: bool) -> str:
    parts = ["Points: each round; bar and figure: median of the rounds."]
    if log:
        parts.append("Logarithmic scale.")
    if data.missing:
        parts.append(f"Measurements without a value: {data.missing}.")
    return " ".join(parts)
