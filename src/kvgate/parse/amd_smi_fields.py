"""Where amd-smi's versions and forms keep each value of a GPU, and how it is read."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvgate.parse.amd_smi_text import TOOL, Tree
from kvgate.parse.gpu_values import ALL_ONES, Number, amount
from kvgate.parse.text import available, refuse, shown, whole

_GENERATION = re.compile(r"Gen (\d)")
_PATHS: Mapping[str, tuple[str, str]] = {
    # field: (how it is read, places in order of preference; a place without a point is a column)
    "index": ("count", "gpu gpu_id"),
    "bdf": ("text", "bus.bdf bdf"),
    "uuid": ("text", "uuid"),
    "kfd_id": ("count", "kfd_id"),
    "node_id": ("count", "node_id"),
    "partition_id": ("count", "partition.partition_id partition_id xcp"),
    "render": ("text", "render"),
    "card": ("text", "card"),
    "hip_id": ("count", "hip_id"),
    "hip_uuid": ("text", "hip_uuid"),
    "market_name": ("text", "asic.market_name market_name"),
    "vendor_id": ("text", "asic.vendor_id vendor_id"),
    "device_id": ("text", "asic.device_id device_id"),
    "rev_id": ("text", "asic.rev_id rev_id"),
    "asic_serial": ("text", "asic.asic_serial asic_serial"),
    "oam_id": ("count", "asic.oam_id oam_id"),
    "compute_units": ("count", "asic.num_compute_units num_compute_units"),
    "gfx_target": ("text", "asic.target_graphics_version target_graphics_version"),
    "max_pcie_width": ("count", "bus.max_pcie_width max_pcie_width"),
    "max_pcie_speed_gts": ("gts", "bus.max_pcie_speed max_pcie_speed"),
    "pcie_gen": ("gen", "bus.pcie_interface_version pcie_interface_version"),
    "slot_type": ("text", "bus.slot_type slot_type"),
    "product_name": ("text", "board.product_name product_name"),
    "product_serial": ("text", "board.product_serial product_serial"),
    "vbios_version": ("text", "vbios.part_number ifwi.part_number part_number"),
    "driver_name": ("text", "driver.name driver.driver_name"),
    "driver_version": ("text", "driver.version driver.driver_version"),
    "vram_type": ("text", "vram.type vram.vram_type"),
    "vram_vendor": ("text", "vram.vendor vram.vram_vendor"),
    "vram_total_bytes": (
        "mb",
        "vram.size vram.vram_size_mb mem_usage.total_vram total_vram vram_total fb_total",
    ),
    "vram_used_bytes": ("mb", "mem_usage.used_vram used_vram vram_used fb_used"),
    "power_cap_w": ("w", "limit.ppt0.socket_power_limit limit.socket_power limit.current_power"),
    "power_cap_max_w": ("w", "limit.ppt0.max_power_limit limit.max_power"),
    "compute_partition": (
        "mode",
        "partition.accelerator_partition partition.compute_partition accelerator_type",
    ),
    "memory_partition": ("mode", "partition.memory_partition memory"),
    "numa_node": ("count", "numa.node"),
    "bad_page_threshold": ("text", "ras.bad_page_threshold bad_page_threshold"),
    "power_w": (
        "w",
        "power.socket_power power.current_socket_power power.average_socket_power "
        "socket_power power",
    ),
    "gpu_temp_c": ("c", "gpu_temp gpu_t"),
    "edge_temp_c": ("c", "temperature.edge edge"),
    "hotspot_temp_c": ("c", "temperature.hotspot hotspot"),
    "mem_temp_c": ("c", "temperature.mem temperature.vram mem_temp mem_t"),
    "gfx_util_pct": ("pct", "usage.gfx_activity gfx_activity gfx_util gfx_usage gfx%"),
    "mem_util_pct": ("pct", "usage.umc_activity umc_activity mem_util mem_usage mem%"),
    "gfx_clock_mhz": ("mhz", "clock.gfx_0.clk gfx_clock gfx_clk gfx_cur_clk gfx_0_clk"),
    "mem_clock_mhz": ("mhz", "clock.mem_0.clk mem_clock mem_clk mem_cur_clk mem_0_clk"),
    "pcie_width": ("count", "pcie.width pcie.current_lanes"),
    "pcie_speed_gts": ("gts", "pcie.speed pcie.current_speed"),
    "pcie_bandwidth_mbps": ("mbps", "pcie.bandwidth pcie.current_bandwidth pcie_bw"),
    "pcie_replay_count": ("count", "pcie.replay_count replay_count pcie_replay"),
    "pcie_l0_to_recovery_count": ("count", "pcie.l0_to_recovery_count l0_to_recovery_count"),
    "pcie_nak_sent_count": ("count", "pcie.nak_sent_count nak_sent_count"),
    "pcie_nak_received_count": ("count", "pcie.nak_received_count nak_received_count"),
    "ecc_correctable": ("count", "ecc.total_correctable_count total_correctable_count single_ecc"),
    "ecc_uncorrectable": (
        "count",
        "ecc.total_uncorrectable_count total_uncorrectable_count double_ecc",
    ),
    "ecc_deferred": ("count", "ecc.total_deferred_count total_deferred_count"),
}
PLACES: Mapping[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    field: (kind, tuple(tuple(place.split(".")) for place in places.split()))
    for field, (kind, places) in _PATHS.items()
}
_FIRST = frozenset(place[0] for _, places in PLACES.values() for place in places)
_BARE = {"mb": "MB", "w": "W", "c": "C", "mhz": "MHz", "pct": "%", "gts": "GT/s", "mbps": "Mb/s"}
"""Units of numbers that have none: so its CSV and its first versions' JSON print them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EccBlock:
    """Errors that a block of the GPU (UMC, SDMA, GFX…) counted; None: not told."""

    name: str
    correctable: int | None
    uncorrectable: int | None
    deferred: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """A firmware of the GPU and its version as printed."""

    name: str
    version: str | None


def values(tree: Tree) -> dict[str, Any]:
    """Return the fields of PLACES that `tree` tells; raises ParseError for an unreadable one."""
    found: dict[str, Any] = {}
    for field, kind, places in _places(tuple(key for key in tree if key in _FIRST)):
        for place in places:
            if (node := _at(tree, place)) is not None:
                found[field] = _read(node, kind, field)
                break
    used, slash, total = str(tree.get("vram_usage", "")).partition("/")
    if slash:  # "0.3/192.0 GB"
        found["vram_used_bytes"] = amount(used, "bytes", f"{TOOL}: VRAM_USAGE", bare="GB")
        found["vram_total_bytes"] = amount(total, "bytes", f"{TOOL}: VRAM_USAGE")
    return {field: value for field, value in found.items() if value is not None}


@functools.lru_cache(maxsize=64)  # all GPUs of an answer have the same branches
def _places(keys: tuple[str, ...]) -> tuple[tuple[str, str, tuple[tuple[str, ...], ...]], ...]:
    """Return the fields that a tree with these branches may tell, and at which of their places."""
    found = (
        (field, kind, tuple(place for place in places if place[0] in keys))
        for field, (kind, places) in PLACES.items()
    )
    return tuple(each for each in found if each[2])


def _at(tree: Tree, place: tuple[str, ...]) -> Any:
    node: Any = tree
    for key in place:
        if not isinstance(node, dict):
            return None
        node = node.get(key)
    return None if isinstance(node, dict) and "value" not in node else node


def _read(node: Any, kind: str, field: str) -> Number | str | None:
    if kind == "count" and type(node) is int and 0 <= node < min(ALL_ONES):
        return node
    what = f"{TOOL}: {field}"
    if kind in ("text", "mode", "gen"):
        if not isinstance(node, str | int) or isinstance(node, bool):
            refuse(what, f"{shown(node)} is not a text")
        told = available(str(node))
        if told is None or kind == "text":
            return told
        if kind == "mode":
            return told.rstrip("*")
        match = _GENERATION.fullmatch(told)
        return int(match[1] if match else whole(told, TOOL, field))
    number = amount(node, "bytes" if kind == "mb" else kind, what, bare=_BARE.get(kind, ""))
    if kind == "count" and number is not None and (not isinstance(number, int) or number < 0):
        refuse(what, f"{shown(node)} is not a count")
    return number


def count(node: Any, field: str) -> int | None:
    """Return the count that `node` is, None where not available; refuses all else."""
    number = _read(node, "count", field) if node is not None else None
    return number if isinstance(number, int) else None


def ecc_blocks(tree: Tree) -> Iterator[EccBlock]:
    """Yield the ECC counts of every block that is told."""
    for name, counts in _branch(tree, "ecc_blocks").items():
        if isinstance(counts, dict):
            yield EccBlock(
                name=name.upper(),
                **{
                    kind: count(counts.get(f"{kind}_count"), f"{name} {kind}")
                    for kind in ("correctable", "uncorrectable", "deferred")
                },
            )


def firmwares(tree: Tree) -> Iterator[Firmware]:
    """Yield every firmware of the list, which is a list in JSON and a branch in text."""
    listed = tree.get("fw_list", [])
    for each in listed.values() if isinstance(listed, dict) else listed:
        if not isinstance(each, dict) or not isinstance(each.get("fw_id"), str):
            refuse(TOOL, f"{shown(each)} is no firmware")
        version = each.get("fw_version")
        yield Firmware(
            name=each["fw_id"], version=None if version is None else available(str(version))
        )


def bad_pages(tree: Tree) -> dict[str, int]:
    """Return how many pages are retired, pending and un_res(ervable), for those that are told."""
    found = {}
    for kind in ("retired", "pending", "un_res"):
        node = tree.get(kind)
        if isinstance(node, str) and node.strip().lower().startswith("no bad pages found"):
            found[kind] = 0
        elif isinstance(node, list):
            found[kind] = len(node)
        elif isinstance(node, dict) and "page_address" in node:
            pages = node["page_address"]
            found[kind] = len(pages) if isinstance(pages, list) else 1
        elif node is not None and (not isinstance(node, str) or available(node) is not None):
            refuse(TOOL, f"{kind} is {shown(node)}, neither pages nor none found")
    return found


def _branch(tree: Tree, key: str) -> Tree:
    node = tree.get(key)
    return node if isinstance(node, dict) else {}
