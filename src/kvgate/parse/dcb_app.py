"""`dcb app show`: which priority each DSCP and port number is given (iproute2)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import decoded, json_object, refuse, shown, whole

TOOL = "dcb app"
_TABLES = ("dscp_prio", "dgram_port_prio", "stream_port_prio", "port_prio", "ethtype_prio")
_PAIR = re.compile(r"([0-9]{1,5}):([0-7])")
_MOST = {"dscp_prio": 63}
_LARGEST = 0xFFFF  # of ports and Ethernet types


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DcbApp:
    """The application table; {} where it has no such entries. ``dgram_port_prio``: UDP ports."""

    dscp_prio: Mapping[int, int]
    dgram_port_prio: Mapping[int, int]
    default_prio: tuple[int, ...]


def dcb_app(answer: bytes) -> DcbApp:
    """Parse ``dcb app show dev DEV``: JSON (``-j``), or text with numbers (``-N``).

    An empty table is printed as an empty object, or in text as nothing, which is no answer.
    """
    if decoded(answer, TOOL).lstrip().startswith("{"):
        told = json_object(answer, TOOL)
    else:
        told = _from_text(decoded(answer, TOOL))
    defaults = told.get("default_prio", [])
    if not isinstance(defaults, list):
        refuse(TOOL, f"default_prio is {shown(defaults)}, not a list")
    return DcbApp(
        dscp_prio=_table(told, "dscp_prio"),
        dgram_port_prio=_table(told, "dgram_port_prio"),
        default_prio=tuple(_number(each, 7, "default_prio") for each in defaults),
    )


def _table(told: dict[str, Any], name: str) -> dict[int, int]:
    found: dict[int, int] = {}
    rows = told.get(name, [])
    if not isinstance(rows, list):
        refuse(TOOL, f"{name} is {shown(rows)}, not a list")
    for row in rows:
        # iproute2 writes the blank between two entries of its text as a third element
        if not isinstance(row, list) or len(row) < 2 or row[2:] not in ([], [" "]):
            refuse(TOOL, f"{shown(row)} in {name} is no number with its priority")
        key = _number(row[0], _MOST.get(name, _LARGEST), name)
        priority = _number(row[1], 7, name)
        if found.setdefault(key, priority) != priority:
            refuse(TOOL, f"{key} in {name} has two priorities")
    return found


def _number(value: Any, most: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        refuse(TOOL, f"{shown(value)} in {name} is not a number up to {most}")
    return value


def _from_text(text: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for line in filter(None, (each.strip() for each in text.splitlines())):
        name, *words = line.split()
        key = name.replace("-", "_")
        if key in told or key not in (*_TABLES, "pcp_prio", "default_prio"):
            refuse(TOOL, f"{shown(line)} is no line of `dcb app show`, or its second one")
        if key == "default_prio":
            told[key] = [whole(word, TOOL, key) for word in words]
        elif key in ("dscp_prio", "dgram_port_prio"):
            told[key] = [_pair(word) for word in words]
    return told


def _pair(word: str) -> list[int]:
    match = _PAIR.fullmatch(word)
    if not match:
        refuse(
            TOOL,
            f"{shown(word)} is no number with its priority",
            hint="`dcb -N app show` prints numbers instead of names, `dcb -j` JSON",
        )
    return [int(match[1]), int(match[2])]


TOOLS = {"dcb_app": reads(TOOL, dcb_app)}
