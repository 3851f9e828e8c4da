"""What rows of an answer tell, by the values and summaries that an adapter's question declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvgate.errors import ParseError, UnitError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.parse.extract import Row, number, scalar, text_of
from kvgate.parse.text import refuse, shown
from kvgate.spec.adapter import Question, Summary, Value
from kvgate.spec.device import NONE_FAULTY

MOST_TEXT = 200
"""Characters of one text that a device tells and that are kept as a value."""

MOST_NAMED = 12
"""Faulty things that a summary names before it goes on with "and N more"."""


def told(question: Question, rows: Sequence[Row], tool: str, *, item: str = "") -> list[Reading]:
    """Return all readings of `question` from `rows`; `item` is what it was asked for, if anything.

    A row that can't tell a value leaves a problem for it; a question without any row leaves one
    for each summary, as nothing proves nothing.
    """
    told_of = kept(question, rows, tool)
    found = [
        reading
        for row in told_of
        for value in question.values
        for reading in _value(question, value, row, tool, item)
    ]
    if not question.item and not item:
        found = _of_the_device(found)
    for summary in question.summaries:
        found.append(_summary(question, summary, told_of, tool))
    return found


def kept(question: Question, rows: Sequence[Row], tool: str) -> list[Row]:
    """Return the rows that the question does not leave out."""
    return [row for row in rows if not _skipped(question, row, tool)]


def _skipped(question: Question, row: Row, tool: str) -> bool:
    return any(str(scalar(row, field, tool)) in values for field, values in question.skip.items())


def _value(question: Question, value: Value, row: Row, tool: str, item: str) -> Iterator[Reading]:
    try:
        if question.item:
            name = text_of(row, question.item, tool)
            if name is None:
                refuse(tool, f"a row has no {question.item}, which names it")
            item = name[:MOST_TEXT]
        got = _read(value, row, tool)
    except (ParseError, UnitError) as err:
        yield Reading(name=value.measure, value=None, item=item, problem=err.message)
        return
    problem = "" if got is not None else f"{tool}: tells no {value.field}"
    yield Reading(name=value.measure, value=got, item=item, problem=problem)


def _read(value: Value, row: Row, tool: str) -> Quantity | str | None:
    if value.kind == "text":
        text = text_of(row, value.field, tool)
        if text is None and value.empty is not None and value.field in row:
            return value.empty
        return text if text is None else _known(value, text[:MOST_TEXT], tool)
    return number(
        scalar(row, value.field, tool),
        unit=value.unit or "",
        suffixes=value.suffixes,
        grouped=value.grouped,
        tool=tool,
    )


def _known(value: Value, text: str, tool: str) -> str:
    if value.known is None:
        return text
    if text not in value.known:
        refuse(
            tool,
            f"{value.field} is {shown(text)}, which the adapter does not know "
            f"({', '.join(value.known)})",
        )
    return value.known[text]


def _of_the_device(found: Sequence[Reading]) -> list[Reading]:
    """Return one reading a measure: several rows that differ are several devices, and a problem."""
    by_name: dict[str, list[Reading]] = {}
    for each in found:
        by_name.setdefault(each.name, []).append(each)
    single = []
    for name, readings in by_name.items():
        values = {each.value for each in readings}
        if len(values) == 1:
            single.append(readings[0])
            continue
        texts = ", ".join(sorted(str(value) for value in values if value is not None))
        problem = f"the device tells different ones: {texts[:MOST_TEXT]}"
        single.append(Reading(name=name, value=None, problem=problem))
    return single


def _summary(question: Question, summary: Summary, rows: Sequence[Row], tool: str) -> Reading:
    try:
        value = _summed(question, summary, rows, tool)
    except (ParseError, UnitError) as err:
        return Reading(name=summary.measure, value=None, problem=err.message)
    return Reading(name=summary.measure, value=value)


def _summed(question: Question, summary: Summary, rows: Sequence[Row], tool: str) -> Quantity | str:
    if summary.how == "count":
        wanted = [row for row in rows if _among(summary, row, tool)]
        return Quantity.of(len(wanted), "")
    if not rows:
        refuse(tool, f"tells of nothing, so that {summary.field} is not known")
    field = summary.field or ""
    if summary.how == "faulty":
        return _faulty(question, summary, rows, tool)
    texts = [text for row in rows if (text := text_of(row, field, tool)) is not None]
    if len(texts) < len(rows):
        refuse(tool, f"{len(rows) - len(texts)} of {len(rows)} tell no {field}")
    if summary.how == "distinct":
        return ", ".join(sorted(set(texts)))[:MOST_TEXT]
    if summary.how == "newest":
        return max(texts)[:MOST_TEXT]
    numbers = [
        number(text, unit=summary.unit or "", suffixes=None, grouped=False, tool=tool)
        for text in texts
    ]
    return max(each for each in numbers if each is not None)


def _among(summary: Summary, row: Row, tool: str) -> bool:
    """Tell whether a row counts; raises ParseError where it does not tell that."""
    for field, values in summary.where.items():
        value = scalar(row, field, tool)
        if value is None:
            refuse(tool, f"something tells no {field}, by which it is counted or not")
        if str(value) not in values:
            return False
    return True


def _faulty(question: Question, summary: Summary, rows: Sequence[Row], tool: str) -> str:
    """Return the names of rows that are not good with what they say, or that there are none."""
    faulty, silent = [], []
    for at, row in enumerate(rows):
        name = (text_of(row, question.item, tool) if question.item else None) or f"number {at + 1}"
        state = text_of(row, summary.field or "", tool)
        if state is None:
            silent.append(name)
        elif state not in (summary.good or ()):
            faulty.append(f"{name} ({state})"[:MOST_TEXT])
    if faulty:
        more = len(faulty) - MOST_NAMED
        return ", ".join(faulty[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    if silent:
        refuse(tool, f"{', '.join(silent[:MOST_NAMED])}: tells no {summary.field}")
    return NONE_FAULTY
