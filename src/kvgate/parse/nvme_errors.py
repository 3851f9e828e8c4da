"""`nvme error-log`: the error information log (NVMe Base Specification, log page 01h)."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import json_object, lines, refuse, shown
from kvgate.parse.typed import count, hexed, rows

TOOL = "nvme error-log"
NO_LBA = 2**64 - 1
"""The LBA of an entry that concerns none."""

_HEADING = re.compile(r"Error Log Entries for device:\S+ entries:([0-9]{1,5})")
_ENTRY = re.compile(r"Entry\[ *([0-9]{1,4})\]")
_LINE = re.compile(r"([a-z_]{2,20})\s*: ?(.*)")
_VALUE = re.compile(r"(0x[0-9a-fA-F]{1,16}|[0-9]{1,20})(?:\s*\((.*)\))?")
_JSON_NAME = {"parm_err_loc": "parm_error_location"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEntry:
    """An entry; ``error_count`` 0 marks one that was never used."""

    index: int
    error_count: int
    sqid: int | None
    cmdid: int | None
    status_field: int | None
    status_text: str | None
    lba: int | None
    nsid: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLog:
    """The log. ``declared_entries``: how many the heading announces (None: no heading)."""

    declared_entries: int | None
    entries: tuple[ErrorEntry, ...]

    @property
    def errors(self) -> tuple[ErrorEntry, ...]:
        """Return the entries that hold an error."""
        return tuple(each for each in self.entries if each.error_count)


def error_log(answer: bytes) -> ErrorLog:
    """Parse the JSON or the text of ``nvme error-log`` (1.x, 2.x).

    Raises ParseError where an entry lacks its count or its status: it is cut.
    """
    if answer.lstrip().startswith(b"{"):
        found = rows(json_object(answer, TOOL).get("errors"), TOOL, "errors")
        return ErrorLog(
            declared_entries=None,
            entries=tuple(_entry(index, row) for index, row in enumerate(found)),
        )
    return _from_text(lines(answer, TOOL))


def _entry(index: int, told: dict[str, Any]) -> ErrorEntry:
    numbers = {
        name: count(told.get(name), TOOL, name)
        for name in ("error_count", "sqid", "cmdid", "status_field", "lba", "nsid")
    }
    error_count, status = numbers["error_count"], numbers["status_field"]
    if error_count is None or status is None:
        refuse(TOOL, f"entry {index} has no error_count or no status_field: is it cut?")
    return ErrorEntry(
        index=index,
        error_count=error_count,
        sqid=numbers["sqid"],
        cmdid=numbers["cmdid"],
        status_field=status,
        status_text=told.get("status_text"),
        lba=None if numbers["lba"] == NO_LBA else numbers["lba"],
        nsid=numbers["nsid"],
    )


def _from_text(printed: list[str]) -> ErrorLog:
    declared: int | None = None
    found: dict[int, dict[str, Any]] = {}
    current: dict[str, Any] | None = None
    for line in (each.strip() for each in printed):
        if not line.strip("."):
            continue
        if match := _HEADING.fullmatch(line):
            declared = int(match[1])
        elif match := _ENTRY.fullmatch(line):
            if int(match[1]) in found:
                refuse(TOOL, f"entry {match[1]} stands twice")
            current = found[int(match[1])] = {}
        elif (match := _LINE.fullmatch(line)) and current is not None:
            _take(current, _JSON_NAME.get(match[1], match[1]), match[2].strip())
        else:
            refuse(TOOL, f"{shown(line)} belongs to no entry")
    if declared is None and not found:
        refuse(TOOL, "it has neither heading nor entries")
    if declared is not None and len(found) > declared:
        refuse(TOOL, f"it announces {declared} entries and prints {len(found)}")
    return ErrorLog(
        declared_entries=declared,
        entries=tuple(_entry(index, told) for index, told in found.items()),
    )


def _take(current: dict[str, Any], name: str, told: str) -> None:
    if name in current:
        refuse(TOOL, f"'{name}' stands twice in one entry")
    match = _VALUE.fullmatch(told)
    current[name] = hexed(match[1], TOOL, name) if match else told
    if name == "status_field" and match:
        current["status_text"] = match[2]


TOOLS = {"nvme_error_log": reads("nvme_error_log", error_log)}
