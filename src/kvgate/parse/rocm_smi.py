"""rocm-smi in all its forms: JSON of several ROCm versions, ``GPU[0]`` lines, its tables."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from kvgate.parse import rocm_smi_tables as forms
from kvgate.parse.gpu_values import Number, holds_json, json_document
from kvgate.parse.rocm_smi_tables import TOOL, Told
from kvgate.parse.text import available, lines, refuse, shown

_CARD = re.compile(r"card([0-9]{1,4})")
_LINE = re.compile(r"GPU\[([0-9]{1,4})\]\s*: (.*)")
_SYSTEM = re.compile(r"(Driver version|ROCM-SMI version|ROCM-SMI-LIB version): *(\S+)\s*")
_END = "End of ROCm SMI Log"
_NO_DATA = "No JSON data to report"

_KEYS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    # field: (how it is read, its keys in JSON and in lines, lower case, newest first)
    "device_id": ("text", ("device id", "gpu id")),
    "guid": ("count", ("guid",)),
    "node": ("count", ("node id",)),
    "unique_id": ("text", ("unique id",)),
    "serial": ("text", ("serial number",)),
    "vbios": ("text", ("vbios version",)),
    "bdf": ("text", ("pci bus",)),
    "name": ("text", ("card series",)),
    "card_model": ("text", ("card model",)),
    "gfx_version": ("text", ("gfx version",)),
    "mem_partition": ("text", ("memory partition",)),
    "compute_partition": ("text", ("compute partition",)),
    "temp_edge_c": ("c", ("temperature (sensor edge) (c)",)),
    "temp_junction_c": ("c", ("temperature (sensor junction) (c)",)),
    "temp_memory_c": ("c", ("temperature (sensor memory) (c)",)),
    "power_w": (
        "w",
        ("current socket graphics package power (w)", "average graphics package power (w)"),
    ),
    "power_cap_w": ("w", ("max graphics package power (w)",)),
    "gfx_util_pct": ("pct", ("gpu use (%)",)),
    "vram_used_pct": ("pct", ("gpu memory allocated (vram%)",)),
    "voltage_mv": ("mv", ("voltage (mv)",)),
    "vram_total_bytes": ("bytes", ("vram total memory (b)",)),
    "vram_used_bytes": ("bytes", ("vram total used memory (b)",)),
    "pcie_replay_count": ("count", ("pcie replay count",)),
    "numa_node": ("count", ("(topology) numa node",)),
}
_BARE = {"c": "C", "w": "W", "pct": "%", "mv": "mV", "bytes": "B", "mhz": "MHz", "count": ""}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A logical GPU (a partition has its own row); None: not told, not supported, or N/A."""

    index: int
    node: int | None = None
    device_id: str | None = None
    guid: int | None = None
    unique_id: str | None = None
    serial: str | None = None
    vbios: str | None = None
    bdf: str | None = None
    name: str | None = None
    card_model: str | None = None
    gfx_version: str | None = None
    mem_partition: str | None = None
    compute_partition: str | None = None
    partition_id: int | None = None
    temp_edge_c: Number | None = None
    temp_junction_c: Number | None = None
    temp_memory_c: Number | None = None
    power_w: Number | None = None
    power_cap_w: Number | None = None
    gfx_util_pct: Number | None = None
    vram_used_pct: Number | None = None
    sclk_mhz: Number | None = None
    mclk_mhz: Number | None = None
    voltage_mv: Number | None = None
    vram_total_bytes: int | None = None
    vram_used_bytes: int | None = None
    pcie_replay_count: int | None = None
    numa_node: int | None = None
    gfx_ras: str | None = None
    sdma_ras: str | None = None
    umc_ras: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RocmSmi:
    """An answer. ``complete``: its end is there; ``physical_gpus``: distinct PCI addresses.

    ``notes`` are what it says instead of values, e.g. that a query is not supported.
    """

    gpus: tuple[Gpu, ...]
    physical_gpus: int | None
    driver_version: str | None = None
    version: str | None = None
    library_version: str | None = None
    header: bool = True
    complete: bool = True
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def rocm_smi(answer: bytes, exit_code: int | None = None) -> RocmSmi:
    """Parse an answer of rocm-smi, whatever the form; refuses one without any GPU.

    An exit code other than 0 is a warning only: one query that the GPU does not support makes
    rocm-smi fail as a whole, while it answers all others.
    """
    found = _from_json(answer) if holds_json(answer) else _from_text(lines(answer, TOOL))
    if exit_code:
        told = f"the command ended with exit code {exit_code}"
        found = dataclasses.replace(found, warnings=(*found.warnings, told))
    return found


def _from_json(answer: bytes) -> RocmSmi:
    document, warnings = json_document(answer, TOOL)
    if not isinstance(document, dict):
        refuse(TOOL, f"its JSON is {shown(document)}, not an object of cards")
    system: Mapping[str, Any] = {}
    told: dict[int, Told] = {}
    for key, values in document.items():
        card = _CARD.fullmatch(key)
        if not isinstance(values, dict) or not (card or key == "system"):
            refuse(TOOL, f"its JSON holds {shown(key)}, neither a card nor the system")
        if card:
            told[int(card[1])] = _fields({name.lower(): held for name, held in values.items()})
        else:
            system = values
    driver = system.get("Driver version")
    return _result(
        told,
        driver_version=available(driver) if isinstance(driver, str) else None,
        warnings=warnings,
    )


def _from_text(printed: list[str]) -> RocmSmi:
    table = forms.concise(printed) or forms.hardware(printed)
    system = {match[1]: match[2] for line in printed if (match := _SYSTEM.fullmatch(line))}
    warnings = tuple(line.strip() for line in printed if line.startswith("WARNING"))
    if any(_NO_DATA in line for line in warnings):
        refuse(TOOL, "reports that it has no data", hint="ask it without --json, by hand")
    told, notes = (table.rows, ()) if table else _from_lines(printed)
    return _result(
        told,
        driver_version=system.get("Driver version"),
        version=system.get("ROCM-SMI version"),
        library_version=system.get("ROCM-SMI-LIB version"),
        warnings=warnings,
        notes=notes,
        header=table.header if table else True,
        complete=any(_END in line for line in printed),
    )


def _from_lines(printed: list[str]) -> tuple[dict[int, Told], tuple[str, ...]]:
    """Return what ``GPU[0] : Key: value`` lines tell, and the notes without a value."""
    told: dict[int, dict[str, str]] = {}
    notes = []
    for line in printed:
        match = _LINE.match(line)
        if not match:
            continue
        values = told.setdefault(int(match[1]), {})
        key, colon, value = match[2].partition(":")
        if not colon:
            notes.append(line.strip())
        elif values.setdefault(key.strip().lower(), value.strip()) != value.strip():
            refuse(TOOL, f"tells two different things about {shown(match[0])}")
    return {index: _fields(values) for index, values in told.items()}, tuple(notes)


def _fields(values: Mapping[str, Any]) -> Told:
    found: dict[str, Any] = {}
    for field, (kind, keys) in _KEYS.items():
        key = next((key for key in keys if key in values), None)
        if key is None:
            continue
        value = values[key]
        if not isinstance(value, str | int) or isinstance(value, bool):
            refuse(TOOL, f"{key} is {shown(value)}, neither a text nor a number")
        if kind == "text":
            found[field] = available(str(value))
        else:
            found[field] = forms.measured(str(value), kind, field, bare=_BARE[kind])
    return found


def _result(told: dict[int, Told], **known: Any) -> RocmSmi:
    if not told:
        refuse(TOOL, "it prints no GPU")
    gpus = tuple(Gpu(index=index, **fields) for index, fields in told.items())
    addresses = {gpu.bdf.lower() for gpu in gpus if gpu.bdf}
    physical = len(addresses) if all(gpu.bdf for gpu in gpus) else None
    return RocmSmi(gpus=gpus, physical_gpus=physical, **known)


TOOLS: Mapping[str, Callable[[bytes, int | None], object]] = {"rocm_smi": rocm_smi}
