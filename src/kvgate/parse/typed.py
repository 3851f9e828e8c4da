"""Values of JSON documents and texts, typed: a counter is a number, a text a text, N/A is None."""

from __future__ import annotations

import decimal
import re
from typing import Any, NoReturn

from kvgate.parse.text import available, refuse, shown, whole

_MOST_DIGITS = 39  # 128-bit counters
_MOST = 2**128
_GROUPED = re.compile(r"[0-9]{1,3}(?:([.,'’\u00a0\u202f ])[0-9]{3}(?:\1[0-9]{3})*)?|[0-9]{1,39}")


def count(value: Any, tool: str, name: str) -> int | None:
    """Return the counter that `value` is; None where the tool says that it has none.

    Tools print the same counter as integer, float without fraction, text, or object with a
    ``value``. Raises ParseError for a negative number, a fraction, a flag, anything else.
    """
    if type(value) is int and 0 <= value < _MOST:  # as nearly all are, thousands a host
        return value
    if value is None or (isinstance(value, str) and available(value) is None):
        return None
    if isinstance(value, bool):
        refuse(tool, f"{name} is {shown(value)}, not a number")
    if isinstance(value, int) and value.bit_length() <= 128:
        return whole(str(value), tool, name)
    if isinstance(value, decimal.Decimal):
        small = value.is_finite() and value.adjusted() < _MOST_DIGITS
        whole_number = small and value >= 0 and value == value.to_integral_value()
        return int(value) if whole_number else _odd(value, tool, name)
    if isinstance(value, str):
        return hexed(value, tool, name)
    if isinstance(value, dict):
        held = {key.lower(): part for key, part in value.items()}
        if "value" in held and not isinstance(held["value"], dict):
            return count(held["value"], tool, f"{name}.value")
    return _odd(value, tool, name)


def _odd(value: object, tool: str, name: str) -> NoReturn:
    refuse(tool, f"{name} is {shown(value)}, not a counter")


def hexed(text: str, tool: str, name: str) -> int:
    """Return the number that `text` is: ``0x`` and up to 32 hexadecimal digits, or a whole one."""
    told = text.strip().lower()
    digits = told.removeprefix("0x")
    if digits == told:
        return whole(told, tool, name)
    if not 0 < len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
        refuse(tool, f"{name} is {shown(text)}, not a number")
    return int(digits, 16)


def words(value: Any, tool: str, name: str) -> str | None:
    """Return the stripped text that `value` is, None where there is none; refuses all else."""
    if value is not None and not isinstance(value, str):
        refuse(tool, f"{name} is {shown(value)}, not a text")
    return available(value)


def named(row: dict[str, Any], tool: str, key: str) -> str:
    """Return the text that `row` has as `key`; refuses a row without one."""
    return words(row.get(key), tool, key) or refuse(tool, f"{shown(row)} has no {key}")


def flag(value: Any, tool: str, name: str) -> bool | None:
    """Return the truth value that `value` is, None where there is none; refuses all else."""
    if value is not None and not isinstance(value, bool):
        refuse(tool, f"{name} is {shown(value)}, neither true nor false")
    return value


def member(value: Any, tool: str, name: str) -> dict[str, Any]:
    """Return the object that `value` is, an empty one where there is none; refuses all else."""
    if value is not None and not isinstance(value, dict):
        refuse(tool, f"{name} is {shown(value)}, not an object")
    return value or {}


def rows(value: Any, tool: str, name: str) -> list[dict[str, Any]]:
    """Return the list of objects that `value` is; refuses all else, also where there is none."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        refuse(tool, f"{name} is {shown(value)}, not a list of objects")
    return value


def grouped(text: str, tool: str, field: str) -> int:
    """Return the whole number in `text`, thousands grouped as any locale does: 1.024 is 1024.

    Only for fields that are never fractions. Raises ParseError where the groups are not of three.
    """
    if not _GROUPED.fullmatch(text.strip()):
        refuse(tool, f"{field} is {shown(text)}, not a whole number")
    return whole("".join(c for c in text if c in "0123456789"), tool, field)
