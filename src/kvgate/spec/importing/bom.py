"""Makes a bill of materials from a supplier's table, by a mapping of its columns."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from kvgate.errors import SpecError, UsageError
from kvgate.model.part import KINDS, PartKind, serial_key
from kvgate.spec import yamlfile
from kvgate.spec.importing import bom_cells
from kvgate.spec.importing.bom_cells import Cell
from kvgate.spec.importing.bom_values import Reader, shorter
from kvgate.spec.load import nearest
from kvgate.spec.load_bom import MOST_VALUES, bom_of

FIELDS = (
    *("position", "part_number", "description", "kind", "model"),
    *("quantity", "serials", "host", "slot", "port"),
)
"""What columns may be mapped to."""

KNOWN = {
    "position": ("position", "pos", "pos.", "no.", "item", "序号", "行号"),
    "part_number": (
        *("part number", "part no.", "part no", "p/n", "pn"),
        *("料号", "物料编码", "部件号"),
    ),
    "description": ("description", "desc", "bezeichnung", "描述", "规格描述", "名称", "品名"),
    "kind": ("kind", "type", "category", "类别", "类型"),
    "model": ("model", "型号", "规格型号"),
    "quantity": ("quantity", "qty", "qty.", "menge", "数量"),
    "serials": (
        *("serials", "serial", "serial number", "serial numbers", "serial no.", "serial no"),
        *("s/n", "sn", "序列号"),
    ),
    "host": ("host", "主机", "主机名"),
    "slot": ("slot", "槽位"),
    "port": ("port", "端口"),
}
"""Field → the headings that are known without a mapping, in small letters."""

_SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_TOP_ROWS = 30  # titles and addresses that may stand above the heading


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """How to read the table: columns by field, words for kinds, columns to leave out.

    ``kind`` is the kind of every line where no column tells it.
    """

    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    kinds: Mapping[str, PartKind] = dataclasses.field(default_factory=dict)
    kind: PartKind | None = None
    ignore: tuple[str, ...] = ()
    sheet: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ImportedBom:
    """The bill's text, how many lines and serial numbers it has, and what to look at."""

    text: str
    lines: int
    serials: int
    remarks: tuple[str, ...]


def options_of(
    mapping: Sequence[str], kinds: Sequence[str], ignore: Sequence[str], sheet: str | None
) -> Options:
    """Return the options that ``FIELD=COLUMN``, ``KIND``, ``WORD=KIND`` say; raises UsageError."""
    columns: dict[str, str] = {}
    for text in mapping:
        field, equals, title = text.partition("=")
        if not equals or not title.strip() or field not in FIELDS:
            raise UsageError(
                f"--map '{text}' is not FIELD=COLUMN",
                hint=f"a field is one of: {', '.join(FIELDS)}",
            )
        if field in columns:
            raise UsageError(f"--map: '{field}' is given twice")
        columns[field] = title.strip()
    words: dict[str, PartKind] = {}
    only: PartKind | None = None
    for text in kinds:
        word, equals, kind = text.rpartition("=")
        known = next((each for each in KINDS if each == kind), None)
        if known is None:
            raise UsageError(f"--kind '{text}': '{kind}' is no kind{nearest(kind, KINDS)}")
        if equals:
            words[word.strip()] = known
        else:
            only = known
    return Options(columns, words, only, tuple(each.strip() for each in ignore), sheet)


def import_bom(content: bytes, source: str, *, name: str, options: Options) -> ImportedBom:
    """Return the bill of materials that the table in `content` describes.

    A row without part number, model, description and quantity goes on with the serial numbers of
    the line above. Raises SpecError with the cell for everything that is not understood or was
    lost on the way, UsageError for options that do not fit the file.
    """
    if not _SLUG.fullmatch(name):
        raise UsageError(
            f"'{name}' can't name a bill of materials",
            hint="--name NAME: small letters, digits, '.', '_' and '-', 64 at most",
        )
    table = bom_cells.read(content, source, options.sheet)
    heading, rows = _heading(table.rows, source, options)
    reader = Reader(options.kinds)
    lines = _lines(heading, rows, reader, options, source)
    doubled: dict[tuple[str, str], Cell] = {}
    for line in lines:
        line.check(doubled)
        reader.remarks += shorter(line.serials)
    shown = source.rpartition("/")[2]
    head = f"# Imported from {shown if shown.isprintable() else ascii(shown)}."
    text = "\n".join([head, f"bom: {_flow(name)}", "lines:", *map(_text, lines)]) + "\n"
    bom_of(yamlfile.parse(text.encode(), f"{source} as imported", most=MOST_VALUES))
    count = sum(len(line.serials) for line in lines)
    return ImportedBom(text, len(lines), count, (*table.remarks, *reader.remarks))


@dataclasses.dataclass(slots=True)
class _Line:
    """One line of the bill while its rows are read."""

    values: dict[str, str]
    kind: PartKind
    quantity: int | None
    at: Cell  # the quantity's cell, else the row's first
    serials: list[tuple[str, Cell]] = dataclasses.field(default_factory=list)

    def check(self, seen: dict[tuple[str, str], Cell]) -> None:
        """Raise SpecError where serial numbers are double, or not as many as the quantity."""
        for serial, cell in self.serials:
            key = (self.kind, serial_key(serial))
            if key in seen:
                raise cell.error(f"serial number {serial} stands in {seen[key].where} too")
            seen[key] = cell
        count = len(self.serials)
        if self.quantity is None:
            self.quantity = count or 1
        if count not in (0, self.quantity):
            raise self.at.error(f"quantity is {self.quantity}, and {count} serial numbers follow")


Rows = tuple[tuple[Cell, ...], ...]


def _heading(rows: Rows, source: str, options: Options) -> tuple[dict[int, str], Rows]:
    """Return column → field, and the rows below the heading; raises SpecError."""
    wanted = {title.casefold(): field for field, title in options.columns.items()}
    ignored = {title.casefold() for title in options.ignore}
    known = {
        title: field
        for field, titles in KNOWN.items()
        if field not in options.columns
        for title in titles
    }
    names = {**known, **wanted}
    for number, row in enumerate(rows[:_TOP_ROWS]):
        titles = [" ".join(cell.text.split()).casefold() for cell in row]
        if set(wanted) <= set(titles) and (wanted or sum(t in names for t in titles) > 1):
            return _mapped(row, titles, names, ignored), rows[number + 1 :]
    missing = ", ".join(f"'{title}'" for title in options.columns.values())
    raise SpecError(
        f"{source}: no row of the first {_TOP_ROWS} has the headings {missing}"
        if missing
        else f"{source}: no row of the first {_TOP_ROWS} has headings that are known",
        hint=f"name them: --map FIELD=COLUMN, with FIELD one of {', '.join(FIELDS)}",
    )


def _mapped(
    row: Sequence[Cell], titles: Sequence[str], names: Mapping[str, str], ignored: set[str]
) -> dict[int, str]:
    found: dict[int, str] = {}
    for at, (cell, title) in enumerate(zip(row, titles, strict=True)):
        if not title or title in ignored:
            continue
        if title not in names:
            raise cell.error(
                f"column '{cell.text.strip()[:60]}' is not known{nearest(title, FIELDS)}",
                hint="map it (--map FIELD=COLUMN), or leave it out (--ignore COLUMN)",
            )
        if names[title] in found.values():
            raise cell.error(f"a second column for '{names[title]}'")
        found[at] = names[title]
    if not {"part_number", "model", "description"} & set(found.values()):
        raise row[0].error(
            "no column for part_number, model or description",
            hint="map one: --map part_number=COLUMN",
        )
    return found


def _lines(
    heading: Mapping[int, str], rows: Rows, reader: Reader, options: Options, source: str
) -> list[_Line]:
    lines: list[_Line] = []
    for row in rows:
        beyond = next((c for at, c in enumerate(row) if at not in heading and c.text.strip()), None)
        if beyond is not None and row.index(beyond) >= max(heading) + 1:
            raise beyond.error("stands beyond the columns of the heading")
        cells = {field: row[at] for at, field in heading.items() if at < len(row)}
        values = dict(_values(cells, reader))
        serials = cells.get("serials")
        quantity = reader.quantity(cells["quantity"]) if "quantity" in cells else None
        told = {"part_number", "model", "description"} & values.keys()
        if not told and quantity is None:
            _go_on(lines, values, serials, reader, row)
            continue
        _refuse_merged(cells)
        if not told:
            raise row[0].error("has no part number, model or description")
        at = cells.get("quantity", row[0])
        line = _Line(values, _kind(cells, reader, options, row), quantity, at)
        if serials is not None:
            line.serials += [(serial, serials) for serial in reader.serials(serials)]
        lines.append(line)
    if not lines:
        raise SpecError(f"{source}: has no line below its heading")
    return lines


def _refuse_merged(cells: Mapping[str, Cell]) -> None:
    """Raise SpecError where a line of its own shares a merged cell with the line above."""
    cell = next((each for each in cells.values() if each.stored == "merged"), None)
    if cell is not None:
        raise cell.error(
            "is merged with a cell above: whether its value holds for this line is not known",
            hint="unmerge it in Excel, and fill in what holds for each line",
        )


def _values(cells: Mapping[str, Cell], reader: Reader) -> Iterator[tuple[str, str]]:
    """Yield the fields of a row that hold a text; hosts in small letters."""
    for field, cell in cells.items():
        if field in ("serials", "quantity", "kind"):
            continue
        exact = field in ("part_number", "position", "slot", "port")
        text = reader.number(cell) if exact else reader.text(cell)
        if field == "host" and text:
            text = text.lower()
            if not _SLUG.fullmatch(text):
                raise cell.error(f"'{text[:40]}' can't be a host's name")
        if text:
            yield field, text
            if field in ("slot", "port") and "host" not in cells:
                raise cell.error("a slot or port goes with a host: map a column 'host' too")


def _go_on(
    lines: list[_Line],
    values: Mapping[str, str],
    serials: Cell | None,
    reader: Reader,
    row: Sequence[Cell],
) -> None:
    """Add a row of serial numbers alone to the line above."""
    found = reader.serials(serials) if serials is not None else ()
    if values or not found or not lines or serials is None:
        raise row[0].error("is no line, and goes on with none: it has no part and no serial number")
    lines[-1].serials += [(serial, serials) for serial in found]


def _kind(
    cells: Mapping[str, Cell], reader: Reader, options: Options, row: Sequence[Cell]
) -> PartKind:
    cell = cells.get("kind")
    if cell is not None and reader.text(cell):
        return reader.kind(cell)
    if options.kind is None:
        raise (cell or row[0]).error(
            "tells no kind of part", hint=f"map a column, or give --kind KIND: {', '.join(KINDS)}"
        )
    return options.kind


def _text(line: _Line) -> str:
    """Return a line as YAML."""
    made: dict[str, Any] = {"kind": line.kind, "quantity": line.quantity}
    made |= {
        field: line.values[field]
        for field in ("position", "part_number", "model", "description")
        if field in line.values
    }
    where = {
        field: line.values[field] for field in ("host", "slot", "port") if field in line.values
    }
    if where:
        made["where"] = where
    if line.serials:
        made["serials"] = [serial for serial, _ in line.serials]
    return f"  - {_flow(made)}"


def _flow(value: Any) -> str:
    dumper = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper  # ten times quicker
    return str(
        yaml.dump(
            [value],
            Dumper=dumper,
            default_flow_style=True,
            sort_keys=False,
            allow_unicode=True,
            width=10**9,
        )
    ).strip()[1:-1]
