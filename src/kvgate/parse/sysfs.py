"""Attributes of sysfs as ``grep -asH "" …`` prints them: ``ITEM/ATTRIBUTE:VALUE`` a line.

One grep reads a whole class of devices without a shell loop; files that are absent or refuse to
be read (a NIC's speed without link: EINVAL) are simply not there.
"""

from __future__ import annotations

import re

from kvgate.parse.text import refuse, shown

_LINE = re.compile(rb"([^/\s]{1,64})/([A-Za-z0-9_/]{1,64}):(.*)", re.DOTALL)

Attributes = dict[str, dict[str, bytes]]
"""Item → attribute → its bytes as the kernel gave them, without the last line end."""


def attributes(answer: bytes, what: str) -> Attributes:
    """Return every attribute of every item; raises ParseError for a line of another shape.

    An attribute of several lines (binary, or with line ends in it) comes joined again.
    """
    found: Attributes = {}
    for line in answer.split(b"\n"):
        if not line:
            continue
        match = _LINE.fullmatch(line)
        if not match:
            refuse(what, f"{shown(line)} is not ITEM/ATTRIBUTE:VALUE")
        try:
            item, name = match[1].decode(), match[2].decode()
        except UnicodeDecodeError:
            refuse(what, f"{shown(line)} names no item in UTF-8")
        values = found.setdefault(item, {})
        before = values.get(name)
        values[name] = match[3] if before is None else before + b"\n" + match[3]
    return found


def text(values: dict[str, bytes], name: str, what: str) -> str | None:
    """Return the attribute `name` as stripped text, None where absent; refuses binary bytes."""
    value = values.get(name)
    if value is None:
        return None
    try:
        found = value.decode("utf-8").strip()
    except UnicodeDecodeError:
        refuse(what, f"{name} is {shown(value)}, not UTF-8")
    if "\0" in found or "\n" in found:
        refuse(what, f"{name} is {shown(value)}, not one line of text")
    return found
