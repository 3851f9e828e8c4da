"""`nvme discover`, and what `nvme connect` and `disconnect` say where they fail."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
from collections.abc import Iterator
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import decoded, json_object, lines, refuse, shown, whole
from kvgate.parse.typed import count, hexed, rows, words

TOOL = "nvme discover"
CONNECT = "nvme connect"
_HEAD = re.compile(
    r"Discovery Log Number of Records ([0-9]{1,6}), Generation counter ([0-9]{1,20})"
)
_ENTRY = re.compile(r"=+Discovery Log Entry ([0-9]{1,6})=+")
_FIELD = re.compile(r"([a-z_]{1,16}):\s*(.*)")
_NAMED = {os.strerror(number): name for number, name in errno.errorcode.items()}
_MESSAGE = re.compile(r"(?i)(?:failed|could not|already|unable|no |error|invalid|cannot|.*: ).*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An entry of the discovery log: where a subsystem is to be reached. None: not printed."""

    transport: str
    address_family: str | None
    kind: str | None  # "nvme subsystem", "current discovery subsystem"
    portid: int | None
    trsvcid: str | None
    nqn: str
    traddr: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """The discovery log; ``declared`` is how many records it says it has, None in JSON."""

    declared: int | None
    records: tuple[Record, ...]

    def lists(self, nqn: str, transport: str, traddr: str, trsvcid: str) -> bool:
        """Tell whether the subsystem is listed at this address."""
        wanted = (nqn, transport, traddr, trsvcid)
        return any(
            (each.nqn, each.transport, each.traddr, each.trsvcid) == wanted for each in self.records
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What nvme-cli said where it failed; ``errno_name`` ("ECONNRESET") where it named one."""

    text: str
    error_text: str
    errno_name: str | None


def discovered(answer: bytes) -> Discovered:
    """Parse ``nvme discover`` as JSON (2.x) or text (1.x, 2.x); raises ParseError for all else."""
    if decoded(answer, TOOL).lstrip().startswith("{"):
        listed = rows(json_object(answer, TOOL).get("records"), TOOL, "records")
        return Discovered(declared=None, records=tuple(_record(row) for row in listed))
    printed = [line.strip() for line in lines(answer, TOOL) if line.strip()]
    head = _HEAD.fullmatch(printed[0]) if printed else None
    if head is None:
        refuse(TOOL, f"{shown(printed[:1])} is no head of a discovery log")
    declared = whole(head[1], TOOL, "Number of Records")
    found = tuple(_record(fields) for fields in _entries(printed[1:]))
    if len(found) > declared:
        refuse(TOOL, f"it says {declared} records and prints {len(found)}")
    return Discovered(declared=declared, records=found)


def _entries(printed: list[str]) -> Iterator[dict[str, str]]:
    fields: dict[str, str] | None = None
    for line in printed:
        if _ENTRY.fullmatch(line):
            if fields is not None:
                yield fields
            fields = {}
            continue
        match = _FIELD.fullmatch(line)
        if match is None or fields is None or match[1] in fields:
            refuse(TOOL, f"{shown(line)} is no field of a record")
        fields[match[1]] = match[2]
    if fields is not None:
        yield fields


def _record(row: dict[str, Any]) -> Record:
    told = {key: words(row.get(key), TOOL, key) for key in ("trtype", "subnqn", "traddr")}
    if None in told.values():
        refuse(TOOL, f"{shown(row)} names no subsystem with an address")
    portid = row.get("portid")
    return Record(
        transport=told["trtype"] or "",
        address_family=words(row.get("adrfam"), TOOL, "adrfam"),
        kind=words(row.get("subtype"), TOOL, "subtype"),
        portid=hexed(portid, TOOL, "portid")
        if isinstance(portid, str)
        else count(portid, TOOL, "portid"),
        trsvcid=words(row.get("trsvcid"), TOOL, "trsvcid"),
        nqn=told["subnqn"] or "",
        traddr=told["traddr"] or "",
    )


def complaint(answer: bytes) -> Complaint:
    """Return what nvme-cli complained of; raises ParseError where its words are no complaint."""
    said = [line.strip() for line in lines(answer, CONNECT) if line.strip()]
    if not said or not all(_MESSAGE.fullmatch(line) for line in said):
        refuse(CONNECT, f"{shown(said[:1])} is no message of it")
    error = said[-1].rpartition(": ")[2]
    return Complaint(text=said[-1], error_text=error, errno_name=_NAMED.get(error))


def answered(answer: bytes) -> Discovered | Complaint:
    """Return the discovery log that `answer` is, else the complaint."""
    text = decoded(answer, CONNECT).lstrip()
    if text.startswith(("{", "Discovery Log")):
        return discovered(answer)
    return complaint(answer)


TOOLS = {
    "nvme_discover": reads(TOOL, discovered),
    "nvme_connect": reads(CONNECT, answered, fine=range(256)),
}
"""nvme connect fails with any status; what it says then is what is read."""
