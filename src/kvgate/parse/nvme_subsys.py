"""`nvme list-subsys` and `show-topology`: subsystems and paths, in every shape nvme-cli has had."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.nvmeof_sysfs import address_parts
from kvgate.parse.text import available, decoded, json_value, lines, refuse, shown, whole
from kvgate.parse.typed import count, named, rows, words

TOOL = "nvme list-subsys"
_SUBSYSTEM = re.compile(r"(nvme-subsys[0-9]{1,5}) - NQN=(.*)")
_FIELD = re.compile(r"\s*(hostnqn|iopolicy|model|firmware|type)=(.*)")
_NAMESPACE = re.compile(r"\s*\+- ns(?: id)? ([0-9]{1,10})")
_PATH = re.compile(
    r"\s*\+- ([A-Za-z][A-Za-z0-9]{0,31}) (rdma|tcp|pcie|fc|loop|apple-nvme)"
    r"(?: (?P<address>[0-9a-f]{4}:[0-9a-f:.]{5,8}|traddr=\S+(?: [a-z_]+=\S+)*))?"
    r"(?: (?P<state>[a-z]+(?:\([a-z ]+\))?))?(?: (?P<ana>[a-z][a-z-]+))?\s*"
)
_STATES = frozenset(
    {"live", "connecting", "resetting", "deleting", "new", "dead", "unknown", "reconnecting"}
)
_STRUCTURE = frozenset({"", "\\"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A controller, or a namespace's path by it; None: not printed. ``nsid``: of show-topology."""

    name: str
    transport: str
    address: str | None
    state: str | None
    ana_state: str | None
    nsid: int | None = None
    namespaces: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, str]:
        """Return the address by its parts: traddr, trsvcid, host_traddr, host_iface, src_addr."""
        if self.transport == "pcie":
            return {"traddr": self.address} if self.address else {}
        return address_parts(self.address)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subsystem:
    """A subsystem; one without paths is left over from a connection that is no more."""

    name: str
    nqn: str | None
    hostnqn: str | None
    iopolicy: str | None
    paths: tuple[Path, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VendorDevice:
    """A namespace as ``nvme netapp ontapdevices`` tells it."""

    path: str
    nsid: int | None
    uuid: str | None
    sector_bytes: int | None
    size_bytes: int | None
    used_bytes: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subsystems:
    """What was listed. ``shape``: ``list of hosts``, ``object``, ``text`` or ``vendor``."""

    shape: str
    subsystems: tuple[Subsystem, ...]
    devices: tuple[VendorDevice, ...] = ()


def subsystems(answer: bytes) -> Subsystems:
    """Parse the answer of nvme-cli 1.x to 3.x: JSON of four shapes, or text.

    Raises ParseError for anything else, an empty answer too: no subsystem is ``[]`` in JSON.
    """
    if decoded(answer, TOOL).lstrip()[:1] in ("{", "["):
        return _from_json(json_value(answer, TOOL))
    return Subsystems(shape="text", subsystems=tuple(_from_text(lines(answer, TOOL))))


def _from_json(value: Any) -> Subsystems:
    if isinstance(value, list):
        hosts = rows(value, TOOL, "the answer")
        found = tuple(
            each
            for host in hosts
            for each in _pairs(
                rows(host.get("Subsystems"), TOOL, "Subsystems"),
                words(host.get("HostNQN"), TOOL, "HostNQN"),
            )
        )
        return Subsystems(shape="list of hosts", subsystems=found)
    if not isinstance(value, dict):
        refuse(TOOL, f"prints {shown(value)}, not subsystems")
    if "ONTAPdevices" in value:
        devices = rows(value["ONTAPdevices"], TOOL, "ONTAPdevices")
        return Subsystems(shape="vendor", subsystems=(), devices=tuple(map(_device, devices)))
    listed = [value] if "NQN" in value else rows(value.get("Subsystems"), TOOL, "Subsystems")
    return Subsystems(shape="object", subsystems=tuple(_pairs(listed, None)))


def _pairs(listed: list[dict[str, Any]], hostnqn: str | None) -> Iterator[Subsystem]:
    """Yield subsystems; nvme-cli 1.x puts the paths into an element of its own behind each."""
    for at, row in enumerate(listed):
        if "NQN" not in row and "Name" not in row:
            if at == 0 or set(row) != {"Paths"}:
                refuse(TOOL, f"{shown(row)} names no subsystem")
            continue
        below = row.get("Paths", row.get("Ctrls"))
        after = listed[at + 1] if at + 1 < len(listed) else {}
        if below is None and set(after) == {"Paths"}:
            below = after["Paths"]
        yield Subsystem(
            name=named(row, TOOL, "Name"),
            nqn=words(row.get("NQN"), TOOL, "NQN"),
            hostnqn=hostnqn,
            iopolicy=words(row.get("IOPolicy"), TOOL, "IOPolicy"),
            paths=tuple(map(_path, rows(below, TOOL, "Paths") if below is not None else [])),
        )


def _path(row: dict[str, Any]) -> Path:
    name, transport = (words(row.get(key), TOOL, key) for key in ("Name", "Transport"))
    if name is None or transport is None:
        refuse(TOOL, f"{shown(row)} names no path")
    below = rows(row.get("Namespaces", []), TOOL, "Namespaces")
    return Path(
        name=name,
        transport=transport,
        address=words(row.get("Address"), TOOL, "Address"),
        state=available(words(row.get("State"), TOOL, "State")),
        ana_state=available(words(row.get("ANAState"), TOOL, "ANAState")),
        namespaces=tuple(words(each.get("Name"), TOOL, "Name") or "" for each in below),
    )


def _device(row: dict[str, Any]) -> VendorDevice:
    def number(key: str) -> int | None:
        return count(row.get(key), TOOL, key)

    return VendorDevice(
        path=named(row, TOOL, "Device"),
        nsid=number("NSID"),
        uuid=words(row.get("UUID"), TOOL, "UUID"),
        sector_bytes=number("LBA_Size"),
        size_bytes=number("Namespace_Size"),
        used_bytes=number("UsedBytes"),
    )


def _from_text(printed: list[str]) -> Iterator[Subsystem]:
    at = [number for number, line in enumerate(printed) if _SUBSYSTEM.fullmatch(line)]
    if not at or any(line.strip() not in _STRUCTURE for line in printed[: at[0]]):
        refuse(TOOL, f"{shown(printed[0])} is no subsystem")
    for first, end in zip(at, [*at[1:], len(printed)], strict=True):
        yield _block(printed[first], printed[first + 1 : end])


def _block(head: str, below: list[str]) -> Subsystem:
    heading = _SUBSYSTEM.fullmatch(head)
    if heading is None:
        refuse(TOOL, f"{shown(head)} is no subsystem")
    nqn, _, rest = heading[2].partition(" hostnqn=")
    fields = {"hostnqn": rest} if rest else {}
    paths: list[Path] = []
    nsid: int | None = None
    for line in below:
        if field := _FIELD.fullmatch(line):
            fields[field[1]] = field[2].strip()
        elif namespace := _NAMESPACE.fullmatch(line):
            nsid = whole(namespace[1], TOOL, "ns id")
        elif line.strip() not in _STRUCTURE:
            paths.append(_text_path(line, nsid))
    return Subsystem(
        name=heading[1],
        nqn=available(nqn),
        hostnqn=available(fields.get("hostnqn")),
        iopolicy=available(fields.get("iopolicy")),
        paths=tuple(paths),
    )


def _text_path(line: str, nsid: int | None) -> Path:
    match = _PATH.fullmatch(line)
    if match is None or (match["state"] and match["state"].partition("(")[0] not in _STATES):
        refuse(TOOL, f"{shown(line)} is no path")
    return Path(
        name=match[1],
        transport=match[2],
        address=match["address"],
        state=match["state"],
        ana_state=match["ana"],
        nsid=nsid,
    )


TOOLS = {"nvme_list_subsys": reads(TOOL, subsystems)}
