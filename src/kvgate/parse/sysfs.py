"""Attributes of sysfs as ``grep -asH "" …`` prints them: ``ITEM/ATTRIBUTE:VALUE`` a line.

One grep reads a whole class of devices without a shell loop; files that are absent or refuse to
be read (a NIC's speed without link: EINVAL) are simply not there.
"""

from __future__ import annotations

import re

from kvgate.parse.text import refuse, shown

_SHAPE = rb"([^/\s]{1,64})/([A-Za-z0-9_/]{1,64}):(.*)"
_LINE = re.compile(_SHAPE)
_LINES = re.compile(rb"^" + _SHAPE + rb"$", re.MULTILINE)

Attributes = dict[str, dict[str, bytes]]
"""Item → attribute → its bytes as the kernel gave them, without the last line end."""


def attributes(answer: bytes, what: str) -> Attributes:
    """Return every attribute of every item; raises ParseError for a line of another shape.

    An attribute of several lines (binary, or with line ends in it) comes joined again.
    """
    matches = _LINES.findall(answer)
    if len(matches) != _lines_in(answer):
        odd = next(line for line in answer.split(b"\n") if line and not _LINE.fullmatch(line))
        refuse(what, f"{shown(odd)} is not ITEM/ATTRIBUTE:VALUE")
    raw: dict[bytes, dict[str, bytes]] = {}
    names: dict[bytes, str] = {}  # attributes are few and ASCII, items many
    for item, attribute, value in matches:
        values = raw.get(item)
        if values is None:
            values = raw[item] = {}
        name = names.get(attribute)
        if name is None:
            name = names[attribute] = attribute.decode("ascii")
        values[name] = values[name] + b"\n" + value if name in values else value
    try:
        return {item.decode(): values for item, values in raw.items()}
    except UnicodeDecodeError:
        refuse(what, "an item's name is not UTF-8")


def _lines_in(answer: bytes) -> int:
    """Return how many lines are not empty."""
    if b"\n\n" in answer or answer.startswith(b"\n"):
        return sum(map(bool, answer.split(b"\n")))
    return answer.count(b"\n") + (not answer.endswith(b"\n") and bool(answer))


def text(values: dict[str, bytes], name: str, what: str) -> str | None:
    """Return the attribute `name` as stripped text, None where absent; refuses binary bytes."""
    return line(values.get(name), name, what)


def line(value: bytes | None, name: str, what: str) -> str | None:
    """Return the attribute's bytes as `text` does."""
    if value is None:
        return None
    try:
        found = value.decode("utf-8").strip()
    except UnicodeDecodeError:
        refuse(what, f"{name} is {shown(value)}, not UTF-8")
    if "\0" in found or "\n" in found:
        refuse(what, f"{name} is {shown(value)}, not one line of text")
    return found
