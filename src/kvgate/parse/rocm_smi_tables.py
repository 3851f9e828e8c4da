"""rocm-smi's tables: the concise one of several versions, and ``--showhw``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvgate.parse.gpu_values import Number, amount
from kvgate.parse.text import available, refuse, shown, whole

TOOL = "rocm-smi"
Told = Mapping[str, Any]
"""Fields of a GPU by name, without its index."""

_TAIL = (
    r"(?P<sclk>\S+)\s+(?P<mclk>\S+)\s+(?P<fan>\S+)\s+(?P<perf>\S+)\s+(?P<cap>\S+)\s+"
    r"(?P<vram>\S+)\s+(?P<busy>\S+)\s*"
)
_WARMTH = r"(?P<temp>\S+)\s+(?P<power>\S+)\s+"
_PARTS = r"(?P<mem>[^\s,]+), (?P<compute>[^\s,]+)(?:, (?P<part>\S+))?\s+"
_ROWS = {
    "Device Node": re.compile(
        r"(?P<index>\d+)\s+(?P<node>\d+)\s+(?P<did>0x[0-9a-fA-F]+),\s+(?P<guid>\d+)\s+"
        + _WARMTH
        + _PARTS
        + _TAIL
    ),
    "Device [Model": re.compile(
        r"(?P<index>\d+)\s+\[(?P<model>0x[0-9a-fA-F]+) : 0x[0-9a-fA-F]+\]\s+"
        + _WARMTH
        + _PARTS
        + _TAIL
    ),
    "GPU Temp": re.compile(r"(?P<index>\d+)\s+" + _WARMTH + _TAIL),
}
"""First words of a concise table's heading → its rows (ROCm 6.2 and later; 6; 5 and before)."""

_HEADING = re.compile(
    r"(?:Temp|AvgPwr|Power|SCLK|MCLK|Fan|Perf|PwrCap|VRAM%|GPU%)(?=\s|$)|Temp \(DieEdge\)"
)
_COLUMNS = ("Temp", "Power", "SCLK", "MCLK", "Fan", "Perf", "PwrCap", "VRAM%", "GPU%")
_SENSOR = re.compile(r"\((?:Die)?(Edge|Junction|Memory)\)")
_NAME = re.compile(r" {4,}(\S.*?)\s*")
_HARDWARE = {
    "NODE": ("node", "count"),
    "DID": ("device_id", "text"),
    "GUID": ("guid", "count"),
    "GFX VER": ("gfx_version", "text"),
    "GFX RAS": ("gfx_ras", "text"),
    "SDMA RAS": ("sdma_ras", "text"),
    "UMC RAS": ("umc_ras", "text"),
    "VBIOS": ("vbios", "text"),
    "BUS": ("bdf", "text"),
    "PARTITION ID": ("partition_id", "count"),
}


class Table(NamedTuple):
    """The rows of a table by GPU; ``header`` is False where the heading was cut off."""

    rows: dict[int, Told]
    header: bool


def measured(text: str, kind: str, field: str, bare: str = "") -> Number | None:
    """Return the number that `text` is, in the unit `kind`; None where rocm-smi has none."""
    if text.lower().startswith(("unsupported", "not supported", "unknown")):
        return None
    found = amount(text, kind, f"{TOOL}: {field}", bare=bare)
    if kind == "count" and found is not None and (not isinstance(found, int) or found < 0):
        refuse(TOOL, f"{field} is {shown(text)}, not a count")
    return found


def concise(printed: list[str]) -> Table | None:
    """Return the rows of the concise table, None where there is none.

    Rows without their heading (somebody cut it) tell only what needs none: the ids.
    """
    for number, line in enumerate(printed):
        shape = next((shape for shape in _ROWS if " ".join(line.split()).startswith(shape)), None)
        if shape:
            return Table(_rows(printed[number:], shape), header=True)
    kept = [line for line in printed if line.strip()]
    if kept and all(_ROWS["Device Node"].fullmatch(line) for line in kept):
        rows = (_ROWS["Device Node"].fullmatch(line) for line in kept)
        return Table(_unique([(_index(row), _ids(row)) for row in rows if row]), header=False)
    return None


def _rows(printed: list[str], shape: str) -> dict[int, Told]:
    heading = printed[:2] if printed[1:] and "(" in printed[1] else printed[:1]
    columns = [name.split()[0].replace("AvgPwr", "Power") for name in _HEADING.findall(printed[0])]
    if tuple(columns) != _COLUMNS:
        refuse(TOOL, f"the heading {shown(printed[0])} has other columns than kvgate knows")
    sensor = _SENSOR.search(" ".join(heading))
    found: list[tuple[int, dict[str, Any]]] = []
    for line in printed[len(heading) :]:
        row, name = _ROWS[shape].fullmatch(line), _NAME.fullmatch(line)
        if row:
            found.append((_index(row), {**_ids(row), **_readings(row, sensor)}))
        elif name and found and "name" not in found[-1][1]:
            found[-1][1]["name"] = available(name[1])
        elif line.strip() and not line.lstrip().startswith(("=", "```")):
            refuse(TOOL, f"{shown(line)} is no row of the concise table")
        elif found:
            break
    return _unique(found)


def _unique(rows: list[tuple[int, Any]]) -> dict[int, Told]:
    found = dict(rows)
    if len(found) != len(rows):
        refuse(TOOL, "it tells of one GPU twice")
    return found


def _index(row: re.Match[str]) -> int:
    return whole(row["index"], TOOL, "device")


def _ids(row: re.Match[str]) -> dict[str, Any]:
    held = row.groupdict()
    part = available(held.get("part"))
    return {
        "device_id": held.get("did"),
        "card_model": held.get("model"),
        "node": whole(held["node"], TOOL, "node") if held.get("node") else None,
        "guid": whole(held["guid"], TOOL, "GUID") if held.get("guid") else None,
        "mem_partition": available(held.get("mem")),
        "compute_partition": available(held.get("compute")),
        "partition_id": whole(part, TOOL, "partition") if part else None,
    }


def _readings(row: re.Match[str], sensor: re.Match[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "power_w": measured(row["power"], "w", "power"),
        "power_cap_w": measured(row["cap"], "w", "power cap"),
        "vram_used_pct": measured(row["vram"], "pct", "VRAM%"),
        "gfx_util_pct": measured(row["busy"], "pct", "GPU%"),
        "sclk_mhz": measured(row["sclk"], "mhz", "SCLK"),
        "mclk_mhz": measured(row["mclk"], "mhz", "MCLK"),
    }
    warmth = measured(row["temp"], "c", "temperature")
    if sensor:
        found[f"temp_{sensor[1].lower()}_c"] = warmth
    return found


def hardware(printed: list[str]) -> Table | None:
    """Return the rows of ``--showhw``, None where there is no such table."""
    start = next(
        (i for i, line in enumerate(printed) if re.match(r"GPU\s+(NODE\s+)?DID\s", line)), None
    )
    if start is None:
        return None
    heading = re.split(r"\s{2,}", printed[start].strip())
    found = []
    for line in printed[start + 1 :]:
        if not line.strip() or line.startswith("="):
            break
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) != len(heading):
            refuse(TOOL, f"{shown(line)} has other columns than its heading")
        row = dict(zip(heading, cells, strict=True))
        found.append((whole(row["GPU"], TOOL, "GPU"), _hardware(row)))
    return Table(_unique(found), header=True)


def _hardware(row: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in row.items():
        field, kind = _HARDWARE.get(name, ("", ""))
        if kind == "count":
            found[field] = measured(cell, "count", field)
        elif kind:
            found[field] = available(cell)
    return found
