"""`ibstat`, `ibv_devinfo` and `show_gids`: RDMA devices, their ports and GIDs."""

from __future__ import annotations

import dataclasses
import decimal
import re
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import available, lines, refuse, shown, whole

IBSTAT, DEVINFO, GIDS = "ibstat", "ibv_devinfo", "show_gids"
_FIELD = re.compile(r"([A-Za-z][\w ./]{1,40}?):\s*(.*)")
_ELISION = re.compile(r"[.…\s]*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IbPort:
    """A port as ibstat prints it; the rate of a port that is down is what it would run at."""

    number: int
    state: str | None
    physical_state: str | None
    rate_gbps: decimal.Decimal | None
    link_layer: str | None
    port_guid: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A channel adapter as ibstat prints it."""

    name: str
    type: str | None
    firmware: str | None
    node_guid: str | None
    port_count: int | None  # as declared
    ports: tuple[IbPort, ...]


@dataclasses.dataclass(slots=True)
class _Block:
    """An adapter while it is read: its fields, and those of each port by number."""

    name: str
    fields: dict[str, str] = dataclasses.field(default_factory=dict)
    ports: dict[int | None, dict[str, str]] = dataclasses.field(default_factory=dict)
    gids: dict[int | None, dict[int, Gid]] = dataclasses.field(default_factory=dict)

    def add(self, tool: str, port: int | None, name: str, value: str) -> None:
        """Take a field of the adapter (`port` not opened yet) or of the port."""
        into = self.ports.get(port, self.fields) if self.ports else self.fields
        if into.setdefault(name, value) != value:
            refuse(tool, f"'{name}' of {self.name} is {shown(into[name])} and {shown(value)}")

    def number(self, tool: str, name: str) -> int | None:
        told = available(self.fields.get(name))
        return None if told is None else whole(told, tool, name)


_CA = re.compile(r"CA '([^']{1,64})'")
_CA_PORT = re.compile(r"Port ([0-9]{1,3}):")
_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,2})?)(?: \(.*\))?")


def ibstat(answer: bytes) -> tuple[Adapter, ...]:
    """Parse ``ibstat``: adapters in printed order."""
    blocks: list[_Block] = []
    port: int | None = None
    for line in (each.strip() for each in lines(answer, IBSTAT)):
        if match := _CA.fullmatch(line):
            blocks.append(_Block(_fresh(match[1], blocks, IBSTAT)))
            port = None
        elif line and not blocks:
            refuse(IBSTAT, f"{shown(line)} stands before the first adapter")
        elif match := _CA_PORT.fullmatch(line):
            port = int(match[1])
            if port in blocks[-1].ports:
                refuse(IBSTAT, f"port {port} of {blocks[-1].name} stands twice")
            blocks[-1].ports[port] = {}
        elif match := _FIELD.fullmatch(line):
            blocks[-1].add(IBSTAT, port, match[1], match[2])
        elif line:
            refuse(IBSTAT, f"{shown(line)} is no 'field: value'")
    if not blocks:
        refuse(IBSTAT, "it prints no adapter")
    return tuple(
        Adapter(
            name=block.name,
            type=available(block.fields.get("CA type")),
            firmware=available(block.fields.get("Firmware version")),
            node_guid=available(block.fields.get("Node GUID")),
            port_count=block.number(IBSTAT, "Number of ports"),
            ports=tuple(_ib_port(int(n or 0), told) for n, told in block.ports.items()),
        )
        for block in blocks
    )


def _fresh(name: str, blocks: list[_Block], tool: str) -> str:
    if name in {block.name for block in blocks}:
        refuse(tool, f"{name} stands twice")
    return name


def _ib_port(number: int, told: dict[str, str]) -> IbPort:
    rate = available(told.get("Rate"))
    match = _RATE.fullmatch(rate) if rate else None
    if rate and not match:
        refuse(IBSTAT, f"the rate of port {number} is {shown(rate)}")
    return IbPort(
        number=number,
        state=available(told.get("State")),
        physical_state=available(told.get("Physical state")),
        rate_gbps=decimal.Decimal(match[1]) if match else None,
        link_layer=available(told.get("Link layer")),
        port_guid=available(told.get("Port GUID")),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """An entry of a port's GID table. ``type``: "IB/RoCE v1", "RoCE v2"; None: not printed."""

    index: int
    gid: str
    type: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VerbsPort:
    """A port as ibv_devinfo prints it. ``number`` None: its heading is cut out of the answer."""

    number: int | None
    state: str | None  # PORT_ACTIVE
    physical_state: str | None  # LINK_UP, of -v
    max_mtu_bytes: int | None
    active_mtu_bytes: int | None
    link_layer: str | None
    gids: tuple[Gid, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VerbsDevice:
    """An RDMA device as ibv_devinfo prints it."""

    name: str
    transport: str | None
    firmware: str | None
    node_guid: str | None
    vendor_id: str | None  # hexadecimal, as printed
    vendor_part_id: int | None
    board_id: str | None
    port_count: int | None  # as declared
    ports: tuple[VerbsPort, ...]


_HCA = re.compile(r"hca_id:\s*(\S{1,64})")
_PORT = re.compile(r"port:\s*([0-9]{1,3})")
_GID = re.compile(r"GID\[\s*([0-9]{1,4})\]:\s*([0-9a-fA-F:.]{2,45})(?:,\s*(\S.*))?")
_CODE = re.compile(r"(\S+)(?: \([0-9]+\))?")  # PORT_ACTIVE (4), 1024 (3)
_OF_PORT = frozenset(
    {
        "state",
        "max_mtu",
        "active_mtu",
        "link_layer",
        "phys_state",
        "sm_lid",
        "port_lid",
        "port_lmc",
    }
)


def devinfo(answer: bytes) -> tuple[VerbsDevice, ...]:
    """Parse ``ibv_devinfo`` (rdma-core), also ``-v``; blanks of any kind, as web pages make them.

    A GID that is printed twice (RoCE v2 with its address) is one entry.
    """
    blocks: list[_Block] = []
    port: int | None = None
    for line in (each.strip() for each in lines(answer, DEVINFO)):
        if match := _HCA.fullmatch(line):
            blocks.append(_Block(_fresh(match[1], blocks, DEVINFO)))
            port = None
        elif _ELISION.fullmatch(line):
            continue
        elif not blocks:
            refuse(DEVINFO, f"{shown(line)} stands before the first device")
        elif match := _PORT.fullmatch(line):
            port = int(match[1])
            if port in blocks[-1].ports:
                refuse(DEVINFO, f"port {port} of {blocks[-1].name} stands twice")
            blocks[-1].ports[port] = {}
        elif match := _GID.fullmatch(line):
            _gid(blocks[-1].gids.setdefault(port, {}), int(match[1]), match[2], match[3])
            blocks[-1].ports.setdefault(port, {})
        elif match := _FIELD.fullmatch(line):
            if match[1] in _OF_PORT:
                blocks[-1].ports.setdefault(port, {})
            blocks[-1].add(DEVINFO, port, match[1], match[2])
    if not blocks:
        refuse(DEVINFO, "it prints no device")
    return tuple(_device(block) for block in blocks)


def _gid(table: dict[int, Gid], index: int, gid: str, kind: str | None) -> None:
    before = table.get(index)
    if before is None:
        table[index] = Gid(index=index, gid=gid, type=kind)
    elif kind is not None and before.type is not None and (gid, kind) != (before.gid, before.type):
        refuse(DEVINFO, f"GID {index} is {shown(before.gid)} and also {shown(gid)}")
    elif before.type is None:
        table[index] = Gid(index=index, gid=before.gid, type=kind)


def _device(block: _Block) -> VerbsDevice:
    def text(name: str) -> str | None:
        return available(block.fields.get(name))

    transport = _code(text("transport"))
    return VerbsDevice(
        name=block.name,
        transport=transport,
        firmware=text("fw_ver"),
        node_guid=text("node_guid"),
        vendor_id=text("vendor_id"),
        vendor_part_id=block.number(DEVINFO, "vendor_part_id"),
        board_id=text("board_id"),
        port_count=block.number(DEVINFO, "phys_port_cnt"),
        ports=tuple(
            VerbsPort(
                number=number,
                state=_code(available(told.get("state"))),
                physical_state=_code(available(told.get("phys_state"))),
                max_mtu_bytes=_mtu(told, "max_mtu"),
                active_mtu_bytes=_mtu(told, "active_mtu"),
                link_layer=available(told.get("link_layer")),
                gids=tuple(block.gids.get(number, {}).values()),
            )
            for number, told in block.ports.items()
        ),
    )


def _code(told: str | None) -> str | None:
    """Return the name before its number in brackets."""
    if told is None:
        return None
    match = _CODE.fullmatch(told)
    return match[1] if match else told


def _mtu(told: dict[str, str], name: str) -> int | None:
    text = _code(available(told.get(name)))
    return None if text is None else whole(text, DEVINFO, name)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GidRow:
    """A row of show_gids. ``version``: v1 or v2 (RoCE), None for InfiniBand."""

    device: str
    port: int
    index: int
    gid: str
    ipv4: str | None
    version: str | None
    netdev: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GidTable:
    """All GIDs. ``declared``: what it says to have found; None: that line is missing."""

    declared: int | None
    rows: tuple[GidRow, ...]


_GID_ROW = re.compile(
    r"(?P<device>\S{1,64})\s+(?P<port>[0-9]{1,3})\s+(?P<index>[0-9]{1,4})\s+"
    r"(?P<gid>[0-9a-f]{4}(?::[0-9a-f]{4}){7})"
    r"(?:\s+(?P<ipv4>[0-9]{1,3}(?:\.[0-9]{1,3}){3}))?"
    r"(?:\s+(?P<version>[vV][0-9](?:\.[0-9])?))?(?:\s+(?P<netdev>\S{1,64}))?\s*"
)
_FOUND = re.compile(r"n_gids_found=([0-9]{1,5})")


def show_gids(answer: bytes) -> GidTable:
    """Parse ``show_gids`` (mlnx-tools); it must print as many rows as it says to have found."""
    declared: int | None = None
    found: list[GidRow] = []
    for line in lines(answer, GIDS):
        if not line.strip() or line.startswith(("DEV", "---")):
            continue
        if match := _FOUND.fullmatch(line.strip()):
            declared = int(match[1])
        elif match := _GID_ROW.fullmatch(line):
            held: dict[str, Any] = match.groupdict()
            found.append(
                GidRow(**held | {"port": int(match["port"]), "index": int(match["index"])})
            )
        else:
            refuse(GIDS, f"{shown(line)} is no row of the table")
    if declared is None and not found:
        refuse(GIDS, "it prints neither a row nor how many it found")
    if declared is not None and declared != len(found):
        refuse(GIDS, f"it says to have found {declared} GIDs and prints {len(found)}")
    return GidTable(declared=declared, rows=tuple(found))


TOOLS = {
    "ibstat": reads("ibstat", ibstat),
    "ibv_devinfo": reads("ibv_devinfo", devinfo),
    "show_gids": reads("show_gids", show_gids),
}
