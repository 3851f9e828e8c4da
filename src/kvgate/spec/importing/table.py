"""Reads a table of hosts: CSV with a header, comma or semicolon between, ranges in its cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from kvgate.spec.importing.entry import Entry, Source, Told
from kvgate.spec.importing.ranges import expand
from kvgate.spec.load import nearest

COLUMNS = (
    *("name", "address", "port", "user", "key_file", "key_env", "roles", "jump"),
    *("known_hosts", "scratch", "baseline", "sudo", "transport"),
)
"""What a header may name; `name` is needed. `roles` are roles or groups, with blanks between."""


def read(source: Source) -> tuple[Entry, ...]:
    """Return the hosts of a table; raises SpecError with file and line.

    A range in `name` makes several hosts; a range in another cell of that line has to stand for
    as many values, one for each.
    """
    rows = _rows(source)
    line, header = next(rows, (1, []))
    columns = [column.strip().lower() for column in header]
    _refuse_header(source, line, columns)
    found: list[Entry] = []
    for line, cells in rows:
        if len(cells) != len(columns):
            raise source.error(line, f"has {len(cells)} cells; the header has {len(columns)}")
        row = {key: cell.strip() for key, cell in zip(columns, cells, strict=True)}
        found += _hosts(source, line, row)
    return tuple(found)


def _rows(source: Source) -> Iterator[tuple[int, list[str]]]:
    """Yield (line it begins on, cells) of every row that is not empty."""
    text = source.text()
    first = text.partition("\n")[0]
    between = ";" if first.count(";") > first.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=between, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as err:
        raise source.error(max(line, reader.line_num), f"is no sound CSV: {err}") from err


def _refuse_header(source: Source, line: int, columns: list[str]) -> None:
    for column in columns:
        source.refuse_secret(line, column, "")
        if column not in COLUMNS:
            raise source.error(line, f"'{column}' is no column here{nearest(column, COLUMNS)}")
        if columns.count(column) > 1:
            raise source.error(line, f"column '{column}' stands twice")
    if "name" not in columns:
        raise source.error(
            line, "no column 'name'", hint=f"the first line names: {', '.join(COLUMNS)}"
        )


def _hosts(source: Source, line: int, row: dict[str, str]) -> Iterator[Entry]:
    name = row.pop("name")
    if not name:
        raise source.error(line, "has no name")
    groups = tuple(row.pop("roles", "").split())
    try:
        names = expand(name)
        cells = {key: expand(cell) for key, cell in row.items() if cell}
    except ValueError as err:
        raise source.error(line, str(err)) from err
    for key, values in cells.items():
        source.refuse_secret(line, key, values[0])
        if len(values) not in (1, len(names)):
            raise source.error(
                line, f"{key}: {len(values)} values for the {len(names)} hosts of '{name}'"
            )
    for index, host in enumerate(names):
        settings = {
            key: Told(values[index if len(values) > 1 else 0], line)
            for key, values in cells.items()
        }
        if settings.get("transport", Told("ssh", line)).value != "local":
            settings.setdefault("address", Told(host, line))
        yield Entry(host, line, groups, settings)
