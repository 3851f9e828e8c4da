"""PCI functions from sysfs: what they are, and how their link runs."""

from __future__ import annotations

import dataclasses
import decimal
import re

from kvgate.parse import sysfs
from kvgate.parse.ending import reads
from kvgate.parse.text import refuse, shown, whole

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HEX = re.compile(r"0x([0-9a-f]{4})")
_CLASS = re.compile(r"0x([0-9a-f]{6})")
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?")
_NO_WIDTH = frozenset({"0", "255"})  # no link; PCIE_LNK_WIDTH_UNKNOWN (include/linux/pci.h)

BRIDGE = "0604"
DISPLAY = ("0300", "0302", "0380", "1200")
"""PCI classes of GPUs: VGA, 3D, other display, processing accelerator (MI300 family)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
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
    what = "/sys/bus/pci/devices"
    found = []
    for address, values in sysfs.attributes(answer, what).items():
        if not _ADDRESS.fullmatch(address):
            refuse(what, f"{shown(address)} is no PCI address")

        def hexed(name: str, shape: re.Pattern[str], values: dict[str, bytes] = values) -> str:
            told = sysfs.text(values, name, what) or ""
            match = shape.fullmatch(told)
            return match[1] if match else refuse(what, f"{name} is {shown(told)}")

        found.append(
            Function(
                address=address,
                id=f"{hexed('vendor', _HEX)}:{hexed('device', _HEX)}",
                kind=hexed("class", _CLASS)[:4],
                speed_gts=_speed(sysfs.text(values, "current_link_speed", what)),
                width=_width(sysfs.text(values, "current_link_width", what)),
                speed_max_gts=_speed(sysfs.text(values, "max_link_speed", what)),
                width_max=_width(sysfs.text(values, "max_link_width", what)),
            )
        )
    return tuple(found)


def _speed(told: str | None) -> decimal.Decimal | None:
    if told is None or told.lower().startswith("unknown"):
        return None
    match = _SPEED.fullmatch(told)
    if not match:
        refuse("/sys/bus/pci/devices", f"a link speed is {shown(told)}")
    return decimal.Decimal(match[1])


def _width(told: str | None) -> int | None:
    if told is None or told in _NO_WIDTH:
        return None
    return whole(told, "/sys/bus/pci/devices", "a link width")


TOOLS = {"sysfs_pci": reads("sysfs_pci", functions, fine=(0, 1, 2))}
"""grep ends with 1 where nothing is there, with 2 where a file can't be read."""
