"""A sheet of tables beside any run: the same finished view as text and as an HTML page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from kvgate.errors import HarnessError
from kvgate.report.text import harmless

TEMPLATE = "sheet.html.j2"


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One row of a table; ``look`` is empty, or a verdict whose colour it has."""

    cells: tuple[str, ...]
    look: str = ""
    more: tuple[str, ...] = ()  # lines below it, e.g. the arithmetic


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table: its caption, the names of its columns, which of them are numbers, and its rows."""

    caption: str
    head: tuple[str, ...]
    lines: tuple[Line, ...]
    numbers: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of a sheet under its own heading."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    picture: Markup | None = None
    picture_told: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Sheet:
    """A finished sheet; ``banner`` says why its figures are no site's, empty where they may be."""

    title: str
    banner: str
    facts: tuple[tuple[str, str], ...]
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()


def page(sheet: Sheet, templates: Path) -> bytes:
    """Return `sheet` as a self-contained HTML page; raises HarnessError for a template at fault."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    try:
        return environment.get_template(TEMPLATE).render(sheet=harmless(sheet)).encode()
    except jinja2.TemplateError as err:
        raise HarnessError(
            f"{templates / TEMPLATE}: {type(err).__name__}: {err}",
            hint="compare it with the template that came with kvgate",
        ) from err


def text(sheet: Sheet) -> Iterator[str]:
    """Yield `sheet` as lines for a terminal, made harmless."""
    shown = harmless(sheet)
    yield shown.title
    if shown.banner:
        yield f"*** {shown.banner} ***"
    yield from _facts(shown.facts)
    for part in shown.parts:
        if not (part.facts or part.tables or part.notes):
            continue  # only a picture
        yield ""
        yield part.title
        yield from _facts(part.facts)
        for table in part.tables:
            yield from _aligned(table)
        yield from (f"  note: {note}" for note in part.notes)
    if shown.notes:
        yield ""
        yield from (f"note: {note}" for note in shown.notes)


def _facts(facts: Sequence[tuple[str, str]]) -> Iterator[str]:
    wide = max((len(label) for label, _ in facts), default=0)
    yield from (f"  {label:<{wide}}  {told}" for label, told in facts)


def _aligned(table: Table) -> Iterator[str]:
    rows = [table.head, *(line.cells for line in table.lines)]
    wide = [max(len(row[at]) for row in rows) for at in range(len(table.head))]
    yield f"  {table.caption}:"
    for row, line in zip(rows, (None, *table.lines), strict=True):
        cells = [
            f"{cell:>{wide[at]}}" if at in table.numbers else f"{cell:<{wide[at]}}"
            for at, cell in enumerate(row)
        ]
        yield f"    {'  '.join(cells)}".rstrip()
        if line is not None:
            yield from (f"        {more}" for more in line.more)
