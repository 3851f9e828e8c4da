"""Draws sweeps as tables of colour: block sizes by queue depths, or kinds of data, a cell each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.report import show, svg
from kvgate.report.series import Grouped, grouped, significant
from kvgate.report.views import Chart

_LEFT, _TOP, _CELL, _ROW = 98.0, 26.0, 92.0, 42.0
_STEPS = 6
_MOST = 12  # charts of one gate
_KINDS = ("dedupe", "compress", "buffered")
_SIZES = {"b": 1, "k": 2**10, "m": 2**20}
_UNITS = {"b": "B", "k": "KiB", "m": "MiB"}


@dataclasses.dataclass(frozen=True, slots=True)
class Sheet:
    """One table: what every cell of it has in common, and along which labels it goes."""

    title: str
    down: str
    across: str
    taken: tuple[Measurement, ...]


def charts(gate: str, taken: Iterable[Measurement], ceilings: dict[str, float]) -> Iterator[Chart]:
    """Yield a table for each pattern of each sweep of more than one cell.

    `ceilings` are what paths can carry, by measure and host (``fio.read_bw/ini1``), in base units.
    """
    for number, sheet in enumerate(_sheets(taken)):
        if number == _MOST:
            break
        data = grouped(sheet.taken, sheet.taken[0].name, sheet.down, sheet.across)
        if len(data.groups) > 1:
            most = ceilings.get(f"{sheet.taken[0].name}/{sheet.taken[0].host}")
            yield _draw(f"{gate.lower()}-sweep-{number + 1}", sheet, data, most)


def _sheets(taken: Iterable[Measurement]) -> Iterator[Sheet]:
    kept = [each for each in taken if "grid" in each.labels and isinstance(each.value, Quantity)]
    several = len({each.host for each in kept}) > 1
    found: dict[tuple[str, ...], list[Measurement]] = {}
    for each in kept:
        if not each.name.endswith("_bw"):
            continue
        pattern = each.labels.get("pattern", "")
        key = (each.labels["grid"], pattern, each.name, each.host)
        found.setdefault(key, []).append(each)
    for (grid, pattern, name, host), some in sorted(found.items()):
        ways = _ways(some)
        way = name.removeprefix("fio.").removesuffix("_bw")
        told = f"Sweep '{grid}': {pattern}" + (f", its {way}s" if pattern == "randrw" else "")
        told += f" on {host}" if several else ""
        yield from _split(told, some, *ways)


def _ways(some: list[Measurement]) -> tuple[str, str]:
    """Return the labels along which a sweep goes: of its data, where only that is varied."""
    varied = {
        label for label in ("block_size", "depth") if len({e.labels.get(label) for e in some}) > 1
    }
    kinds = any(label in each.labels for each in some for label in _KINDS[:2])
    return ("dedupe", "compress") if kinds and not varied else ("block_size", "depth")


def _split(told: str, some: list[Measurement], down: str, across: str) -> Iterator[Sheet]:
    """Yield a sheet for every combination of the labels that are not along its sides."""
    others = [label for label in _KINDS if label not in (down, across)]
    parts: dict[str, list[Measurement]] = {}
    for each in some:
        name = ", ".join(
            f"{label} {each.labels[label]}" for label in others if label in each.labels
        )
        parts.setdefault(name, []).append(each)
    for name, part in parts.items():
        yield Sheet(f"{told}, {name}" if name else told, down, across, tuple(part))


@dataclasses.dataclass(frozen=True, slots=True)
class _Cells:
    """What stands in a table: values by (row, column), the highest, and the path's ceiling."""

    data: Grouped
    rows: list[str]
    columns: list[str]
    values: dict[tuple[str, ...], float]
    most: float | None

    @property
    def highest(self) -> float:
        """Return the highest value."""
        return max(self.values.values())

    def share(self, value: float) -> str:
        """Return a value's share of the ceiling; empty where none is known."""
        return f"{significant(100 * value / self.most)} %" if self.most else ""


def _draw(name: str, sheet: Sheet, data: Grouped, most: float | None) -> Chart:
    cells = _Cells(
        data,
        rows=sorted({group.key[0] for group in data.groups}, key=_order),
        columns=sorted({group.key[1] for group in data.groups}, key=_order),
        values={group.key: group.median for group in data.groups},
        most=most,
    )
    width = max(_LEFT + _CELL * len(cells.columns) + 8, 540.0)
    height = _TOP + _ROW * len(cells.rows) + 34
    told = "; ".join(
        f"{' by '.join(key)}: {data.shown(each)}" for key, each in cells.values.items()
    )
    board = svg.Drawing(name, width, height, title=sheet.title, description=told)
    for place, column in enumerate(cells.columns):
        middle = _LEFT + _CELL * place + (_CELL - 3) / 2
        board.text(middle, _TOP - 9, _said(sheet.across, column), "label", "middle")
    for at, row in enumerate(cells.rows):
        y = _TOP + _ROW * at
        board.text(_LEFT - 8, y + _ROW / 2 + 3, _said(sheet.down, row), "label", "end")
        for place, column in enumerate(cells.columns):
            _cell(board, cells, (row, column), _LEFT + _CELL * place, y)
    unit = show.written(data.unit) + (", and percent of the path's ceiling" if most else "")
    board.text(_LEFT, _TOP + _ROW * len(cells.rows) + 18, unit, "unit")
    return Chart(
        name,
        sheet.title,
        "Each cell: median of its rounds; the stronger its colour, the more."
        + ("" if most else " No ceiling of the path is known."),
        board.markup(),
        wide=width > 620,
        columns=(_HEADS[sheet.down], _HEADS[sheet.across], "Median", "Of ceiling"),
        rows=tuple(_rows(cells)),
    )


def _rows(cells: _Cells) -> Iterator[tuple[str, ...]]:
    for row in cells.rows:
        for column in cells.columns:
            if (value := cells.values.get((row, column))) is not None:
                share = cells.share(value) or "no ceiling known"
                yield row, column, cells.data.shown(value), share


def _cell(board: svg.Drawing, cells: _Cells, key: tuple[str, str], x: float, y: float) -> None:
    value = cells.values.get(key)
    if value is None:
        return
    step = min(int(_STEPS * value / cells.highest), _STEPS - 1) if cells.highest else 0
    shown, share = cells.data.shown(value), cells.share(value)
    board.rect(x, y, _CELL - 3, _ROW - 3, f"heat heat{step}", f"{' by '.join(key)}: {shown}")
    middle, line = x + (_CELL - 3) / 2, y + (18 if share else 25)
    board.text(middle, line, significant(cells.data.scaled(value)), "value", "middle")
    if share:
        board.text(middle, y + 33, share, "tick", "middle")


_HEADS = {"block_size": "Block", "depth": "Queue depth", "dedupe": "Dedup", "compress": "Compress"}


def _said(label: str, value: str) -> str:
    """Return a row's or column's heading: ``4 KiB``, ``QD 16``, ``dedup 50 %``."""
    if not value:
        return ""
    if label == "block_size":
        return f"{value[:-1]} {_UNITS.get(value[-1:], value[-1:])}"
    return f"QD {value}" if label == "depth" else f"{label.removesuffix('e')} {value} %"


def _order(value: str) -> tuple[float, str]:
    """Return a sort key by size: 512b before 4k before 1m, 2 before 16."""
    number, unit = (value[:-1], value[-1:]) if value[-1:] in _SIZES else (value, "b")
    known = number.isdecimal() and number.isascii() and len(number) < 12
    return (float(number) * _SIZES[unit] if known else 0.0, value)
