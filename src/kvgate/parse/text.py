"""What all parsers need: strict decoding, strict JSON, whole numbers as they are printed."""

from __future__ import annotations

import decimal
import json
import re
from typing import Any, NoReturn

from kvgate.errors import ParseError

MISSING = frozenset({"", "-", "n/a", "na", "none", "null", "unknown", "not available"})
"""Texts by which tools say that they have no value (compared in lower case)."""

_LONGEST_MISSING = max(map(len, MISSING))
_WHOLE = re.compile(r"[0-9]{1,39}")  # 39 digits hold any 128-bit counter
_SHOWN = 60
LONGEST_LINE = 2**16


def refuse(tool: str, what: str, hint: str = "") -> NoReturn:
    """Raise ParseError: `tool` answered what its parser does not know."""
    raise ParseError(
        f"{tool}: {what}",
        hint=hint
        or "the evidence holds the answer as it came; compare the tool's version with "
        "inventory/baseline.yaml",
    )


def shown(value: object) -> str:
    """Return `value` quoted and bounded, for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def decoded(answer: bytes, tool: str) -> str:
    """Return `answer` as text; raises ParseError where it is empty, not UTF-8, or holds NULs."""
    if not answer.strip():
        refuse(tool, "the answer is empty")
    if b"\0" in answer:
        refuse(tool, f"the answer holds a NUL byte at {answer.index(0)}")
    try:
        return answer.decode("utf-8")
    except UnicodeDecodeError as err:
        raise ParseError(f"{tool}: the answer is not UTF-8: {err.reason} at {err.start}") from err


def lines(answer: bytes, tool: str, *, longest: int = LONGEST_LINE) -> list[str]:
    """Return the lines of `answer`, ends (also CRLF) taken off; raises ParseError as `decoded`.

    A line longer than any tool prints is refused, too: patterns may take long over it.
    """
    found = decoded(answer, tool).replace("\r\n", "\n").split("\n")
    if len(answer) > longest and (most := max(map(len, found))) > longest:
        refuse(tool, f"a line has {most:,} characters, more than any that it prints")
    return found


def whole(text: str, tool: str, field: str) -> int:
    """Return the number that `text` is, digits only; raises ParseError otherwise."""
    if not _WHOLE.fullmatch(text.strip()):
        refuse(tool, f"{field} is {shown(text)}, not a whole number")
    return int(text)


def available(text: str | None) -> str | None:
    """Return `text` stripped, or None where it says that there is no value."""
    if text is None:
        return None
    told = text.strip()
    return None if len(told) <= _LONGEST_MISSING and told.lower() in MISSING else told


def json_value(answer: bytes, tool: str) -> Any:
    """Return what the JSON `answer` holds, numbers with a point as Decimal.

    Raises ParseError for anything else: noise around it, doubled keys, NaN, a cut document.
    """
    return json_in(decoded(answer, tool), tool)


def json_in(text: str, tool: str) -> Any:
    """Return what the JSON `text` holds, as `json_value` does."""
    try:
        return _JSON.decode(text)
    except (ValueError, ArithmeticError, RecursionError) as err:
        raise ParseError(f"{tool}: not the JSON it should print: {err}") from err


def json_object(answer: bytes, tool: str) -> dict[str, Any]:
    """Return the JSON object that `answer` is; raises ParseError as `json_value`, or for a list."""
    value = json_value(answer, tool)
    if not isinstance(value, dict):
        refuse(tool, f"prints {shown(value)}, not a JSON object")
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object (`object_pairs_hook`); raises ValueError for a key that stands twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def no_constant(constant: str) -> NoReturn:
    """Refuse NaN and Infinity, which are no JSON (`parse_constant`), with ValueError."""
    raise ValueError(f"{constant} is not a number")


_JSON = json.JSONDecoder(
    parse_float=decimal.Decimal, object_pairs_hook=unique_keys, parse_constant=no_constant
)
