"""lspci in its forms: the list, ``-v`` to ``-vvv`` with links and error bits, ``-mm``, ``-vmm``."""

from __future__ import annotations

import dataclasses
import decimal
import re
from collections.abc import Callable, Iterator, Mapping

from kvgate.parse.ending import reads
from kvgate.parse.text import available, lines, refuse, shown

TOOL = "lspci"
_SLOT = r"(?:[0-9a-f]{2,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_HEAD = re.compile(rf"({_SLOT}) (.+)", re.IGNORECASE)
_BLANKS = "\t "  # in front of a device's details
_NUMERIC = re.compile(r"([0-9a-f]{4}): ([0-9a-f]{4}):([0-9a-f]{4})(.*)", re.IGNORECASE)
_NAMED = re.compile(r"([^:]+?)(?: \[([0-9a-f]{4})\])?: (.*)")
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_REVISION = re.compile(r"\(rev ([0-9a-f]{2})\)")
_WITH_ID = re.compile(r"(?:(.*\S) )?\[([0-9a-f]{4})\]")
_PLAIN_ID = re.compile(r"[0-9a-f]{4}")
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9/ ]{1,40}):(?:\s+(.*)|)")
_QUOTED = re.compile(rf'({_SLOT}) "([^"]*)" "([^"]*)" "([^"]*)"(.*)', re.IGNORECASE)
_LINK = re.compile(
    r"Speed (?:([0-9]{1,3}(?:\.[0-9])?)GT/s|unknown)(?: \((\w+)\))?,"
    r" Width x([0-9]{1,3})(?![0-9])(?: \((\w+)\))?"
)
_BIT = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)([+-])(?=[\s,]|$)")
_PAYLOAD = re.compile(r"MaxPayload ([0-9]{2,5}) bytes, MaxReadReq ([0-9]{2,5}) bytes")

_WHOLE = {
    "DevSta": frozenset({"CorrErr", "FatalErr", "TransPend"}),
    "UESta": frozenset({"DLP", "UnsupReq", "ACSViol"}),
    "CESta": frozenset({"RxErr", "Timeout"}),
    "ACSCtl": frozenset({"SrcValid", "UpstreamFwd"}),
}
"""Bits that every version prints for a register, the first and the last among them."""

Details = list[tuple[str, str]]
"""Keys of a device's lines with their values, continuation lines joined."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A speed in GT/s and a width; None: unknown, or no link (lspci prints x0)."""

    speed_gts: decimal.Decimal | None
    width: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A PCI function; None: this form does not tell it, or lspci may not read it.

    Bits are those that are set (``CorrErr+``); an empty tuple means read, and none is set.
    ``denied``: lspci needed root to read the capabilities.
    """

    slot: str
    class_name: str | None = None
    class_id: str | None = None
    vendor: str | None = None
    vendor_id: str | None = None
    name: str | None = None
    device_id: str | None = None
    description: str | None = None
    revision: str | None = None
    driver: str | None = None
    modules: tuple[str, ...] = ()
    numa_node: int | None = None
    physical_slot: str | None = None
    link_cap: Link | None = None
    link: Link | None = None
    speed_downgraded: bool | None = None
    width_downgraded: bool | None = None
    max_payload_bytes: int | None = None
    max_read_request_bytes: int | None = None
    status_bits: tuple[str, ...] | None = None  # DevSta
    uncorrectable_bits: tuple[str, ...] | None = None  # UESta
    correctable_bits: tuple[str, ...] | None = None  # CESta
    acs_bits: tuple[str, ...] | None = None  # ACSCtl
    denied: bool = False


def lspci(answer: bytes) -> tuple[Device, ...]:
    """Parse lspci's answer, whatever the form; refuses one that lists no device."""
    printed = [line for line in lines(answer, TOOL) if not line.startswith(("pcilib:", "lspci:"))]
    if any(line.startswith("Slot:") for line in printed):
        found = tuple(_record(block) for block in _blocks(printed))
    elif any(_QUOTED.match(line) for line in printed):
        found = tuple(_quoted(line) for line in printed if line.strip())
    else:
        found = tuple(_device(head, details) for head, details in _devices(printed))
    if not found:
        refuse(TOOL, "it lists no device")
    slots = [device.slot.lower() for device in found]
    if len(set(slots)) != len(slots):
        refuse(TOOL, "it lists a device twice")
    return found


def _blocks(printed: list[str]) -> Iterator[Details]:
    """Yield the records of ``-vmm``: KEY, colon, blanks, value; empty lines between them."""
    block: Details = []
    for line in [*printed, ""]:
        match = re.fullmatch(r"([A-Za-z]+):\s*(.*?)\s*", line)
        if match:
            block.append((match[1], match[2]))
        elif line.strip():
            refuse(TOOL, f"{shown(line)} is not KEY: value")
        elif block:
            yield block
            block = []


def _record(block: Details) -> Device:
    told = dict(block)
    modules = tuple(value for key, value in block if key == "Module")
    if len(told) + max(0, len(modules) - 1) != len(block):
        refuse(TOOL, f"a key stands twice for {shown(told.get('Slot'))}")
    slot = told.get("Slot", "")
    if not re.fullmatch(_SLOT, slot, re.IGNORECASE) or "Class" not in told:
        refuse(TOOL, f"{shown(slot)} with {shown(told)} is no device")
    kind, vendor, name = (_split(told.get(key)) for key in ("Class", "Vendor", "Device"))
    node = told.get("NUMANode")
    return Device(
        slot=slot,
        class_name=kind[0],
        class_id=kind[1],
        vendor=vendor[0],
        vendor_id=vendor[1],
        name=name[0],
        device_id=name[1],
        revision=available(told.get("Rev")),
        driver=available(told.get("Driver")),
        modules=modules,
        numa_node=_node(node),
        physical_slot=available(told.get("PhySlot")),
    )


def _split(told: str | None) -> tuple[str | None, str | None]:
    """Return name and id of ``Name``, ``1002`` (-n) or ``Name [1002]`` (-nn)."""
    if told is None or _PLAIN_ID.fullmatch(told):
        return None, told
    match = _WITH_ID.fullmatch(told)
    return (available(match[1]), match[2]) if match else (available(told), None)


def _quoted(line: str) -> Device:
    match = _QUOTED.fullmatch(line.strip())
    if not match:
        refuse(TOOL, f"{shown(line)} is no line of lspci -mm")
    kind, vendor, name = (_split(match[number]) for number in (2, 3, 4))
    revision = re.search(r" -r([0-9a-f]{2})(?=\s|$)", match[5])
    return Device(
        slot=match[1],
        class_name=kind[0],
        class_id=kind[1],
        vendor=vendor[0],
        vendor_id=vendor[1],
        name=name[0],
        device_id=name[1],
        revision=revision[1] if revision else None,
    )


def _devices(printed: list[str]) -> Iterator[tuple[str, Details]]:
    """Yield the heading of every device and its details; what a mailer wrapped is joined."""
    head, details = "", list[tuple[str, str]]()
    for line in printed:
        if not line.strip():
            continue
        key = _KEY.fullmatch(line)
        if line[0] not in _BLANKS and _HEAD.fullmatch(line):
            if head:
                yield head, details
            head, details = line.strip(), []
        elif not head:
            refuse(TOOL, f"{shown(line)} belongs to no device")
        elif key:
            details.append((key[1], key[2] or ""))
        elif details:
            details[-1] = (details[-1][0], f"{details[-1][1]} {line.strip()}")
        else:
            head = f"{head} {line.strip()}"
    if head:
        yield head, details


def _device(head: str, details: Details) -> Device:
    match = _HEAD.fullmatch(head)
    slot, rest = (match[1], match[2]) if match else refuse(TOOL, f"{shown(head)} is no device")
    cap, status = _link(details, "LnkCap"), _link(details, "LnkSta")
    numeric, named = _NUMERIC.fullmatch(rest), _NAMED.fullmatch(rest)
    ids = _IDS.findall(rest)
    revision = _REVISION.search(rest)
    payload = _PAYLOAD.search(_of(details, "DevCtl") or "")
    if not numeric and not named:
        refuse(TOOL, f"{shown(head)} has no class")
    return Device(
        slot=slot,
        class_name=None if numeric or not named else named[1],
        class_id=numeric[1] if numeric else named[2] if named else None,
        vendor_id=numeric[2] if numeric else ids[-1][0] if ids else None,
        device_id=numeric[3] if numeric else ids[-1][1] if ids else None,
        description=None if numeric or not named else named[3].strip(),
        revision=revision[1] if revision else None,
        driver=available(_of(details, "Kernel driver in use")),
        modules=tuple((_of(details, "Kernel modules") or "").replace(",", " ").split()),
        numa_node=_node(_of(details, "NUMA node")),
        physical_slot=available(_of(details, "Physical Slot")),
        link_cap=cap[0] if cap else None,
        link=status[0] if status else None,
        speed_downgraded=_downgraded(cap, status, 0),
        width_downgraded=_downgraded(cap, status, 1),
        max_payload_bytes=int(payload[1]) if payload else None,
        max_read_request_bytes=int(payload[2]) if payload else None,
        status_bits=_bits(details, "DevSta"),
        uncorrectable_bits=_bits(details, "UESta"),
        correctable_bits=_bits(details, "CESta"),
        acs_bits=_bits(details, "ACSCtl"),
        denied=("Capabilities", "<access denied>") in details,
    )


def _of(details: Details, key: str) -> str | None:
    """Return what `key` says; None where it is absent. Raises ParseError where two differ."""
    found = {value for name, value in details if name == key}
    if len(found) > 1:
        refuse(TOOL, f"a device has two different {key}")
    return found.pop() if found else None


def _node(told: str | None) -> int | None:
    if available(told) is None:
        return None
    match = re.fullmatch(r"[0-9]{1,4}", (told or "").strip())
    return int(match[0]) if match else refuse(TOOL, f"the NUMA node is {shown(told)}")


Told = tuple[Link, tuple[str | None, str | None]]


def _link(details: Details, key: str) -> Told | None:
    """Return speed, width and lspci's own words on both (``ok``, ``downgraded``)."""
    told = _of(details, key)
    if told is None:
        return None
    match = _LINK.search(told)
    if not match:
        refuse(TOOL, f"{key} is {shown(told)}, without speed and width")
    speed = decimal.Decimal(match[1]) if match[1] else None
    return Link(speed_gts=speed, width=int(match[3]) or None), (match[2], match[4])


def _downgraded(cap: Told | None, status: Told | None, which: int) -> bool | None:
    """Tell whether the link runs below its ability: lspci says so, or (before 3.6) the numbers."""
    if status is None:
        return None
    word = status[1][which]
    if word is not None:
        return word == "downgraded"
    now, best = (
        (link[0].speed_gts, link[0].width)[which] if link else None for link in (status, cap)
    )
    return None if now is None or best is None else now < best


def _bits(details: Details, key: str) -> tuple[str, ...] | None:
    """Return the names of the bits that are set in register `key`, None where it is not told."""
    told = _of(details, key)
    if told is None:
        return None
    found = _BIT.findall(told)
    if not _WHOLE[key] <= {name for name, _ in found}:
        refuse(TOOL, f"{key} is {shown(told)}: bits are missing, it is cut")
    return tuple(name for name, sign in found if sign == "+")


TOOLS: Mapping[str, Callable[[bytes, int | None], object]] = {"lspci": reads(TOOL, lspci)}
