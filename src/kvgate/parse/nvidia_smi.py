"""`nvidia-smi --query-gpu=… --format=csv`: NVIDIA's GPUs, one a row, units in the heading."""

from __future__ import annotations

import csv
import dataclasses
import decimal
import re

from kvgate.errors import ParseError
from kvgate.parse.ending import reads
from kvgate.parse.text import decoded, refuse, shown, whole

TOOL = "nvidia-smi"
FIELDS = (
    "index",
    "pci.bus_id",
    "name",
    "serial",
    "vbios_version",
    "driver_version",
    "memory.total",
    "power.limit",
    "temperature.gpu",
    "utilization.gpu",
    "ecc.errors.corrected.aggregate.total",
    "ecc.errors.uncorrected.aggregate.total",
    "retired_pages.single_bit_ecc.count",
    "retired_pages.double_bit.count",
)
"""What is asked for; `nvidia-smi --help-query-gpu` describes each."""

_MISSING = frozenset({"[n/a]", "n/a", "[not supported]", "not supported", "[not available]"})
_UNITS = {"memory.total": " MiB", "power.limit": " W", "utilization.gpu": " %"}
_ADDRESS = re.compile(r"0{0,4}([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_DECIMAL = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,3})?")
_UNIT = re.compile(r" \[[A-Za-z%]{1,8}\]")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaGpu:
    """A GPU; None where the card or the driver has no such value."""

    index: int
    address: str
    name: str | None
    serial: str | None
    vbios: str | None
    driver: str | None
    memory_mib: int | None
    power_limit_w: decimal.Decimal | None
    temperature_c: int | None
    busy_pct: int | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    pages_single_bit: int | None
    pages_double_bit: int | None


def query(answer: bytes) -> tuple[NvidiaGpu, ...]:
    """Parse the table with its heading (with or without ``nounits``), any order of columns.

    Raises ParseError without the columns index and pci.bus_id, for "No devices were found", and
    for a value that says that the GPU is lost.
    """
    text = decoded(answer, TOOL).replace("\r\n", "\n")
    if "No devices were found" in text or "has failed" in text:
        refuse(TOOL, shown(text.strip().splitlines()[0]))
    try:
        rows = [row for row in csv.reader(text.splitlines(), skipinitialspace=True) if row]
    except csv.Error as err:
        raise ParseError(f"{TOOL}: {err}") from err
    heading = [_UNIT.sub("", name.strip()) for name in rows[0]]
    if not {"index", "pci.bus_id"} <= set(heading) or len(set(heading)) != len(heading):
        refuse(TOOL, "its heading does not name index and pci.bus_id once")
    if any(len(row) != len(heading) for row in rows):
        refuse(TOOL, "a row has not one value to each column")
    found = tuple(_gpu(dict(zip(heading, row, strict=True))) for row in rows[1:])
    if not found or len({gpu.address for gpu in found}) != len(found):
        refuse(TOOL, "it lists no GPU, or one twice")
    return found


def _gpu(row: dict[str, str]) -> NvidiaGpu:
    def text(name: str) -> str | None:
        told = row.get(name, "[N/A]").strip().removesuffix(_UNITS.get(name, " "))
        if told.startswith("[") and told.lower() not in _MISSING:
            refuse(TOOL, f"{name} of GPU {row['index']} is {shown(told)}")
        return None if not told or told.lower() in _MISSING else told

    def number(name: str) -> int | None:
        told = text(name)
        return None if told is None else whole(told, TOOL, name)

    address = _ADDRESS.fullmatch((text("pci.bus_id") or "").lower())
    limit = text("power.limit")
    if not address or (limit is not None and not _DECIMAL.fullmatch(limit)):
        refuse(TOOL, f"pci.bus_id or power.limit of GPU {shown(row['index'])} is not known")
    return NvidiaGpu(
        index=whole(row["index"], TOOL, "index"),
        address=address[1],
        name=text("name"),
        serial=None if text("serial") == "0" else text("serial"),
        vbios=text("vbios_version"),
        driver=text("driver_version"),
        memory_mib=number("memory.total"),
        power_limit_w=None if limit is None else decimal.Decimal(limit),
        temperature_c=number("temperature.gpu"),
        busy_pct=number("utilization.gpu"),
        ecc_corrected=number("ecc.errors.corrected.aggregate.total"),
        ecc_uncorrected=number("ecc.errors.uncorrected.aggregate.total"),
        pages_single_bit=number("retired_pages.single_bit_ecc.count"),
        pages_double_bit=number("retired_pages.double_bit.count"),
    )


TOOLS = {"nvidia_smi": reads(TOOL, query)}
