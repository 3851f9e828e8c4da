"""`dmidecode`: firmware, product, serial numbers, processors and memory devices of a host."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from kvgate.parse.ending import reads
from kvgate.parse.system import serial
from kvgate.parse.text import available, lines, refuse, shown, whole

TOOL = "dmidecode"
BYTES = {"bytes": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
"""dmidecode prints powers of 1024 under decimal names (its dmi_print_memory_size)."""

_HANDLE = re.compile(r"Handle (0x[0-9A-Fa-f]{4}), DMI type [0-9]{1,3}, [0-9]{1,5} bytes")
_SMBIOS = re.compile(r"SMBIOS ([0-9]{1,2}(?:\.[0-9]{1,3}){1,2}) present\.")
_FIELD = re.compile(r"\t([^\t:][^:]{0,60}):(?: (.*))?")
_SIZE = re.compile(r"([0-9]{1,12}) (bytes|kB|MB|GB|TB)")
_SPEED = re.compile(r"([0-9]{1,6}) (?:MT/s|MHz)")  # until 3.2 it called MT/s MHz
_BITS = re.compile(r"([0-9]{1,4}) bits")
_NOTHING = frozenset(
    {
        "not specified",
        "not provided",
        "no dimm",
        "(none)",
        "unspecified",
        "not present",
        "<bad index>",
        "<out of spec>",
        "no module installed",
        "no error",
    }
)
_REFUSED = ("permission denied", "no smbios nor dmi entry point found", "can't read memory")

_SYSTEM, _BOARD, _CHASSIS = "System Information", "Base Board Information", "Chassis Information"
_FIRMWARE, _PROCESSOR = "BIOS Information", "Processor Information"
_ARRAY, _DEVICE = "Physical Memory Array", "Memory Device"
_POWER = "System Power Supply"
_KNOWN = frozenset({_SYSTEM, _BOARD, _CHASSIS, _FIRMWARE, _PROCESSOR, _ARRAY, _DEVICE, _POWER})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """The BIOS."""

    vendor: str | None
    version: str | None
    release_date: str | None  # as printed: MM/DD/YYYY


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """System, board or chassis; a placeholder of the firmware is no serial number."""

    manufacturer: str | None
    product_name: str | None
    version: str | None
    serial: str | None
    uuid: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """A processor socket. ``populated`` None: it doesn't say."""

    name: str | None
    populated: bool | None
    version: str | None
    core_count: int | None
    core_enabled: int | None
    thread_count: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDevice:
    """A memory slot. ``populated`` False: no module; None: the firmware doesn't know."""

    locator: str | None
    bank: str | None
    populated: bool | None
    size_bytes: int | None
    type: str | None
    speed_mts: int | None
    configured_speed_mts: int | None
    total_width_bits: int | None
    data_width_bits: int | None  # with ECC the total width is larger
    manufacturer: str | None
    serial: str | None
    part_number: str | None
    rank: int | None
    use: str | None  # of its array: "System Memory", "Flash Memory" …


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PowerSupply:
    """A power supply (SMBIOS type 39); ``status`` as printed: ``Present, OK``, ``Not Present``."""

    location: str | None
    name: str | None
    manufacturer: str | None
    part_number: str | None
    serial: str | None
    status: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What dmidecode prints; None and () where it was not asked for that type."""

    smbios_version: str | None
    firmware: Firmware | None
    system: Product | None
    board: Product | None
    chassis: Product | None
    processors: tuple[Socket, ...]
    memory_error_correction: tuple[str | None, ...]  # an array each
    memory: tuple[MemoryDevice, ...]
    power: tuple[PowerSupply, ...] = ()


Fields = dict[str, str]


@dataclasses.dataclass(slots=True)
class _Structure:
    title: str
    handle: str | None
    fields: Fields = dataclasses.field(default_factory=dict)


def inventory(answer: bytes) -> Inventory:
    """Parse ``dmidecode`` (3.x; all types or some; also ``-q``, without handles)."""
    printed = lines(answer, TOOL)
    versions = [
        match[1]
        for line in printed
        if "SMBIOS " in line and (match := _SMBIOS.fullmatch(line.strip()))
    ]
    found = list(_structures(printed))
    if not versions and not {each.title for each in found} & _KNOWN:
        refuse(TOOL, "it prints neither 'SMBIOS … present.' nor a structure that is known")
    arrays = {each.handle: each.fields for each in found if each.title == _ARRAY}
    return Inventory(
        smbios_version=versions[0] if versions else None,
        firmware=next((_firmware(each) for each in _of(found, _FIRMWARE)), None),
        system=next((_product(each) for each in _of(found, _SYSTEM)), None),
        board=next((_product(each) for each in _of(found, _BOARD)), None),
        chassis=next((_product(each) for each in _of(found, _CHASSIS)), None),
        processors=tuple(_socket(each) for each in _of(found, _PROCESSOR)),
        memory_error_correction=tuple(
            _text(each, "Error Correction Type", keep=("none",)) for each in _of(found, _ARRAY)
        ),
        memory=tuple(
            _device(each, arrays.get(each.get("Array Handle"), {})) for each in _of(found, _DEVICE)
        ),
        power=tuple(_power(each) for each in _of(found, _POWER)),
    )


def _of(found: Iterable[_Structure], title: str) -> Iterator[Fields]:
    return (each.fields for each in found if each.title == title)


def _structures(printed: list[str]) -> Iterator[_Structure]:
    """Yield every structure with its fields; lists below a field are left out."""
    handle: str | None = None
    current: _Structure | None = None
    for line in printed:
        if not line.strip():
            current = None
        elif line.startswith("\t"):
            if current and not line.startswith("\t\t"):
                _add(current, line)
        elif match := _HANDLE.fullmatch(line.strip()):
            handle, current = match[1], None
        elif any(each in line.lower() for each in _REFUSED):
            refuse(TOOL, shown(line), hint="dmidecode needs root")
        elif not line.startswith("#"):
            current = _Structure(line.strip(), handle)
            handle = None
            yield current


def _add(structure: _Structure, line: str) -> None:
    match = _FIELD.fullmatch(line)
    if not match:
        return
    value = (match[2] or "").strip()
    if structure.fields.setdefault(match[1], value) != value and structure.title in _KNOWN:
        refuse(
            TOOL,
            f"'{match[1]}' of one {structure.title} is "
            f"{shown(structure.fields[match[1]])} and also {shown(value)}",
        )


def _text(fields: Fields, name: str, keep: tuple[str, ...] = ()) -> str | None:
    told = fields.get(name)
    if told is not None and told.lower() in keep:
        return told
    found = available(told)
    return None if found is None or found.lower() in _NOTHING else found


def _number(fields: Fields, name: str, shape: re.Pattern[str]) -> int | None:
    told = _text(fields, name)
    if told is None:
        return None
    match = shape.fullmatch(told)
    if not match:
        refuse(TOOL, f"{name} is {shown(told)}")
    return whole(match[1], TOOL, name)


_PLAIN = re.compile(r"([0-9]{1,6})")


def _firmware(fields: Fields) -> Firmware:
    return Firmware(
        vendor=_text(fields, "Vendor"),
        version=_text(fields, "Version"),
        release_date=_text(fields, "Release Date"),
    )


def _product(fields: Fields) -> Product:
    return Product(
        manufacturer=_text(fields, "Manufacturer"),
        product_name=_text(fields, "Product Name"),
        version=_text(fields, "Version"),
        serial=serial(_text(fields, "Serial Number") or ""),
        uuid=_text(fields, "UUID"),
    )


def _socket(fields: Fields) -> Socket:
    status = _text(fields, "Status")
    known = status is not None and status.startswith(("Populated", "Unpopulated"))
    return Socket(
        name=_text(fields, "Socket Designation"),
        populated=str(status).startswith("Populated") if known else None,
        version=_text(fields, "Version"),
        core_count=_number(fields, "Core Count", _PLAIN),
        core_enabled=_number(fields, "Core Enabled", _PLAIN),
        thread_count=_number(fields, "Thread Count", _PLAIN),
    )


def _device(fields: Fields, array: Fields) -> MemoryDevice:
    size = fields.get("Size")
    if size is None:
        refuse(TOOL, f"memory device {shown(fields.get('Locator'))} has no size: is it cut?")
    empty = size.lower() in ("no module installed", "not installed")
    size_bytes = None if empty else _bytes(size)
    return MemoryDevice(
        locator=_text(fields, "Locator"),
        bank=_text(fields, "Bank Locator"),
        populated=False if empty else True if size_bytes else None,
        size_bytes=size_bytes,
        type=None if empty else _text(fields, "Type"),
        speed_mts=_number(fields, "Speed", _SPEED),
        configured_speed_mts=_number(fields, "Configured Memory Speed", _SPEED)
        or _number(fields, "Configured Clock Speed", _SPEED),  # its name until 3.1
        total_width_bits=_number(fields, "Total Width", _BITS),
        data_width_bits=_number(fields, "Data Width", _BITS),
        manufacturer=_text(fields, "Manufacturer"),
        serial=serial(_text(fields, "Serial Number") or ""),
        part_number=_text(fields, "Part Number"),
        rank=_number(fields, "Rank", _PLAIN),
        use=_text(array, "Use"),
    )


def _power(fields: Fields) -> PowerSupply:
    return PowerSupply(
        location=_text(fields, "Location"),
        name=_text(fields, "Name"),
        manufacturer=_text(fields, "Manufacturer"),
        part_number=_text(fields, "Model Part Number"),
        serial=serial(_text(fields, "Serial Number") or ""),
        status=_text(fields, "Status"),
    )


def _bytes(told: str) -> int | None:
    if available(told) is None or told.lower() in _NOTHING:
        return None
    match = _SIZE.fullmatch(told)
    if not match:
        refuse(TOOL, f"a memory device's size is {shown(told)}")
    return int(match[1]) * BYTES[match[2]]


TOOLS = {"dmidecode": reads("dmidecode", inventory)}
