"""amd-smi in all its forms: JSON (a list, ``gpu_data``), text, CSV, monitor tables."""

from __future__ import annotations

import dataclasses
import decimal
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kvgate.parse import amd_smi_text as forms
from kvgate.parse.amd_smi_fields import (
    EccBlock,
    Firmware,
    bad_pages,
    count,
    ecc_blocks,
    firmwares,
    values,
)
from kvgate.parse.amd_smi_text import TOOL, Tree
from kvgate.parse.ending import reads
from kvgate.parse.gpu_values import Number, amount, holds_json, json_document
from kvgate.parse.text import available, lines, refuse, shown

_LISTS = ("gpu_data", "current_partition", "xgmi_metric")
_VBIOS = re.compile(r"113-[A-Z0-9]{4,12}(?:-[A-Z0-9]{2,6})*")
_TABLE = re.compile(r"GPU(_ID)?\s|CURRENT_PARTITION:|LINK METRIC TABLE:")
_VERSIONS = re.compile(r"AMDSMI Tool: \S+ \|.*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU or partition of one; None: not told, not asked, or N/A. Identifiers as printed."""

    index: int | None = None
    bdf: str | None = None
    uuid: str | None = None
    kfd_id: int | None = None
    node_id: int | None = None
    partition_id: int | None = None
    render: str | None = None
    card: str | None = None
    hip_id: int | None = None
    hip_uuid: str | None = None
    market_name: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    rev_id: str | None = None
    asic_serial: str | None = None
    oam_id: int | None = None
    compute_units: int | None = None
    gfx_target: str | None = None
    max_pcie_width: int | None = None
    max_pcie_speed_gts: Number | None = None
    pcie_gen: int | None = None
    slot_type: str | None = None
    product_name: str | None = None
    product_serial: str | None = None
    vbios_version: str | None = None
    driver_name: str | None = None
    driver_version: str | None = None
    vram_type: str | None = None
    vram_vendor: str | None = None
    vram_total_bytes: int | None = None
    vram_used_bytes: int | None = None
    power_cap_w: Number | None = None
    power_cap_max_w: Number | None = None
    compute_partition: str | None = None
    memory_partition: str | None = None
    numa_node: int | None = None
    bad_page_threshold: str | None = None
    power_w: Number | None = None
    gpu_temp_c: Number | None = None  # a monitor's: hotspot, or edge where there is no hotspot
    edge_temp_c: Number | None = None
    hotspot_temp_c: Number | None = None
    mem_temp_c: Number | None = None
    gfx_util_pct: Number | None = None
    mem_util_pct: Number | None = None
    gfx_clock_mhz: Number | None = None
    mem_clock_mhz: Number | None = None
    pcie_width: int | None = None
    pcie_speed_gts: Number | None = None
    pcie_bandwidth_mbps: Number | None = None
    pcie_replay_count: int | None = None
    pcie_l0_to_recovery_count: int | None = None
    pcie_nak_sent_count: int | None = None
    pcie_nak_received_count: int | None = None
    ecc_correctable: int | None = None
    ecc_uncorrectable: int | None = None
    ecc_deferred: int | None = None
    ecc_blocks: tuple[EccBlock, ...] = ()
    firmware: tuple[Firmware, ...] = ()
    bad_pages_retired: int | None = None
    bad_pages_pending: int | None = None
    bad_pages_un_res: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How a GPU reaches another (or itself: SELF). ``bandwidth`` as printed, MB/s min-max."""

    gpu: int
    peer: int
    type: str | None
    weight: int | None = None
    hops: int | None = None
    status: str | None = None
    bandwidth: str | None = None
    bit_rate_gbps: Number | None = None
    max_bandwidth_gbps: Number | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process on a GPU."""

    gpu: int
    name: str | None
    pid: int | None
    vram_bytes: int | None
    mem_usage_bytes: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """``amd-smi version``."""

    tool: str | None
    library: str | None
    rocm: str | None
    amdgpu: str | None
    amd_hsmp: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AmdSmi:
    """An answer. ``shape``: list, gpu_data, object, outline, csv, table; ``cut``: marks say so.

    ``bom``: it began with a byte order mark, which was read over.
    """

    shape: str
    gpus: tuple[Gpu, ...] = ()
    processes: tuple[Process, ...] = ()
    links: tuple[Link, ...] = ()
    versions: Versions | None = None
    warnings: tuple[str, ...] = ()
    cut: bool = False
    bom: bool = False


_BOM = b"\xef\xbb\xbf"


def amd_smi(answer: bytes) -> AmdSmi:
    """Parse an answer of amd-smi, whatever the form; refuses one that tells nothing known."""
    if holds_json(answer):
        found = _from_json(answer)
    else:
        found = _from_text(lines(answer.removeprefix(_BOM), TOOL))
    found = dataclasses.replace(found, bom=answer.startswith(_BOM))
    keys = [(gpu.index, gpu.partition_id) for gpu in found.gpus]
    if len(set(keys)) != len(keys):
        refuse(TOOL, "it tells of one GPU twice")
    told = found.processes or found.links or found.versions
    if not (told or any(map(_tells, found.gpus))):
        refuse(TOOL, "it prints nothing that kvgate reads")
    return found


def _tells(gpu: Gpu) -> bool:
    """Tell whether something is known of the GPU beyond its number."""
    return bool(gpu.bdf) or dataclasses.replace(gpu, index=None, bdf=None) != Gpu()


def _from_json(answer: bytes) -> AmdSmi:
    document, warnings = json_document(answer, TOOL)
    shape = "list" if isinstance(document, list) else "object"
    if isinstance(document, dict):
        if "error" in document:
            refuse(TOOL, f"reports {shown(document['error'])}")
        shape = next((key for key in _LISTS if key in document), shape)
        document = document.get(shape, [document])
    if not isinstance(document, list) or not document:
        refuse(TOOL, f"its JSON holds {shown(document)}, no GPU")
    if not all(isinstance(each, dict) for each in document):
        refuse(TOOL, f"its JSON holds {shown(document)}, not a list of GPUs")
    if "tool" in document[0] and "gpu" not in document[0]:
        return AmdSmi(shape=shape, versions=_versions(document[0]), warnings=warnings)
    trees = [_whole(tree) for tree in document]
    return AmdSmi(
        shape=shape,
        gpus=tuple(_gpu(tree) for tree in trees),
        warnings=warnings,
        processes=tuple(each for tree in trees for each in _processes(tree)),
        links=tuple(each for tree in trees for each in _links(tree)),
    )


def _whole(piece: Tree) -> Tree:
    """Return `piece` below the branch it was taken from, where somebody asked for a part only."""
    return {"vram": piece} if {"type", "size"} <= piece.keys() else piece


def _from_text(printed: list[str]) -> AmdSmi:
    kept, cut = forms.without_cuts(printed)
    first = kept[0] if kept else ""
    if len(kept) == 1 and "to stop watching output" in first:
        refuse(TOOL, "prints no data, only the banner of --watch")
    if first.startswith("gpu,"):
        rows = forms.rows_of_csv(kept)
        if rows and "pid" in rows[0]:
            return AmdSmi(shape="csv", processes=tuple(map(_process, rows)), cut=cut)
        return AmdSmi(shape="csv", gpus=tuple(map(_gpu, rows)), cut=cut)
    if _VERSIONS.fullmatch(first):
        told = dict(part.split(": ", 1) for part in first.split(" | ") if ": " in part)
        return AmdSmi(shape="outline", versions=_versions(told), cut=cut)
    if len(kept) <= 2 and _VBIOS.fullmatch(kept[-1].strip() if kept else ""):
        gpu = Gpu(product_name=available("".join(kept[:-1])), vbios_version=kept[-1].strip())
        return AmdSmi(shape="sysfs", gpus=(gpu,), cut=cut)
    if _TABLE.match(first):
        return _from_tables(kept, cut)
    trees = [_named(tree) for tree in forms.outline(kept)]
    return AmdSmi(shape="outline", gpus=tuple(map(_gpu, trees)), cut=cut)


def _named(tree: Tree) -> Tree:
    """Return `tree`; blocks of ECC counts that stand alone (grep) below their branch."""
    loose = {
        key: node
        for key, node in tree.items()
        if isinstance(node, dict) and "correctable_count" in node
    }
    return {**tree, "ecc_blocks": loose} if loose else tree


def _from_tables(kept: list[str], cut: bool) -> AmdSmi:
    found = forms.tables(kept)
    gpus = found.get("", found.get("current_partition", []))
    processes = found.get("process_info", [])
    return AmdSmi(
        shape="table",
        gpus=tuple(map(_gpu, gpus)),
        processes=tuple(map(_process, processes)),
        cut=cut,
    )


def _gpu(tree: Tree) -> Gpu:
    pages = bad_pages(tree)
    return Gpu(
        **values(tree),
        bad_pages_retired=pages.get("retired"),
        bad_pages_pending=pages.get("pending"),
        bad_pages_un_res=pages.get("un_res"),
        ecc_blocks=tuple(ecc_blocks(tree)),
        firmware=tuple(firmwares(tree)),
    )


def _versions(told: Mapping[str, Any]) -> Versions:
    def of(*keys: str) -> str | None:
        held = next((told[key] for key in keys if key in told), None)
        return None if held is None else available(str(held))

    number = of("AMDSMI Tool", "version")
    return Versions(
        tool=number,
        library=of("amdsmi_library_version", "AMDSMI Library version"),
        rocm=of("rocm_version", "ROCm version"),
        amdgpu=of("amdgpu_version", "amdgpu version"),
        amd_hsmp=of("amd_hsmp_driver_version", "amd_hsmp version"),
    )


def _processes(tree: Tree) -> Iterator[Process]:
    listed = tree.get("process_list", [])
    for each in listed if isinstance(listed, list) else [listed]:
        told = each.get("process_info", each) if isinstance(each, dict) else each
        if isinstance(told, dict):
            usage = told.get("memory_usage")
            flat = {**told, **(usage if isinstance(usage, dict) else {}), "gpu": tree.get("gpu")}
            yield _process(flat)
        elif not str(told).lower().startswith(("no running processes", "n/a")):
            refuse(TOOL, f"{shown(told)} is no process")


def _process(row: Tree) -> Process:
    def size(key: str) -> int | None:
        held = amount(row.get(key), "bytes", f"{TOOL}: {key}", bare="B")
        return None if held is None else int(held)

    return Process(
        gpu=_index(row),
        name=available(str(row.get("name", ""))),
        pid=count(row.get("pid"), "pid"),
        vram_bytes=size("vram_mem"),
        mem_usage_bytes=size("mem_usage"),
    )


def _index(tree: Tree) -> int:
    found = count(tree.get("gpu"), "gpu")
    return refuse(TOOL, f"{shown(tree)} is of no GPU") if found is None else found


def _links(tree: Tree) -> Iterator[Link]:
    """Yield the links of topology's two shapes and of ``xgmi``."""
    metrics = tree.get("link_metrics", {})
    told = metrics if isinstance(metrics, dict) else {}
    listed = tree.get("links", told.get("links", []))
    types = tree.get("link_type")
    if isinstance(types, dict):
        listed = [_old_link(tree, peer) for peer in types]
    for each in listed if isinstance(listed, list) else [listed]:
        if not isinstance(each, dict):
            refuse(TOOL, f"{shown(each)} is no link")
        every = {**told, **each}

        def text(key: str, every: Tree = every) -> str | None:
            return available(str(every[key])) if every.get(key) is not None else None

        yield Link(
            gpu=_index(tree),
            peer=_index(each),
            type=text("link_type"),
            weight=count(every.get("weight"), "weight"),
            hops=count(every.get("num_hops"), "hops"),
            status=text("link_status"),
            bandwidth=text("bandwidth"),
            bit_rate_gbps=_rate(every.get("bit_rate")),
            max_bandwidth_gbps=_rate(every.get("max_bandwidth")),
        )


def _old_link(tree: Tree, peer: str) -> Tree:
    """Return one link of the shape before ROCm 6.3: a branch a property, a key a peer."""

    def of(branch: str) -> Any:
        held = tree.get(branch)
        return held.get(peer) if isinstance(held, dict) else None

    return {
        "gpu": peer.removeprefix("gpu_"),
        "weight": of("weight"),
        "num_hops": of("hops"),
        "link_type": of("link_type"),
        "link_status": of("link_accessibility"),
        "bandwidth": of("numa_bandwidth"),
    }


def _rate(node: Any) -> int | decimal.Decimal | None:
    found = amount(node, "gbps", f"{TOOL}: link rate", bare="Gb/s")
    return None if found == 0xFFFF else found  # all ones: the GPU has no such link


TOOLS: Mapping[str, Callable[[bytes, int | None], object]] = {"amd_smi": reads(TOOL, amd_smi)}
