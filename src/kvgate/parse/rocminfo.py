"""rocminfo: the agents of the HSA runtime, CPUs and GPUs, with their memory pools."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping

from kvgate.parse.ending import reads
from kvgate.parse.text import available, lines, refuse, shown, whole

TOOL = "rocminfo"
_KIB = 1024
_AGENT = re.compile(r"Agent ([0-9]{1,4})")
_PAIR = re.compile(r"( *)([A-Za-z][^:]{0,60}):{1,2} *(.*)")
_COUNT = re.compile(r"([0-9]{1,20})(?:\(0x[0-9a-fA-F]+\))?( KB)?")
_SECTION = re.compile(r"  (?:Pool|ISA|Cache) Info:\s*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A memory pool of an agent; ``segment`` with its flags as printed."""

    segment: str
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent; ``chip_id`` is the PCI device id of a GPU, ``address`` bus:device.function."""

    number: int
    type: str
    name: str
    marketing_name: str | None
    vendor: str | None
    uuid: str | None
    node: int | None
    chip_id: str | None
    address: str | None
    compute_units: int | None
    max_clock_mhz: int | None
    pools: tuple[Pool, ...]
    isas: tuple[str, ...]

    @property
    def vram_bytes(self) -> int | None:
        """Return the size of its coarse-grained global pool: a GPU's HBM."""
        return next(
            (
                pool.size_bytes
                for pool in self.pools
                if pool.segment.startswith("GLOBAL") and "COARSE" in pool.segment
            ),
            None,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RocmInfo:
    """What the runtime sees. Agent numbers count CPUs as well."""

    runtime_version: str | None
    agents: tuple[Agent, ...]


def rocminfo(answer: bytes) -> RocmInfo:
    """Parse ``rocminfo``; refuses an answer without its last line, ``*** Done ***``."""
    printed = [line.rstrip() for line in lines(answer, TOOL)]
    if any("ROCk module is NOT loaded" in line for line in printed):
        refuse(TOOL, "says that the amdgpu driver is not loaded", hint="modprobe amdgpu; dmesg")
    if "*** Done ***" not in printed:
        refuse(TOOL, "its answer is cut: *** Done *** is missing")
    starts = [i for i, line in enumerate(printed) if _AGENT.fullmatch(line)]
    if not starts:
        refuse(TOOL, "it lists no agent")
    ends = [*starts[1:], len(printed)]
    agents = tuple(_agent(printed[start:end]) for start, end in zip(starts, ends, strict=True))
    if [agent.number for agent in agents] != list(range(1, len(agents) + 1)):
        refuse(TOOL, "its agents are not numbered 1, 2, 3…: some are missing")
    head = dict(_pairs(printed[: starts[0]], 0))
    return RocmInfo(runtime_version=available(head.get("Runtime Version")), agents=agents)


def _agent(printed: list[str]) -> Agent:
    match = _AGENT.fullmatch(printed[0])
    number = whole(match[1] if match else "", TOOL, "agent")
    told: dict[str, str] = {}
    for key, value in _pairs(printed, 2):
        if told.setdefault(key, value) != value:
            refuse(TOOL, f"tells two different things about {key} of agent {number}")
    if not told.get("Name") or told.get("Device Type") not in ("CPU", "GPU", "DSP", "AIE"):
        refuse(TOOL, f"agent {number} has no name or no known type: {shown(told)}")
    chip, place = _count(told, "Chip ID"), _count(told, "BDFID")
    return Agent(
        number=number,
        type=told["Device Type"],
        name=told["Name"],
        marketing_name=available(told.get("Marketing Name")),
        vendor=available(told.get("Vendor Name")),
        uuid=available(told.get("Uuid")),
        node=_count(told, "Node"),
        chip_id=f"0x{chip:04x}" if chip else None,
        address=f"{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}" if place else None,
        compute_units=_count(told, "Compute Unit"),
        max_clock_mhz=_count(told, "Max Clock Freq. (MHz)"),
        pools=tuple(_pools(printed, number)),
        isas=tuple(
            value
            for key, value in _pairs(printed, 6)
            if key == "Name" and value.startswith("amdgcn")
        ),
    )


def _pools(printed: list[str], number: int) -> Iterator[Pool]:
    """Yield the pools: ``Segment`` begins one, its ``Size`` follows."""
    inside, segment = False, ""
    for line in printed:
        if _SECTION.fullmatch(line):
            inside = "Pool" in line
        match = _PAIR.fullmatch(line) if inside else None
        if not match or len(match[1]) != 6:
            continue
        if match[2] == "Segment":
            segment = match[3]
        elif match[2] == "Size":
            size = _COUNT.fullmatch(match[3])
            if not segment or not size or not size[2]:
                refuse(TOOL, f"a pool of agent {number} has the size {shown(match[3])}")
            yield Pool(segment=segment, size_bytes=int(size[1]) * _KIB)
            segment = ""


def _pairs(printed: list[str], indent: int) -> Iterator[tuple[str, str]]:
    """Yield key and value of the lines that stand at `indent`."""
    for line in printed:
        match = _PAIR.fullmatch(line)
        if match and len(match[1]) == indent and match[3]:
            yield match[2].strip(), match[3].strip()


def _count(told: Mapping[str, str], key: str) -> int | None:
    value = available(told.get(key))
    if value is None:
        return None
    match = _COUNT.fullmatch(value)
    return int(match[1]) if match else refuse(TOOL, f"{key} is {shown(value)}, not a number")


TOOLS: Mapping[str, Callable[[bytes, int | None], object]] = {"rocminfo": reads(TOOL, rocminfo)}
