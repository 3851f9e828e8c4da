"""`nvme list`: the namespaces and controllers of a host, in every shape nvme-cli has had."""

from __future__ import annotations

import dataclasses
import decimal
import re
from collections.abc import Iterator
from typing import Any

from kvgate.parse import table
from kvgate.parse.ending import reads
from kvgate.parse.text import available, json_object, lines, refuse, shown
from kvgate.parse.typed import count, hexed, named, rows, words

TOOL = "nvme list"
_UNIT = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5}  # nvme-cli's suffix_si: powers of 1000
_USAGE = re.compile(
    r"([0-9]{1,4}(?:\.[0-9]{1,3})?) +([kMGTP]?)B / +([0-9]{1,4}(?:\.[0-9]{1,3})?) +([kMGTP]?)B"
)
_FORMAT = re.compile(r"([0-9]{1,5}) +(Ki)?B \+ +[0-9]{1,3} B")
_TAIL = re.compile(
    r"(?P<address>\S*)\s+(?:(?P<slot>\S+)\s+)?(?P<subsystem>nvme-subsys[0-9]{1,5})"
    r"(?:\s+(?P<namespaces>nvme\S+(?:, nvme\S+)*))?\s*"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace. Sizes are None where nvme-cli prints an overflown (negative) number.

    ``rounded``: its sizes come from the table, which has 3 to 5 digits.
    """

    path: str
    nsid: int | None
    model: str | None
    serial: str | None
    firmware: str | None
    size_bytes: int | None
    used_bytes: int | None
    max_lba: int | None
    sector_bytes: int | None
    rounded: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A controller; ``address`` is a PCI address or that of a fabrics target, as printed."""

    name: str
    cntlid: int | None
    model: str | None
    serial: str | None
    firmware: str | None
    transport: str | None
    address: str | None
    subsystem: str | None
    namespaces: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What was listed. ``shape`` is the form of the answer: flat, nested or table."""

    shape: str
    namespaces: tuple[Namespace, ...]
    controllers: tuple[Controller, ...]  # () where the form has none


def listing(answer: bytes) -> Listing:
    """Parse ``nvme list`` (1.x to 3.x): JSON, flat or nested by subsystem (``-v``), or tables.

    No device is an empty list in JSON and in a table with heading; an empty answer is refused.
    """
    if answer.lstrip().startswith(b"{"):
        return _from_json(rows(json_object(answer, TOOL).get("Devices"), TOOL, "Devices"))
    printed = lines(answer, TOOL)
    namespaces: list[Namespace] = []
    controllers: list[Controller] = []
    found = False
    for columns, below in table.tables(printed):
        titles = [title for title, _ in columns]
        if {"Node", "Usage", "Format"} <= set(titles):
            found = True
            namespaces += [_row(table.cells(columns, line), line) for line in below]
        elif {"SN", "TxPort", "Address"} <= set(titles):
            found = True
            controllers += [_controller_row(columns, line) for line in below]
    if not found:
        refuse(TOOL, "it prints neither JSON nor a table of namespaces or controllers")
    return Listing(shape="table", namespaces=tuple(namespaces), controllers=tuple(controllers))


def _from_json(devices: list[dict[str, Any]]) -> Listing:
    nested = [each for each in devices if "Subsystems" in each or "Controllers" in each]
    if not nested:
        return Listing(
            shape="flat", namespaces=tuple(_flat(each) for each in devices), controllers=()
        )
    if len(nested) != len(devices):
        refuse(TOOL, "some of its devices are nested by subsystem, some are not")
    subsystems = [
        subsystem
        for each in devices
        for subsystem in (
            rows(each["Subsystems"], TOOL, "Subsystems") if "Subsystems" in each else [each]
        )
    ]
    return Listing(
        shape="nested",
        namespaces=tuple(each for one in subsystems for each in _namespaces(one)),
        controllers=tuple(each for one in subsystems for each in _controllers(one)),
    )


def _sizes(row: dict[str, Any]) -> dict[str, Any]:
    sector = count(row.get("SectorSize"), TOOL, "SectorSize")
    lbas, size = _held(row, "MaximumLBA"), _held(row, "PhysicalSize")
    if None not in (sector, lbas, size) and size != int(lbas or 0) * int(sector or 0):
        refuse(TOOL, f"{size} bytes are not {lbas} sectors of {sector} bytes")
    return {
        "size_bytes": size,
        "used_bytes": _held(row, "UsedBytes"),
        "max_lba": lbas,
        "sector_bytes": sector,
    }


def _held(row: dict[str, Any], name: str) -> int | None:
    """Return the number, None where it is negative: nvme-cli 2.0 to 2.2 printed 32-bit ints."""
    value = row.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and value < 0:
        return None
    return count(value, TOOL, name)


def _identity(row: dict[str, Any]) -> dict[str, Any]:
    keys = (("model", "ModelNumber"), ("serial", "SerialNumber"), ("firmware", "Firmware"))
    return {field: words(row.get(key), TOOL, key) for field, key in keys}


def _flat(row: dict[str, Any]) -> Namespace:
    return Namespace(
        path=named(row, TOOL, "DevicePath"),
        nsid=count(row.get("NameSpace"), TOOL, "NameSpace"),
        **_identity(row),
        **_sizes(row),
    )


def _namespaces(subsystem: dict[str, Any]) -> Iterator[Namespace]:
    """Yield a subsystem's namespaces: below it (multipath) or below its controllers."""
    controllers = rows(subsystem.get("Controllers", []), TOOL, "Controllers")
    identities = [_identity(each) for each in controllers]
    shared = rows(subsystem.get("Namespaces", []), TOOL, "Namespaces")
    if shared:
        same = identities[0] if identities and all(i == identities[0] for i in identities) else {}
        yield from (_nested(row, same) for row in shared)
        return
    for controller, identity in zip(controllers, identities, strict=True):
        for row in rows(controller.get("Namespaces", []), TOOL, "Namespaces"):
            yield _nested(row, identity)


def _nested(row: dict[str, Any], identity: dict[str, Any]) -> Namespace:
    return Namespace(
        path=f"/dev/{named(row, TOOL, 'NameSpace')}",
        nsid=count(row.get("NSID"), TOOL, "NSID"),
        model=identity.get("model"),
        serial=identity.get("serial"),
        firmware=identity.get("firmware"),
        **_sizes(row),
    )


def _controllers(subsystem: dict[str, Any]) -> Iterator[Controller]:
    for row in rows(subsystem.get("Controllers", []), TOOL, "Controllers"):
        below = rows(row.get("Namespaces", []), TOOL, "Namespaces")
        yield Controller(
            name=named(row, TOOL, "Controller"),
            cntlid=count(row.get("Cntlid"), TOOL, "Cntlid"),
            **_identity(row),
            transport=words(row.get("Transport"), TOOL, "Transport"),
            address=words(row.get("Address"), TOOL, "Address"),
            subsystem=words(subsystem.get("Subsystem"), TOOL, "Subsystem"),
            namespaces=tuple(named(each, TOOL, "NameSpace") for each in below),
        )


def _row(cell: dict[str, str] | None, line: str) -> Namespace:
    usage = _USAGE.fullmatch(cell["Usage"]) if cell else None
    form = _FORMAT.fullmatch(cell["Format"]) if cell else None
    if not cell or not usage or not form or not cell["Node"].startswith("/dev/"):
        refuse(TOOL, f"{shown(line)} is no row of the table")
    nsid = available(cell.get("Namespace"))
    return Namespace(
        path=cell["Node"],
        nsid=None if nsid is None else hexed(nsid, TOOL, "Namespace"),
        model=available(cell.get("Model")),
        serial=available(cell.get("SN")),
        firmware=available(cell.get("FW Rev")),
        size_bytes=_rounded(usage[3], usage[4]),
        used_bytes=_rounded(usage[1], usage[2]),
        max_lba=None,
        sector_bytes=int(form[1]) * (1024 if form[2] else 1),
        rounded=True,
    )


def _rounded(number: str, unit: str) -> int:
    found = decimal.Decimal(number) * 1000 ** _UNIT[unit]
    if found != found.to_integral_value():
        refuse(TOOL, f"{number} {unit}B is no whole number of bytes")
    return int(found)


def _controller_row(columns: list[tuple[str, int]], line: str) -> Controller:
    """Read a row of ``nvme list -v``; what stands behind Address may be pushed to the right."""
    titles = [title for title, _ in columns]
    cell = table.cells(columns[: titles.index("Address") + 1], line)
    tail = _TAIL.fullmatch(cell["Address"]) if cell else None
    if not cell or not tail or not cell.get("Device"):
        refuse(TOOL, f"{shown(line)} is no row of the table of controllers")
    cntlid = available(cell.get("Cntlid"))
    return Controller(
        name=cell["Device"],
        cntlid=None if cntlid is None else hexed(cntlid, TOOL, "Cntlid"),
        model=available(cell.get("MN")),
        serial=available(cell["SN"]),
        firmware=available(cell.get("FR")),
        transport=available(cell["TxPort"]),
        address=available(tail["address"]),
        subsystem=tail["subsystem"],
        namespaces=tuple((tail["namespaces"] or "").split(", ")) if tail["namespaces"] else (),
    )


TOOLS = {"nvme_list": reads("nvme_list", listing)}
