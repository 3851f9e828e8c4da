"""From a device's answer to readings, by the declared form of an adapter; pure, and bounded.

Two steps: `rows` finds the things that an answer tells of, `told` the values of each. What an
adapter does not know (a state, a title, a number that is none) is a problem of that one value.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kvgate.model.quantity import Quantity
from kvgate.parse import registry, table
from kvgate.parse.text import available, json_value, lines, refuse, shown
from kvgate.spec.adapter import Form, fields_of, filled
from kvgate.spec.pattern import bounded

MOST_ROWS = 4000
"""Things that one question may tell of."""

LONGEST_LINE = 2000
"""Characters of a line that patterns are tried on; a longer one is no line of such an answer."""

Row = Mapping[str, Any]
"""A thing that is told of: a line's fields, or a JSON object."""

_STEP = re.compile(r'"([^"]{1,200})"|\[(\*|[0-9]{1,4})\]|([^.\[\]"]{1,200})')
_NUMBER = re.compile(r"[+-]?[0-9]{1,39}(?:\.[0-9]{1,39})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_SUFFIXED = re.compile(r"([+-]?[0-9]{1,39}(?:\.[0-9]{1,39})?)[ \t]?([A-Za-z/%]{1,12})", re.ASCII)
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})*", re.ASCII)

Value = str | int | decimal.Decimal | None


@functools.cache
def path(text: str) -> tuple[str | int | None, ...]:
    """Return the steps of a place in a document: a key, an index, or None for all of a list.

    Written ``Status.Health``, ``Members[*]``, ``Oem."a.b"[0]``; raises ParseError otherwise.
    """
    steps: list[str | int | None] = []
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            refuse("adapter", f"'{text}' is no place in a document: it breaks at '{text[at:]}'")
        quoted, index, key = found.groups()
        steps.append((None if index == "*" else int(index)) if index else quoted or key)
        at = found.end()
        if at < len(text) and text[at] == ".":
            at += 1
            if at == len(text):
                refuse("adapter", f"'{text}' is no place in a document: it ends with a '.'")
    return tuple(steps)


def select(document: Any, place: str, tool: str) -> list[Any]:
    """Return all that stands at `place` in `document`; what is absent or null is left out.

    Raises ParseError where a step leads into something of another kind.
    """
    found = [document]
    for step in path(place):
        found = [inner for each in found for inner in _inside(each, step, place, tool)]
        if len(found) > MOST_ROWS:
            refuse(tool, f"{place} holds more than {MOST_ROWS} things")
    return found


def _inside(value: Any, step: str | int | None, place: str, tool: str) -> list[Any]:
    if isinstance(step, str):
        if not isinstance(value, dict):
            refuse(tool, f"{place}: '{step}' of {shown(value)}, which is no object")
        inner = value.get(step)
        return [] if inner is None else [inner]
    if isinstance(value, dict) and step is None:
        return [each for each in value.values() if each is not None]
    if not isinstance(value, list):
        refuse(tool, f"{place}: {shown(value)} is no list")
    chosen = value if step is None else value[step : step + 1]
    return [each for each in chosen if each is not None]


def rows(form: Form, answer: bytes, tool: str) -> tuple[Row, ...]:
    """Return the things that `answer` tells of; raises ParseError where it is not of `form`."""
    if form.document is not None:
        found = of_document(form, json_value(answer, tool), tool)
    elif form.table is not None:
        found = _of_table(form.table.columns, answer, tool)
    elif form.lines is not None:
        found = _of_lines(form.lines.pattern, answer, tool)
    elif form.keys is not None:
        found = _of_keys(form.keys.separator, answer, tool)
    else:
        found = _of_parser(form.named or "", answer)
    if len(found) > MOST_ROWS:
        refuse(tool, f"tells of more than {MOST_ROWS} things")
    return found


def of_document(form: Form, document: Any, tool: str) -> tuple[Row, ...]:
    """Return the objects of a JSON document that stand at the form's ``rows``."""
    place = form.document.rows if form.document else ""
    found = select(document, place, tool)
    for each in found:
        if not isinstance(each, dict):
            refuse(tool, f"{place or 'the answer'}: {shown(each)} is no JSON object")
    return tuple(found)


def _of_table(columns: Sequence[str], answer: bytes, tool: str) -> tuple[Row, ...]:
    for titles, below in table.tables(lines(answer, tool)):
        names = [title for title, _ in titles]
        if set(columns) <= set(names) and len(set(names)) == len(names):
            found = []
            for line in below:
                if not line.strip("- "):  # a rule below the table, before its totals
                    break
                cells = table.cells(titles, line)
                if cells is None:
                    refuse(tool, f"{shown(line)} is no row under its titles")
                found.append(cells)
            return tuple(found)
    return refuse(tool, f"shows no table with the titles {', '.join(columns)}")


def _of_lines(pattern: str, answer: bytes, tool: str) -> tuple[Row, ...]:
    compiled = _compiled(pattern)
    matches = (
        compiled.fullmatch(line)
        for line in map(str.strip, lines(answer, tool, longest=len(answer)))
        if len(line) <= LONGEST_LINE
    )
    found = tuple(match.groupdict() for match in matches if match)
    if not found:
        refuse(tool, f"shows no line such as: {pattern}")
    return found


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(bounded(pattern), re.ASCII)


def _of_keys(separator: str, answer: bytes, tool: str) -> tuple[Row, ...]:
    found: dict[str, str] = {}
    for line in lines(answer, tool):
        name, between, value = line.partition(separator)
        if between and (key := name.strip()):
            found.setdefault(key, value.strip())  # a later table's rows may look alike
    if not found:
        refuse(tool, f"shows no line of a name, '{separator}' and a value")
    return (found,)


def _of_parser(name: str, answer: bytes) -> tuple[Row, ...]:
    found = registry.parse(name, answer)
    each = found if isinstance(found, tuple) else (found,)
    return tuple(_plain(one) for one in each)


def _plain(value: Any) -> Any:
    """Return a parser's dataclass as an object of a document."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float):
        return decimal.Decimal(repr(value))
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def scalar(row: Row, field: str, tool: str) -> Value:
    """Return what `row` has at `field`: a text or number, None where it is absent or 'N/A'.

    A list of texts or numbers is one text, with commas. Raises ParseError for an object.
    """
    if field in row:
        found: list[Any] = [] if row[field] is None else [row[field]]
    else:
        found = select(row, field, tool)
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    told = [_as_value(each, field, tool) for each in found]
    if len(told) > 1:
        return ",".join(str(each) for each in told if each is not None) or None
    return told[0] if told else None


def _as_value(value: Any, field: str, tool: str) -> Value:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | decimal.Decimal):
        return value
    if isinstance(value, str):
        return available(value)
    return refuse(tool, f"{field} is {shown(value)}, neither a text nor a number")


def text_of(row: Row, source: str, tool: str) -> str | None:
    """Return the text of `source`: one field, or a template of several; None if one is absent."""
    values = {field: scalar(row, field, tool) for field in fields_of(source)}
    if any(value is None for value in values.values()):
        return None
    texts = {field: str(value) for field, value in values.items()}
    return filled(source, texts) if "{" in source else texts[source]


def number(
    value: Value, *, unit: str, suffixes: Mapping[str, str] | None, grouped: bool, tool: str
) -> Quantity | None:
    """Return the quantity that `value` is; None where there is none. Raises ParseError."""
    if value is None:
        return None
    text = str(value)
    if suffixes is not None:
        match = _SUFFIXED.fullmatch(text)
        if match is None or match[2] not in suffixes:
            refuse(tool, f"{shown(text)} is no number with one of: {', '.join(suffixes)}")
        return Quantity.of(match[1], suffixes[match[2]])
    if grouped and _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if not _NUMBER.fullmatch(text):
        refuse(tool, f"{shown(text)} is no number")
    return Quantity.of(text, unit)
