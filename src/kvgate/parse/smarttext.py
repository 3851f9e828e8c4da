"""smartctl's text form, which older versions have alone: its lines by the names of `Drive`."""

from __future__ import annotations

import re
from typing import Any

from kvgate.parse.text import available, lines, refuse, shown
from kvgate.parse.typed import grouped, hexed

TOOL = "smartctl"
_VERSION = re.compile(r"smartctl (?:pre-)?([0-9]{1,2}\.[0-9]{1,2}) .*")
_LINE = re.compile(r"([A-Za-z][^:]{2,60}?):\s+(.*)")
_FAILED = re.compile(
    r"(?:Read|Smartctl|Write|Probable|Error) .*(?:failed|error|:).*", re.IGNORECASE
)
_AMOUNT = re.compile(r"([0-9][0-9.,'’\u00a0\u202f ]{0,60}?)(?:%| bytes)?(?: \[.*)?")
_CELSIUS = re.compile(r"(-?[0-9]{1,3}) Celsius(?: .*)?")
_SENSOR = re.compile(r"Temperature Sensor ([1-8])")
_VERDICT = {"PASSED": True, "OK": True, "FAILED!": False}

_TEXTS = {
    "model": ("Model Number", "Device Model", "Product"),
    "serial": ("Serial Number", "Serial number"),
    "firmware": ("Firmware Version", "Revision"),
    "self_test_running": ("Self-test status",),
}
_AMOUNTS = {
    "capacity_bytes": ("Total NVM Capacity", "User Capacity", "Namespace 1 Size/Capacity"),
    "available_spare_pct": ("Available Spare",),
    "spare_threshold_pct": ("Available Spare Threshold",),
    "percentage_used": ("Percentage Used",),
    "data_units_read": ("Data Units Read",),
    "data_units_written": ("Data Units Written",),
    "power_cycles": ("Power Cycles",),
    "power_on_hours": ("Power On Hours",),
    "unsafe_shutdowns": ("Unsafe Shutdowns",),
    "media_errors": ("Media and Data Integrity Errors",),
    "error_log_entries": ("Error Information Log Entries",),
    "warning_temp_min": ("Warning Comp. Temperature Time",),
    "critical_temp_min": ("Critical Comp. Temperature Time",),
}
_DEGREES = {
    "temperature_c": ("Temperature",),
    "warning_temp_c": ("Warning Comp. Temp. Threshold",),
    "critical_temp_c": ("Critical Comp. Temp. Threshold",),
}
_STATUS = ("SMART overall-health self-assessment test result", "SMART Health Status")


def read(answer: bytes) -> dict[str, Any]:
    """Return the fields of `smartctl.Drive` but exit status and self-test log, from the text."""
    printed = lines(answer, TOOL)
    versions = [match[1] for line in printed if (match := _VERSION.fullmatch(line))]
    told = _by_name(printed)
    status = _first(told, _STATUS)
    if status is not None and status.split(" ")[0] not in _VERDICT:
        refuse(TOOL, f"the health is {shown(status)}, neither PASSED nor FAILED")
    warning = _first(told, ("Critical Warning",))
    return {
        "smartctl_version": versions[0] if versions else None,
        "messages": tuple(
            line.strip()
            for line in printed
            if _FAILED.fullmatch(line.strip()) and not _LINE.fullmatch(line.strip())
        ),
        "smart_passed": None if status is None else _VERDICT[status.split(" ")[0]],
        "critical_warning": None if warning is None else hexed(warning, TOOL, "critical warning"),
        "temperature_sensors_c": _sensors(told),
        **{field: _first(told, names) for field, names in _TEXTS.items()},
        **{field: _amount(_first(told, names), field) for field, names in _AMOUNTS.items()},
        **{field: _degrees(_first(told, names), field) for field, names in _DEGREES.items()},
    }


def _by_name(printed: list[str]) -> dict[str, str]:
    """Return what stands behind each name; one that is told twice, and differently, is refused."""
    used = {
        name
        for names in (*_TEXTS.values(), *_AMOUNTS.values(), *_DEGREES.values(), _STATUS)
        for name in names
    } | {"Critical Warning"}
    told: dict[str, str] = {}
    for line in printed:
        match = _LINE.fullmatch(line)
        if not match:
            continue
        name, value = re.sub(r" +", " ", match[1]), match[2].strip()
        if name not in used and not _SENSOR.fullmatch(name):
            continue
        if told.setdefault(name, value) != value:
            refuse(TOOL, f"'{name}' is {shown(told[name])} and also {shown(value)}")
    return told


def _first(told: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((found for name in names if (found := available(told.get(name)))), None)


def _amount(told: str | None, field: str) -> int | None:
    if told is None:
        return None
    match = _AMOUNT.fullmatch(told)
    return grouped(match[1] if match else told, TOOL, field)


def _degrees(told: str | None, field: str) -> int | None:
    if told is None:
        return None
    match = _CELSIUS.fullmatch(told)
    if not match:
        refuse(TOOL, f"{field} is {shown(told)}, not degrees Celsius")
    return int(match[1])


def _sensors(told: dict[str, str]) -> tuple[int | None, ...]:
    names = sorted(name for name in told if _SENSOR.fullmatch(name))
    return tuple(_degrees(available(told[name]), name) for name in names)
