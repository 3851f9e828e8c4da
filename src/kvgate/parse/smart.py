"""`nvme smart-log`: the health of an NVMe drive (NVMe Base Specification, log page 02h)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import available, json_object, lines, refuse, shown
from kvgate.parse.typed import count, grouped

TOOL = "nvme smart-log"
DATA_UNIT_BYTES = 512_000
"""A data unit is 1,000 blocks of 512 bytes (NVMe Base Specification, log page 02h)."""

KELVIN = 273
"""nvme-cli prints the log page's Kelvin; it and this parser take off 273, as the tool does."""

_COLDEST_K = 200  # no drive is that cold, none that hot in °C: tells the two scales apart
_SENSORS = 8  # of the log page

_HEADING = re.compile(r"Smart Log for NVME device:.*", re.IGNORECASE)
_LINE = re.compile(r"\s*([A-Za-z][\w \[\]]{1,50}?)\s*:\s*(.*)")
_KELVIN = re.compile(r".*\(([0-9]{1,5}) (?:K|Kelvin)\)")
_AMOUNT = re.compile(
    r"(0x[0-9a-fA-F]{1,32}|[0-9][0-9.,'’\u00a0\u202f]{0,60}?)(?:\s?%| ?°?\s?C)?(?:\s.*)?"
)
_JSON_NAME = {
    "available_spare": "avail_spare",
    "available_spare_threshold": "spare_thresh",
    "percentage_used": "percent_used",
    "warning_temperature_time": "warning_temp_time",
    "critical_composite_temperature_time": "critical_comp_time",
    "thermal_management_t1_trans_count": "thm_temp1_trans_count",
    "thermal_management_t2_trans_count": "thm_temp2_trans_count",
    "thermal_management_t1_total_time": "thm_temp1_total_time",
    "thermal_management_t2_total_time": "thm_temp2_total_time",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SmartLog:
    """The log page; counters as the drive holds them, None where the tool prints none."""

    critical_warning: int
    temperature_c: int | None
    available_spare_pct: int
    spare_threshold_pct: int
    percentage_used: int
    media_errors: int
    power_on_hours: int
    data_units_written: int | None
    data_units_read: int | None
    unsafe_shutdowns: int | None
    error_log_entries: int | None
    warning_temp_min: int | None
    critical_temp_min: int | None
    temperature_sensors_c: tuple[int, ...]  # those that the drive has
    host_read_commands: int | None
    host_write_commands: int | None
    controller_busy_min: int | None
    power_cycles: int | None
    thermal_transitions_1: int | None  # times it throttled itself, light and heavy
    thermal_transitions_2: int | None
    thermal_time_1_s: int | None
    thermal_time_2_s: int | None


def smart_log(answer: bytes) -> SmartLog:
    """Parse the JSON or the text of nvme-cli 1.x and 2.x.

    Counters come as integers, floats without fraction, texts, or an object (``critical_warning``
    of ``--verbose``); keys differ in case between versions; the text groups thousands by locale.
    """
    heading = answer.lstrip()[:20].lower().startswith(b"smart log for")
    told = _from_text(answer) if heading else _from_json(answer)

    def needed(name: str) -> int:
        found = perhaps(name)
        return refuse(TOOL, f"it has no {name}") if found is None else found

    def perhaps(name: str) -> int | None:
        return count(told.get(name), TOOL, name)

    return SmartLog(
        critical_warning=needed("critical_warning"),
        temperature_c=_celsius(perhaps("temperature")),
        available_spare_pct=needed("avail_spare"),
        spare_threshold_pct=needed("spare_thresh"),
        percentage_used=needed("percent_used"),
        media_errors=needed("media_errors"),
        power_on_hours=needed("power_on_hours"),
        data_units_written=perhaps("data_units_written"),
        data_units_read=perhaps("data_units_read"),
        unsafe_shutdowns=perhaps("unsafe_shutdowns"),
        error_log_entries=perhaps("num_err_log_entries"),
        warning_temp_min=perhaps("warning_temp_time"),
        critical_temp_min=perhaps("critical_comp_time"),
        temperature_sensors_c=_sensors(told),
        host_read_commands=perhaps("host_read_commands"),
        host_write_commands=perhaps("host_write_commands"),
        controller_busy_min=perhaps("controller_busy_time"),
        power_cycles=perhaps("power_cycles"),
        thermal_transitions_1=perhaps("thm_temp1_trans_count"),
        thermal_transitions_2=perhaps("thm_temp2_trans_count"),
        thermal_time_1_s=perhaps("thm_temp1_total_time"),
        thermal_time_2_s=perhaps("thm_temp2_total_time"),
    )


def _from_json(answer: bytes) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for key, value in json_object(answer, TOOL).items():
        if told.setdefault(key.lower(), value) is not value:
            refuse(TOOL, f"'{key}' stands twice")
    return told


def _from_text(answer: bytes) -> dict[str, Any]:
    """Return the text's lines under the names of the JSON, numbers without their units."""
    told: dict[str, Any] = {}
    for line in lines(answer, TOOL):
        if not line.strip() or _HEADING.fullmatch(line):
            continue
        match = _LINE.fullmatch(line)
        if not match:
            refuse(TOOL, f"{shown(line)} is no 'name : value'")
        name = re.sub(r"[\s_]+", "_", match[1].strip().lower())
        name = _JSON_NAME.get(name, name)
        if name.endswith("]"):  # a bit of critical_warning, of --human-readable: "[0:0] : 0 …"
            continue
        value = _amount(match[2], name)
        if told.setdefault(name, value) != value:
            refuse(TOOL, f"'{name}' stands twice")
    return told


def _amount(text: str, name: str) -> int | str | None:
    if available(text) is None:
        return None
    kelvin = _KELVIN.fullmatch(text) if name.startswith("temperature") else None
    if kelvin:
        return int(kelvin[1])
    match = _AMOUNT.fullmatch(text)
    if not match:
        refuse(TOOL, f"{name} is {shown(text)}, not a number")
    return match[1] if match[1].startswith("0x") else grouped(match[1], TOOL, name)


def _sensors(told: Mapping[str, Any]) -> tuple[int, ...]:
    names = [f"temperature_sensor_{number}" for number in range(1, _SENSORS + 1)]
    found = [_celsius(count(told.get(name), TOOL, name)) for name in names]
    return tuple(each for each in found if each is not None)


def _celsius(told: int | None) -> int | None:
    if told is None or told == 0:  # 0 K: the drive reports no temperature
        return None
    return told - KELVIN if told > _COLDEST_K else told


TOOLS = {"nvme_smart_log": reads("nvme_smart_log", smart_log)}
