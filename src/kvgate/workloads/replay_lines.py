"""What a host's replay may say, line by line: every key's type and range, before any of it is used.

A host's output is untrusted: what is no JSON, lacks a key, or holds a number that is none, is a
ParseError that names the host, the line's phase and the key.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvgate.errors import ParseError
from kvgate.untrusted import plain

Line = Mapping[str, Any]
Right = Callable[[Any], bool]

PHASES = frozenset(
    {"store", "restore", "mixed", "fill", "filled", "until_full", "after_full"}
    | {"restore_after_full", "planted"}
)
"""The levels that the program knows."""

MOST = 2**63 - 1
_SHOWN = 80


class Event(NamedTuple):
    """What is acted on while a replay runs: ``ready`` for start `number`, or a `phase` that ended.

    ``number`` is 0 for a phase's end, ``seconds`` 0.0 where it is ready.
    """

    phase: str
    number: int
    seconds: float


def _count(least: int) -> Right:
    return lambda found: type(found) is int and least <= found <= MOST


def _seconds(found: Any) -> bool:
    return type(found) in (int, float) and math.isfinite(found) and 0 <= found < 1e12


def _text(found: Any) -> bool:
    return isinstance(found, str)


def _flag(found: Any) -> bool:
    return isinstance(found, bool)


def _list_of(*each: Right) -> Right:
    """Return the check of a list of rows, each of whose fields is right."""

    def right(found: Any) -> bool:
        return isinstance(found, list) and all(
            isinstance(row, list)
            and len(row) == len(each)
            and all(check(field) for check, field in zip(each, row, strict=True))
            for row in found
        )

    return right


def _texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


_WHOLE, _COUNTED = _count(0), _count(-1)  # -1: nobody counts it there

_LEVEL: dict[str, Right] = {
    "phase": lambda found: isinstance(found, str) and found in PHASES,
    **dict.fromkeys(("pct", "concurrency", "readers", "evicted", "allocated", "full"), _WHOLE),
    **dict.fromkeys(("bytes_read", "bytes_written", "checked", "damaged"), _WHOLE),
    **dict.fromkeys(("device_read", "device_written", "process_read"), _COUNTED),
    **dict.fromkeys(("started", "seconds", "cpu_s", "check_cpu_s", "make_cpu_s"), _seconds),
    "late_s": _seconds,
    **dict.fromkeys(("restored", "stored"), _list_of(_WHOLE, _seconds)),
    **dict.fromkeys(("reads", "writes"), _list_of(_WHOLE, _count(1))),
    "damages": _list_of(_WHOLE, _WHOLE, _text, _text),
    "cold": _texts,
    "lost": _text,
}
_BEGIN: dict[str, Right] = {
    **dict.fromkeys(("file_system", "source", "device", "content_by", "checked_by"), _text),
    "python": _text,
    "removed": _texts,
}
_PLANTS: dict[str, Right] = {
    "rows": _list_of(_text, _WHOLE, _WHOLE, _text),
    "others": _count(-MOST),
    "lost": _text,
}
_REFUSED: dict[str, Right] = {"refused": _text, "hint": _text}
_FULL: dict[str, Right] = {"reached": _flag, "lost": _text}
_REACHED: dict[str, Right] = {"recovered": _flag, "evicted": _WHOLE, "free": _WHOLE}


def line_of(host: str, text: str) -> Line:
    """Return one line, whole and of the right types; raises ParseError."""
    found = _loaded(text)
    if not isinstance(found, dict):
        what = "no JSON" if found is None else "no JSON object"
        raise ParseError(f"{host}: the replay said '{plain(text[:_SHOWN])}', {what}")
    for key, right in _keys(found).items():
        if key not in found:
            raise ParseError(f"{host}: {_named(found)} of the replay lacks '{key}'")
        if not right(found[key]):
            said = plain(repr(found[key])[:_SHOWN])
            raise ParseError(f"{host}: {_named(found)} of the replay has {key}: {said}")
    return found


def event_of(text: bytes) -> Event | None:
    """Return what a line asks to be done at once; None for all others, and for what is wrong.

    What is wrong is told once the whole is parsed.
    """
    try:
        line = line_of("", text.decode("utf-8", "replace"))
    except ParseError:
        return None
    if "ready" in line:
        right = type(line["ready"]) is int and line["ready"] > 0
        return Event("", line["ready"], 0.0) if right else None
    return Event(line["phase"], 0, float(line["seconds"])) if "seconds" in line else None


def _keys(line: Line) -> dict[str, Right]:
    """Return what a line of its kind has to hold."""
    if "refused" in line:
        return _REFUSED
    if "begin" in line:
        return _BEGIN
    if line.get("phase") == "plants":
        return _PLANTS
    if line.get("phase") == "full":
        return {**_FULL, **(_REACHED if line.get("reached") is True else {})}
    return _LEVEL if "seconds" in line else {}


def _named(line: Line) -> str:
    phase = line.get("phase")
    return f"phase '{plain(phase[:_SHOWN])}'" if isinstance(phase, str) else "a line"


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or lists in lists without an end
        return None
