"""What the amdgpu driver tells of its GPUs in sysfs: memory, firmware, RAS, power, partition."""

from __future__ import annotations

import dataclasses
import re

from kvgate.parse import pci, sysfs
from kvgate.parse.ending import reads
from kvgate.parse.text import refuse, shown, whole

WHAT = "amdgpu in sysfs"
ALL_ONES = 0xFFFF
"""A RAS counter of a suspended GPU reads all ones in each 16 bits: 16 of them are 1,048,560."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_DEVICE = re.compile(r"0x[0-9a-f]{4}")
_COUNT = re.compile(r"(ue|ce|de): ([0-9]{1,20})")
_PAGE = re.compile(r"0x[0-9a-f]{1,16} : 0x[0-9a-f]{1,16} : ([RPF])")
_RAS = re.compile(r"ras/([a-z0-9_]{1,40})_err_count")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU that amdgpu drives; None: the driver does not tell it.

    ``bad_pages`` counts retired, pending and unreservable ones. ``implausible`` names the RAS
    blocks whose counters read all ones; they are in no sum.
    """

    address: str
    device: str
    vram_bytes: int | None
    vbios: str | None
    serial: str | None
    compute_partition: str | None
    memory_partition: str | None
    numa_node: int | None
    power_cap_uw: int | None
    temperature_mc: int | None  # of the junction, the hottest that is told
    bar_bytes: int | None
    busy_pct: int | None
    correctable: int | None
    uncorrectable: int | None
    bad_pages: int | None
    implausible: tuple[str, ...]


def cards(answer: bytes) -> tuple[Card, ...]:
    """Parse the attributes below /sys/bus/pci/drivers/amdgpu (kernel documentation gpu/amdgpu)."""
    found = []
    for address, values in sysfs.attributes(answer, WHAT).items():
        if not _ADDRESS.fullmatch(address):
            refuse(WHAT, f"{shown(address)} is no PCI address")
        found.append(_card(address, values))
    return tuple(sorted(found, key=lambda card: card.address))


def _card(address: str, values: dict[str, bytes]) -> Card:
    def text(name: str) -> str | None:
        return sysfs.text(values, name, WHAT) or None

    def number(name: str) -> int | None:
        told = text(name)
        return None if told is None else whole(told, WHAT, f"{name} of {address}")

    device = text("device")
    if device is None or not _DEVICE.fullmatch(device):
        refuse(WHAT, f"the device id of {address} is {shown(device)}")
    heat = [each for name in values if name.endswith("_input") if (each := number(name))]
    caps = [name for name in values if name.endswith("/power1_cap")]
    correctable, uncorrectable, implausible = _ras(values)
    return Card(
        address=address,
        device=device[2:],
        vram_bytes=number("mem_info_vram_total"),
        vbios=text("vbios_version"),
        serial=text("unique_id"),
        compute_partition=text("current_compute_partition"),
        memory_partition=text("current_memory_partition"),
        numa_node=pci.node(text("numa_node")),
        power_cap_uw=number(caps[0]) if len(caps) == 1 else None,
        temperature_mc=max(heat) if heat else None,
        bar_bytes=pci.largest_bar(values["resource"]) if "resource" in values else None,
        busy_pct=number("gpu_busy_percent"),
        correctable=correctable,
        uncorrectable=uncorrectable,
        bad_pages=_pages(values.get("ras/gpu_vram_bad_pages")),
        implausible=implausible,
    )


def _ras(values: dict[str, bytes]) -> tuple[int | None, int | None, tuple[str, ...]]:
    """Return the sums of correctable and uncorrectable errors, and what is implausible."""
    sums: dict[str, int] = {}
    implausible = []
    for name in values:
        block = _RAS.fullmatch(name)
        if not block:
            continue
        for line in values[name].decode("utf-8", "replace").splitlines():
            match = _COUNT.fullmatch(line.strip())
            if not match:
                refuse(WHAT, f"{name} is {shown(line)}, not ue: or ce: with a number")
            count = int(match[2])
            if count and count % ALL_ONES == 0:
                implausible.append(block[1])
            else:
                sums[match[1]] = sums.get(match[1], 0) + count
    if implausible:
        return None, None, tuple(dict.fromkeys(implausible))
    return sums.get("ce"), sums.get("ue"), ()


def _pages(told: bytes | None) -> int | None:
    """Return how many bad pages are listed; the file is there, and empty, where there is none."""
    if told is None:
        return None
    listed = [line for line in told.decode("utf-8", "replace").splitlines() if line.strip()]
    if bad := [line for line in listed if not _PAGE.fullmatch(line.strip())]:
        refuse(WHAT, f"{shown(bad[0])} is no bad page")
    return len(listed)


def nodes(answer: bytes) -> dict[str, int]:
    """Return network port → NUMA node from /sys/class/net/*/device/numa_node; −1: it has none."""
    found = {}
    for name, values in sysfs.attributes(answer, "NUMA nodes of ports").items():
        told = sysfs.text(values, "device/numa_node", name)
        if told not in (None, "", "-1"):
            found[name] = whole(str(told), "NUMA nodes of ports", name)
    return found


def logical(answer: bytes) -> int:
    """Return how many GPUs programs see: KFD's nodes with a GPU (each partition is one)."""
    what = "KFD topology"
    ids = [
        whole(sysfs.text(values, "gpu_id", what) or "", what, f"gpu_id of node {name}")
        for name, values in sysfs.attributes(answer, what).items()
    ]
    return sum(each > 0 for each in ids)


TOOLS = {
    "sysfs_amdgpu": reads(WHAT, cards, fine=(0, 1, 2)),
    "sysfs_port_nodes": reads("NUMA nodes of ports", nodes, fine=(0, 1, 2)),
    "sysfs_kfd": reads("KFD topology", logical, fine=(0, 1, 2)),
}
"""grep ends with 1 where nothing is there, with 2 where a file can't be read."""
