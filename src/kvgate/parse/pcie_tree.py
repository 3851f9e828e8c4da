"""The PCI tree from sysfs: which bridges lead to a device, and the AER counters of each."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import re
from collections.abc import Mapping

from kvgate.parse import sysfs
from kvgate.parse.ending import reads
from kvgate.parse.pci import Function
from kvgate.parse.text import lines, refuse, shown

_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PLAIN = re.compile(r"([0-9]{1,20})")
_TOTAL = re.compile(r"TOTAL_ERR_(?:COR|NONFATAL|FATAL) ([0-9]{1,20})")
_WHAT = "PCI tree"


def ways(answer: bytes) -> dict[str, tuple[str, ...]]:
    """Return address → the functions on the way to it, root port first and itself last.

    From ``ls -l /sys/bus/pci/devices``, whose links end in the path through the tree.
    """
    found: dict[str, tuple[str, ...]] = {}
    function = functools.cache(_FUNCTION.fullmatch)
    above = functools.cache(lambda path: tuple(filter(function, path.split("/"))))  # of many
    for line in lines(answer, _WHAT):
        if not line.strip() or line.startswith("total "):
            continue
        listed, _, target = line.rpartition(" -> ")
        name = listed.rpartition(" ")[2]
        path, _, last = target.partition("/devices/")[2].rpartition("/")
        way = (*above(path), last) if function(last) else above(path)
        if not function(name):
            refuse(_WHAT, f"{shown(line)} is no link of /sys/bus/pci/devices")
        if not way or way[-1] != name:
            refuse(_WHAT, f"{shown(line)} does not lead to {name}")
        found[name] = way
    return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A link that runs below what both its ends can: ``end`` is the lower one."""

    end: str
    partner: str
    speed_gts: decimal.Decimal
    speed_able_gts: decimal.Decimal
    width: int
    width_able: int

    def __str__(self) -> str:
        return (
            f"{self.partner}–{self.end} at {self.speed_gts} GT/s x{self.width} "
            f"of {self.speed_able_gts} GT/s x{self.width_able}"
        )


def slow_links(
    way: tuple[str, ...], functions: Mapping[str, Function]
) -> tuple[tuple[Slow, ...], int]:
    """Return the links on `way` that run below what both ends can, and how many were compared.

    A way alternates: root port, device; or root port, a switch's upstream port, its downstream
    port, device. Each link is told by the port above it and the function below it; between the
    ports of a switch there is none.
    """
    slow = []
    compared = 0
    for partner, end in zip(way[::2], way[1::2], strict=False):
        above, below = functions.get(partner), functions.get(end)
        if above is None or below is None:
            continue
        told = (below.speed_gts, below.width)
        able = (above.speed_max_gts, below.speed_max_gts, above.width_max, below.width_max)
        if None in (*told, *able):
            continue
        compared += 1
        speed = min(above.speed_max_gts or 0, below.speed_max_gts or 0)
        width = min(above.width_max or 0, below.width_max or 0)
        now_speed, now_width = below.speed_gts or 0, below.width or 0
        if now_speed < speed or now_width < width:
            slow.append(
                Slow(
                    end=end,
                    partner=partner,
                    speed_gts=decimal.Decimal(now_speed),
                    speed_able_gts=decimal.Decimal(speed),
                    width=now_width,
                    width_able=width,
                )
            )
    return tuple(slow), compared


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Aer:
    """The AER totals of a function; None: it keeps none (``root``: of a root port's messages)."""

    correctable: int | None
    nonfatal: int | None
    fatal: int | None
    root_correctable: int | None
    root_nonfatal: int | None
    root_fatal: int | None


_FILES = {
    "correctable": "aer_dev_correctable",
    "nonfatal": "aer_dev_nonfatal",
    "fatal": "aer_dev_fatal",
    "root_correctable": "aer_rootport_total_err_cor",
    "root_nonfatal": "aer_rootport_total_err_nonfatal",
    "root_fatal": "aer_rootport_total_err_fatal",
}


def aer(answer: bytes) -> dict[str, Aer]:
    """Parse the AER attributes below /sys/bus/pci/devices (kernel ABI sysfs-bus-pci-…-aer_stats).

    Only the totals are asked for: ``TOTAL_ERR_COR 3`` of a device, a bare number of a root port.
    """
    found = {}
    for address, values in sysfs.attributes(answer, _WHAT).items():
        told = {
            field: _number(sysfs.text(values, file, _WHAT), f"{file} of {address}")
            for field, file in _FILES.items()
        }
        found[address] = Aer(**told)
    return found


def _number(told: str | None, what: str) -> int | None:
    if told is None:
        return None
    match = _TOTAL.fullmatch(told) or _PLAIN.fullmatch(told)
    return int(match[1]) if match else refuse(_WHAT, f"{what} is {shown(told)}")


TOOLS = {
    "pci_tree": reads(_WHAT, ways),
    "sysfs_aer": reads(_WHAT, aer, fine=(0, 1, 2)),
}
"""grep ends with 1 where nothing is there, with 2 where a file can't be read."""
