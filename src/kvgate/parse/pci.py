"""PCI functions from sysfs: what they are, and how their link runs."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import re

from kvgate.parse import sysfs
from kvgate.parse.ending import reads
from kvgate.parse.text import refuse, shown, whole

_WHAT = "/sys/bus/pci/devices"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ID = re.compile(r"0x([0-9a-f]{4})")
_HEXED = {"vendor": _ID, "device": _ID, "class": re.compile(r"0x([0-9a-f]{6})")}
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?")
_NO_WIDTH = frozenset({"0", "255"})  # no link; PCIE_LNK_WIDTH_UNKNOWN (include/linux/pci.h)

_REGION = re.compile(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) 0x[0-9a-f]{1,16}")
BARS = 6
"""The first regions of ``resource`` are the BARs; then come the ROM and a bridge's windows."""

BRIDGE = "0604"
DISPLAY = ("0300", "0302", "0380", "1200")
"""PCI classes of GPUs: VGA, 3D, other display, processing accelerator (MI300 family)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A PCI function. Speeds in GT/s; None: it has no link or reports ``Unknown``."""

    address: str
    id: str  # vvvv:dddd
    kind: str  # class and subclass, four hex digits
    speed_gts: decimal.Decimal | None
    width: int | None
    speed_max_gts: decimal.Decimal | None
    width_max: int | None


def functions(answer: bytes) -> tuple[Function, ...]:
    """Parse the attributes below /sys/bus/pci/devices (kernel ABI sysfs-bus-pci)."""
    told = functools.cache(_told)  # a server has hundreds of functions of a few kinds
    found = []
    for address, values in sysfs.attributes(answer, _WHAT).items():
        if not _ADDRESS.fullmatch(address):
            refuse(_WHAT, f"{shown(address)} is no PCI address")
        found.append(Function(address, *told(*map(values.get, _NAMES))))
    return tuple(found)


_NAMES = (
    *("vendor", "device", "class"),
    *("current_link_speed", "current_link_width", "max_link_speed", "max_link_width"),
)
_Told = tuple[str, str, decimal.Decimal | None, int | None, decimal.Decimal | None, int | None]


def _told(*values: bytes | None) -> _Told:
    """Return all of a function but for its address, of the values of `_NAMES`."""
    vendor, device, kind, speed, width, speed_max, width_max = values
    return (
        f"{_hexed('vendor', vendor)}:{_hexed('device', device)}",
        _hexed("class", kind)[:4],
        _speed("current_link_speed", speed),
        _width("current_link_width", width),
        _speed("max_link_speed", speed_max),
        _width("max_link_width", width_max),
    )


def _hexed(name: str, value: bytes | None) -> str:
    told = sysfs.line(value, name, _WHAT) or ""
    match = _HEXED[name].fullmatch(told)
    return match[1] if match else refuse(_WHAT, f"{name} is {shown(told)}")


def _speed(name: str, value: bytes | None) -> decimal.Decimal | None:
    told = sysfs.line(value, name, _WHAT)
    if told is None or told.lower().startswith("unknown"):
        return None
    match = _SPEED.fullmatch(told)
    if not match:
        refuse(_WHAT, f"a link speed is {shown(told)}")
    return decimal.Decimal(match[1])


def _width(name: str, value: bytes | None) -> int | None:
    told = sysfs.line(value, name, _WHAT)
    if told is None or told in _NO_WIDTH:
        return None
    return whole(told, _WHAT, "a link width")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """What a function offers to others on the bus.

    ``bar_bytes``: its largest BAR; None: it has none. ``p2p_bytes``: memory that its driver offers
    for transfers between devices; None: it offers none. ``p2p_published``: other drivers may find
    and use it.
    """

    address: str
    bar_bytes: int | None
    p2p_bytes: int | None
    p2p_published: bool
    numa_node: int | None


def windows(answer: bytes) -> tuple[Windows, ...]:
    """Parse ``resource``, ``p2pmem/…`` and ``numa_node`` below /sys/bus/pci/devices."""
    what = "/sys/bus/pci/devices"
    found = []
    for address, values in sysfs.attributes(answer, what).items():
        if not _ADDRESS.fullmatch(address) or "resource" not in values:
            refuse(what, f"{shown(address)} is no PCI address, or its resources are missing")
        size = sysfs.text(values, "p2pmem/size", what)
        published = sysfs.text(values, "p2pmem/published", what)
        if published not in (None, "0", "1"):
            refuse(what, f"published of {address} is {shown(published)}")
        found.append(
            Windows(
                address=address,
                bar_bytes=largest_bar(values["resource"]),
                p2p_bytes=None if size is None else whole(size, what, "p2pmem/size"),
                p2p_published=published == "1",
                numa_node=node(sysfs.text(values, "numa_node", what)),
            )
        )
    return tuple(found)


def largest_bar(resource: bytes) -> int | None:
    """Return the size of the largest BAR in the file ``resource``, which has a line a region."""
    sizes = []
    for line in resource.decode("utf-8", "replace").splitlines()[:BARS]:
        match = _REGION.fullmatch(line.strip())
        if not match:
            refuse("/sys/bus/pci/devices", f"{shown(line)} is no line of 'resource'")
        first, last = int(match[1], 16), int(match[2], 16)
        if last > first:
            sizes.append(last - first + 1)
    return max(sizes) if sizes else None


def node(told: str | None) -> int | None:
    """Return the NUMA node that ``numa_node`` holds; −1: the firmware assigns none."""
    if told in (None, "", "-1"):
        return None
    return whole(str(told), "numa_node", "the node")


TOOLS = {
    "sysfs_pci": reads("sysfs_pci", functions, fine=(0, 1, 2)),
    "sysfs_pci_windows": reads("sysfs_pci_windows", windows, fine=(0, 1, 2)),
}
"""grep ends with 1 where nothing is there, with 2 where a file can't be read."""
