"""What parsers of GPU tools share: JSON behind warnings, numbers with their units."""

from __future__ import annotations

import decimal
import functools
import re
from collections.abc import Mapping
from typing import Any

from kvgate.errors import ParseError
from kvgate.parse.text import available, decoded, json_in, refuse, shown

_OPENING = re.compile(r"^[\[{](?=\s*(?:[\[\]{}\"]|$))", re.MULTILINE)  # not "[output truncated]"
_AMOUNT = re.compile(r"(-?[0-9]{1,24}(?:\.[0-9]{1,9})?)\s*(\S+)?")
_EXACT = decimal.Context(prec=60)  # more than 24 digits times 1024**5, nine places

_BYTES = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4, "PB": 1024**5}
UNITS: Mapping[str, Mapping[str, int]] = {
    "bytes": _BYTES,
    "w": {"W": 1},
    "c": {"C": 1, "°C": 1, "c": 1},
    "mhz": {"MHz": 1, "Mhz": 1},
    "mv": {"mV": 1},
    "gts": {"GT/s": 1},
    "pct": {"%": 1},
    "mbps": {"Mb/s": 1},
    "gbps": {"Gb/s": 1},
    "count": {},
}
"""Unit of a field → spellings that tools print → factor. AMD's "MB" are powers of 1024."""

ALL_ONES = frozenset({2**32 - 1, 2**64 - 1})
"""What the library answers where the hardware has no such value, printed by some versions."""

Number = int | decimal.Decimal


def holds_json(answer: bytes) -> bool:
    """Tell whether a JSON document begins somewhere in `answer`, at the start of a line."""
    text = answer.decode("utf-8", "replace").removeprefix("\ufeff")
    return _OPENING.search(text) is not None


def json_document(answer: bytes, tool: str) -> tuple[Any, tuple[str, ...]]:
    """Return the one JSON document of `answer`, and the lines (warnings) printed before it.

    The tools print their documents from the first column on. Raises ParseError where there is
    none, where it is cut or damaged, and where something follows it.
    """
    text = decoded(answer, tool).removeprefix("\ufeff")
    first: ParseError | None = None
    for opening in _OPENING.finditer(text):
        start = opening.start()
        try:
            value = json_in(text[start:] if start else text, tool)
        except ParseError as err:
            first = first or err
            continue
        return value, tuple(line for line in text[:start].splitlines() if line.strip())
    raise first or ParseError(
        f"{tool}: prints no JSON, but {shown(text.strip())}", hint="ask the tool again, by hand"
    )


def amount(node: Any, unit: str, what: str, bare: str = "") -> Number | None:
    """Return the number that `node` holds in `unit` (a key of UNITS), None where not available.

    `node` is a number, a text such as ``182 W`` or an object with ``value`` and ``unit``; `bare`
    is the unit of a number that has none. Raises ParseError for any other text or unit.
    """
    if node is None:
        return None
    printed = bare
    if isinstance(node, dict):
        printed, node = str(node.get("unit") or bare), node.get("value")
    if isinstance(node, bool) or not isinstance(node, int | decimal.Decimal | str | None):
        refuse(what, f"{shown(node)} is not a number")
    told = available(None if node is None else str(node))
    if told is None or told.upper().startswith("N/A"):  # also "N/A Mb/s"
        return None
    read = _read if len(told) + len(printed) < _SHORT else _read.__wrapped__
    return read(told, printed, unit, what)


_SHORT = 64  # characters; links and clocks tell the same few amounts over and over


@functools.lru_cache(maxsize=2048)
def _read(told: str, printed: str, unit: str, what: str) -> Number | None:
    match = _AMOUNT.fullmatch(told)
    if not match:
        refuse(what, f"{shown(told)} is not a number")
    factor = _factor(match[2] or printed, unit, what)
    number = decimal.Decimal(match[1])
    if number in ALL_ONES:
        return None
    return plain(_EXACT.multiply(number, decimal.Decimal(factor)), whole=unit == "bytes")


def _factor(printed: str, unit: str, what: str) -> int:
    if not printed and unit == "count":
        return 1
    factor = UNITS[unit].get(printed.replace("iB", "B"))
    if factor is None:
        refuse(what, f"its unit is {shown(printed)}, not {' or '.join(UNITS[unit]) or 'none'}")
    return factor


def plain(number: decimal.Decimal, *, whole: bool = False) -> Number:
    """Return `number` as int where it is whole (or shall be cut to one), else as it is."""
    cut = int(number)
    return cut if whole or cut == number else number
