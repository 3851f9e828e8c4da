"""`nvme smart-log -o json`: the health of an NVMe drive (NVMe Base Specification, log page 02h)."""

from __future__ import annotations

import dataclasses
import decimal
from typing import Any

from kvgate.parse.text import available, json_object, refuse, shown, whole

TOOL = "nvme smart-log"
DATA_UNIT_BYTES = 512_000
"""A data unit is 1,000 blocks of 512 bytes (NVMe Base Specification, log page 02h)."""

KELVIN = 273
"""nvme-cli prints the log page's Kelvin; it and this parser take off 273, as the tool does."""

_COLDEST_K = 200  # no drive is that cold, none that hot in °C: tells the two scales apart
_MOST_DIGITS = 39


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


def smart_log(answer: bytes) -> SmartLog:
    """Parse the JSON of nvme-cli 1.x and 2.x.

    Counters come as integers, floats without fraction, texts, or an object (``critical_warning``
    of ``--verbose``); keys differ in case between versions.
    """
    told: dict[str, Any] = {}
    for key, value in json_object(answer, TOOL).items():
        if told.setdefault(key.lower(), value) is not value:
            refuse(TOOL, f"'{key}' stands twice")

    def needed(name: str) -> int:
        found = _counter(told.get(name), name)
        return refuse(TOOL, f"it has no {name}") if found is None else found

    def perhaps(name: str) -> int | None:
        return _counter(told.get(name), name)

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
    )


def _counter(value: Any, name: str) -> int | None:
    if value is None or (isinstance(value, str) and available(value) is None):
        return None
    if isinstance(value, bool):
        refuse(TOOL, f"{name} is {shown(value)}, not a number")
    if isinstance(value, int):
        return whole(str(value), TOOL, name) if value.bit_length() < 128 else _odd(value, name)
    if isinstance(value, decimal.Decimal):
        small = value.is_finite() and value.adjusted() < _MOST_DIGITS
        whole_number = small and value >= 0 and value == value.to_integral_value()
        return int(value) if whole_number else _odd(value, name)
    if isinstance(value, str):
        return whole(value, TOOL, name)
    if isinstance(value, dict):
        held = {key.lower(): part for key, part in value.items()}
        if "value" in held and not isinstance(held["value"], dict):
            return _counter(held["value"], f"{name}.value")
    return _odd(value, name)


def _odd(value: object, name: str) -> int:
    return refuse(TOOL, f"{name} is {shown(value)}, not a counter")


def _celsius(told: int | None) -> int | None:
    if told is None or told == 0:  # 0 K: the drive reports no temperature
        return None
    return told - KELVIN if told > _COLDEST_K else told
