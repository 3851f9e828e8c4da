"""What a host's system says of itself: os-release, uname, meminfo, NUMA, time, machine id."""

from __future__ import annotations

import dataclasses
import decimal
import re
import shlex
from collections.abc import Mapping

from kvgate.errors import ParseError
from kvgate.parse.ending import reads
from kvgate.parse.text import available, decoded, lines, refuse, shown, whole

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_MACHINE = re.compile(
    r"x86_64|amd64|i[3-6]86|aarch64|arm64|armv\w+|ppc64(?:le)?|s390x|riscv64|loongarch64|unknown"
)
_RELEASE = re.compile(r"[0-9]+\.[0-9]+\S*")
_MEM_TOTAL = re.compile(r"MemTotal:\s*([0-9]+) kB\s*")
_EPOCH = re.compile(r"[0-9]{9,11}\.[0-9]{9}")
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_PLACEHOLDERS = frozenset(
    {
        "to be filled by o.e.m.",
        "default string",
        "system serial number",
        "not specified",
        "not applicable",
        "0123456789",
        "123456789",
        "not settable",
        "empty",
    }
)


def os_release(answer: bytes) -> dict[str, str]:
    """Parse /etc/os-release (os-release(5): shell-like assignments); ID is always there."""
    found: dict[str, str] = {}
    for line in lines(answer, "os-release"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _ASSIGNMENT.fullmatch(line.strip())
        if not match:
            refuse("os-release", f"{shown(line)} is no assignment")
        try:
            words = shlex.split(match[2])
        except ValueError as err:
            raise ParseError(f"os-release: {match[1]}: {err}") from err
        if len(words) > 1:
            refuse("os-release", f"{match[1]} is {shown(match[2])}: blanks without quotes")
        found[match[1]] = words[0] if words else ""
    if not found.get("ID"):
        refuse("os-release", "it has no ID")
    return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OsRelease:
    """The distribution; ``assignments`` are all that the file has, None where it lacks one."""

    id: str
    version_id: str | None
    name: str | None
    pretty_name: str | None
    assignments: Mapping[str, str]


def distribution(answer: bytes) -> OsRelease:
    """Parse /etc/os-release as `os_release` does, the usual assignments by name."""
    found = os_release(answer)
    return OsRelease(
        id=found["ID"],
        version_id=found.get("VERSION_ID"),
        name=found.get("NAME"),
        pretty_name=found.get("PRETTY_NAME"),
        assignments=found,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Uname:
    """The running kernel."""

    release: str
    machine: str


def uname(answer: bytes) -> Uname:
    """Parse ``uname -a`` of Linux.

    The machine is the first of the architecture words before ``GNU/Linux``: Debian prints one,
    others three (machine, processor, platform).
    """
    printed = [line for line in lines(answer, "uname") if line.strip()]
    words = printed[0].split() if len(printed) == 1 else []
    if len(words) < 5 or words[0] != "Linux" or words[-1] != "GNU/Linux":
        refuse("uname", f"{shown(answer)} is not the line of a Linux kernel")
    machines: list[str] = []
    for word in reversed(words[3:-1]):
        if not _MACHINE.fullmatch(word) or len(machines) == 3:
            break
        machines.append(word)
    if not machines or not _RELEASE.fullmatch(words[2]):
        refuse("uname", f"{shown(answer)} names no kernel release and machine")
    return Uname(release=words[2], machine=machines[-1])


def mem_total_kib(answer: bytes) -> int:
    """Return MemTotal of /proc/meminfo in KiB (which it calls kB, proc(5))."""
    found = [match for line in lines(answer, "meminfo") if (match := _MEM_TOTAL.fullmatch(line))]
    if len(found) != 1:
        refuse("meminfo", f"it has {len(found)} lines 'MemTotal: NUMBER kB', not one")
    total = whole(found[0][1], "meminfo", "MemTotal")
    if not total:
        refuse("meminfo", "MemTotal is 0")
    return total


def node_count(answer: bytes) -> int:
    """Return how many NUMA nodes /sys/devices/system/node/online lists (``0-1,4``)."""
    listed = decoded(answer, "NUMA nodes online").strip()
    nodes: set[int] = set()
    for part in listed.split(","):
        match = _RANGE.fullmatch(part)
        if not match:
            refuse("NUMA nodes online", f"{shown(listed)} is no list of nodes")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > 4096:
            refuse("NUMA nodes online", f"{shown(part)} is no range of nodes")
        nodes.update(range(first, last + 1))
    return len(nodes)


def epoch_s(answer: bytes) -> decimal.Decimal:
    """Return the time that ``date +%s.%N`` printed, in seconds since 1970 UTC."""
    text = decoded(answer, "date").strip()
    if not _EPOCH.fullmatch(text):
        refuse(
            "date",
            f"{shown(text)} is not seconds with nanoseconds",
            hint="`date +%s.%N` needs GNU coreutils on the host",
        )
    return decimal.Decimal(text)


def serial(text: str) -> str | None:
    """Return a serial number, or None where firmware holds a placeholder or only zeros."""
    found = available(text)
    if found is None or found.lower() in _PLACEHOLDERS or not found.strip("0 .xX-"):
        return None
    return found


def machine_id(answer: bytes) -> str | None:
    """Return the id in /etc/machine-id (machine-id(5)), None where it is not initialised yet."""
    if not answer.strip():
        return None
    text = decoded(answer, "machine-id").strip()
    if text == "uninitialized":
        return None
    if not _MACHINE_ID.fullmatch(text):
        refuse("machine-id", f"{shown(text)} is not 32 hexadecimal digits")
    return text


def file_system(answer: bytes) -> tuple[str, str]:
    """Return source and type that ``df --output=source,fstype FOLDER`` tells."""
    printed = [line for line in lines(answer, "df") if line.strip()]
    if len(printed) != 2 or not printed[0].startswith("Filesystem"):
        refuse("df", f"{shown(answer)} is no heading and one file system")
    source, _, kind = printed[1].strip().rpartition(" ")
    if not source or not kind:
        refuse("df", f"{shown(printed[1])} is no source and type")
    return source.strip(), kind


TOOLS = {
    "os_release": reads("os_release", distribution),
    "uname": reads("uname", uname),
    "meminfo": reads("meminfo", mem_total_kib),
    "numa_online": reads("NUMA nodes online", node_count),
    "date": reads("date", epoch_s),
    "machine_id": reads("machine-id", machine_id),
    "df": reads("df", file_system),
}
