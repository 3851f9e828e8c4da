"""Draws comparisons of arms: each ratio with its interval, beside its limit and the noise floor."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from kvgate.errors import UnitError
from kvgate.model.finding import Comparison, Finding
from kvgate.model.quantity import Quantity
from kvgate.report import svg
from kvgate.report.findings import host_name
from kvgate.report.sources import Sources
from kvgate.report.views import Chart

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 540.0, 178.0, 96.0, 38.0, 8.0
_SHOWN = 24  # ratios in one picture; more are in the table
_TITLE = "Arms compared, by criterion"


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """One criterion's comparison in one place."""

    label: str
    below: str
    ratio: float
    low: float | None
    high: float | None
    bound: float | None
    cells: tuple[str, ...]


def chart(gate: str, findings: Iterable[Finding], sources: Sources) -> Chart | None:
    """Return the chart of `findings` that compare arms; None where none of them has a ratio."""
    rows = [row for finding in findings for row in _rows(finding, sources)]
    if not rows:
        return None
    name, drawn = f"{gate.lower()}-ratios", rows[:_SHOWN]
    told = "; ".join(f"{row.label}: {row.cells[2]} {row.cells[3]}" for row in drawn)
    height = _TOP + _ROW * len(drawn) + 40
    board = svg.Drawing(name, _WIDTH, height, title=_TITLE, description=told)
    ends = [each for row in drawn for each in (row.ratio, row.high, row.bound) if each is not None]
    scale = svg.from_zero(ends, _LEFT, _WIDTH - _RIGHT)
    bottom = _TOP + _ROW * len(drawn)
    for tick in scale.ticks(4):
        board.line(scale(tick), _TOP, scale(tick), bottom, "grid")
        board.text(scale(tick), bottom + 15, svg.number(tick), "tick", "middle")
    board.text(_WIDTH - _RIGHT, bottom + 31, "times better", "unit", "end")
    for place, row in enumerate(drawn):
        _bar(board, scale, row, _TOP + _ROW * place + _ROW / 2)
    board.line(_LEFT, _TOP, _LEFT, bottom, "axis")
    more = f" {len(rows) - _SHOWN} more are in the table." if len(rows) > _SHOWN else ""
    return Chart(
        name,
        _TITLE,
        f"Bar: ratio over blocks; thin line: its interval; dashed line: limit.{more}",
        board.markup(),
        columns=("Criterion", "Arms", "Ratio", "Interval", "Blocks", "Limit", "Noise floor"),
        rows=tuple(row.cells for row in rows),
    )


def _rows(finding: Finding, sources: Sources) -> Iterator[_Row]:
    criterion = sources.criterion(finding.criterion)
    limit = criterion.limits.get(sources.result.profile) if criterion else None
    bound = (limit.at_least or limit.at_most) if limit else None
    for host in finding.hosts:
        told = host.comparison
        ratio = _number(told.ratio) if told else None
        if told is None or ratio is None:
            continue
        on = f" on {host_name(host.host)}" if len(finding.hosts) > 1 else ""
        yield _Row(
            label=f"{finding.criterion}{on}",
            below=f"{told.of} against {told.to}",
            ratio=ratio,
            low=_number(told.low),
            high=_number(told.high),
            bound=float(bound.base) if bound else None,
            cells=_cells(f"{finding.criterion}{on}", told, finding.limit),
        )


def _cells(label: str, told: Comparison, limit: str) -> tuple[str, ...]:
    interval = f"{told.low} to {told.high} ({told.level})" if told.low else "none"
    between = f"{told.of} against {told.to}"
    return (label, between, told.ratio, interval, told.blocks, limit, told.noise)


def _number(text: str) -> float | None:
    """Return a ratio that a finding tells; a stored one that is none is not drawn."""
    try:
        return float(Quantity.parse(text).base) if text else None
    except UnitError:
        return None


def _bar(board: svg.Drawing, scale: svg.Scale, row: _Row, middle: float) -> None:
    board.text(_LEFT - 8, middle, row.label, "label", "end")
    board.text(_LEFT - 8, middle + 13, row.below, "tick", "end")
    furthest = scale(row.ratio)
    board.rect(_LEFT, middle - 8, furthest - _LEFT, 16, "bar", f"{row.label}: {row.cells[2]}")
    if row.low is not None and row.high is not None:
        low, high = scale(row.low), scale(row.high)
        board.line(low, middle, high, middle, "interval")
        for end in (low, high):
            board.line(end, middle - 5, end, middle + 5, "interval")
        furthest = max(furthest, high)
    if row.bound is not None:
        at = scale(row.bound)
        board.line(at, middle - 14, at, middle + 14, "limit")
        furthest = max(furthest, at) if at < furthest + _RIGHT else furthest
    board.text(furthest + 8, middle + 4, row.cells[2], "value")
