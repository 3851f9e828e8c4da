"""`numactl -H`: the NUMA nodes, their processors, memory and distances."""

from __future__ import annotations

import dataclasses
import re
from typing import TypeVar

from kvgate.parse.ending import reads
from kvgate.parse.text import lines, refuse, shown

TOOL = "numactl"
_T = TypeVar("_T")
_AVAILABLE = re.compile(r"available: ([0-9]{1,4}) nodes? \(([0-9,-]{1,200})\)")
_CPUS = re.compile(r"node ([0-9]{1,4}) cpus:((?: [0-9]{1,5})*)")
_MEMORY = re.compile(r"node ([0-9]{1,4}) (size|free): (?:([0-9]{1,12}) MB|<not available>)")
_ROW = re.compile(r"([0-9]{1,4}):((?:\s+[0-9]{1,3})+)")
_HEADING = re.compile(r"node((?:\s+[0-9]{1,4})+)")
_NO_DISTANCES = "No distance information available."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A NUMA node. Sizes are powers of 1024, though numactl calls them MB; None: not available."""

    number: int
    cpus: tuple[int, ...]
    size_mib: int | None
    free_mib: int | None
    distances: tuple[int, ...] | None  # to each node in the order in which they are printed


@dataclasses.dataclass(slots=True)
class _Told:
    declared: int | None = None
    cpus: dict[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    memory: dict[tuple[int, str], int | None] = dataclasses.field(default_factory=dict)
    heading: tuple[int, ...] = ()
    distances: dict[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)


def nodes(answer: bytes) -> tuple[Node, ...]:
    """Parse ``numactl -H``; as many nodes as its first line declares, else refused."""
    told = _Told()
    for line in lines(answer, TOOL):
        if line.strip() and not _taken(line.strip(), told):
            refuse(TOOL, f"{shown(line)} is no line of `numactl -H`")
    if told.declared is None or told.declared != len(told.cpus):
        refuse(TOOL, f"it declares {told.declared} nodes and prints {len(told.cpus)}")
    if told.distances and not tuple(told.cpus) == told.heading == tuple(told.distances):
        refuse(TOOL, "its distances are not those of the nodes that it prints")
    return tuple(
        Node(
            number=number,
            cpus=cpus,
            size_mib=told.memory.get((number, "size")),
            free_mib=told.memory.get((number, "free")),
            distances=told.distances.get(number),
        )
        for number, cpus in told.cpus.items()
    )


def _taken(line: str, told: _Told) -> bool:
    """Take what `line` tells; return False where it is none of numactl's."""
    if match := _AVAILABLE.fullmatch(line):
        told.declared = _same(told.declared, int(match[1]), line)
    elif match := _CPUS.fullmatch(line):
        number, cpus = int(match[1]), _numbers(match[2])
        told.cpus[number] = _same(told.cpus.get(number), cpus, line)
    elif match := _MEMORY.fullmatch(line):
        key = (int(match[1]), match[2])
        size = int(match[3]) if match[3] else None
        told.memory[key] = _same(told.memory.get(key), size, line)
    elif match := _ROW.fullmatch(line):
        row = _numbers(match[2])
        if len(row) != len(told.heading):
            refuse(TOOL, f"{shown(line)} has not one distance to each node")
        told.distances[int(match[1])] = _same(told.distances.get(int(match[1])), row, line)
    elif match := _HEADING.fullmatch(line):
        told.heading = _same(told.heading or None, _numbers(match[1]), line)
    else:
        return line in ("node distances:", _NO_DISTANCES)
    return True


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split())


def _same(before: _T | None, now: _T, line: str) -> _T:
    if before is not None and before != now:
        refuse(TOOL, f"{shown(line)}: another line tells it differently")
    return now


TOOLS = {"numactl": reads("numactl", nodes)}
