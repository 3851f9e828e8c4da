"""`smartctl --json -a`: model, serial number, capacity and health of a drive."""

from __future__ import annotations

import dataclasses
from typing import Any

from kvgate.parse import smarttext
from kvgate.parse.text import available, json_object, refuse, shown
from kvgate.parse.typed import count, flag, member, rows, words

TOOL = "smartctl"
NOT_OPENED = 0b11
"""Bits of smartctl's exit status: wrong options; the device could not be opened (smartctl(8))."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """A finished self-test of the drive's log."""

    kind: str | None
    result: str | None
    passed: bool | None
    power_on_hours: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """What smartctl reads; None where it prints nothing of the kind."""

    smartctl_version: str | None
    exit_status: int | None
    messages: tuple[str, ...]
    model: str | None
    serial: str | None
    firmware: str | None
    capacity_bytes: int | None
    smart_passed: bool | None
    critical_warning: int | None
    temperature_c: int | None
    temperature_sensors_c: tuple[int | None, ...]
    warning_temp_c: int | None
    critical_temp_c: int | None
    available_spare_pct: int | None
    spare_threshold_pct: int | None
    percentage_used: int | None
    data_units_read: int | None
    data_units_written: int | None
    power_cycles: int | None
    power_on_hours: int | None
    unsafe_shutdowns: int | None
    media_errors: int | None
    error_log_entries: int | None
    warning_temp_min: int | None
    critical_temp_min: int | None
    self_test_running: str | None
    self_tests: tuple[SelfTest, ...] | None  # None: the answer has no self-test log


def drive(answer: bytes, exit_code: int | None = None) -> Drive:
    """Parse smartctl's JSON (7.x) or text (6.x, 7.x; thousands grouped by any locale).

    The exit code is a set of bits; a failing drive is read like any other. Raises ParseError
    where the device was not opened, and where nothing says what drive it is.
    """
    opened(exit_code, ())
    if answer.lstrip().startswith(b"{"):
        found = _from_json(json_object(answer, TOOL), exit_code)
    else:
        found = Drive(exit_status=exit_code, self_tests=None, **smarttext.read(answer))
    if found.model is None and found.serial is None:
        refuse(TOOL, "it names neither model nor serial number" + _because(found.messages))
    return found


def opened(status: int | None, messages: tuple[str, ...]) -> None:
    """Raise ParseError where smartctl's exit status says that it read no drive."""
    if status is not None and status & NOT_OPENED:
        refuse(
            TOOL,
            f"exit status {status}: it opened no drive{_because(messages)}",
            hint="smartctl needs root, and the drive's device file",
        )


def _because(messages: tuple[str, ...]) -> str:
    return f": {'; '.join(messages)}" if messages else ""


def _from_json(document: dict[str, Any], exit_code: int | None) -> Drive:
    tool = member(document.get("smartctl"), TOOL, "smartctl")
    messages = tuple(
        words(row.get("string"), TOOL, "message") or ""
        for row in rows(tool.get("messages", []), TOOL, "messages")
    )
    status = count(tool.get("exit_status"), TOOL, "exit_status")
    opened(status, messages)
    return Drive(
        smartctl_version=_version(tool.get("version")),
        exit_status=exit_code if status is None else status,
        messages=messages,
        model=words(document.get("model_name"), TOOL, "model_name"),
        serial=words(document.get("serial_number"), TOOL, "serial_number"),
        firmware=words(document.get("firmware_version"), TOOL, "firmware_version"),
        capacity_bytes=_capacity(document),
        smart_passed=flag(_part(document, "smart_status").get("passed"), TOOL, "passed"),
        **_health(document),
        **_tests(_part(document, "nvme_self_test_log"), "nvme_self_test_log" in document),
    )


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    return member(document.get(name), TOOL, name)


def _version(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(part) is int for part in value):
        refuse(TOOL, f"its version is {shown(value)}, not a list of numbers")
    return ".".join(str(part) for part in value)


def _capacity(document: dict[str, Any]) -> int | None:
    total = count(document.get("nvme_total_capacity"), TOOL, "nvme_total_capacity")
    if total is not None:
        return total
    return count(_part(document, "user_capacity").get("bytes"), TOOL, "user_capacity.bytes")


def _health(document: dict[str, Any]) -> dict[str, Any]:
    log = _part(document, "nvme_smart_health_information_log")
    limits = _part(document, "nvme_composite_temperature_threshold")
    now = log.get("temperature", _part(document, "temperature").get("current"))
    hours = log.get("power_on_hours", _part(document, "power_on_time").get("hours"))
    sensors = log.get("temperature_sensors", [])
    if not isinstance(sensors, list):
        refuse(TOOL, f"temperature_sensors is {shown(sensors)}, not a list")

    def held(name: str) -> int | None:
        return count(log.get(name), TOOL, name)

    return {
        "critical_warning": held("critical_warning"),
        "temperature_c": _celsius(now, "temperature"),
        "temperature_sensors_c": tuple(_celsius(each, "a sensor") for each in sensors),
        "warning_temp_c": _celsius(limits.get("warning"), "warning"),
        "critical_temp_c": _celsius(limits.get("critical"), "critical"),
        "available_spare_pct": held("available_spare"),
        "spare_threshold_pct": held("available_spare_threshold"),
        "percentage_used": held("percentage_used"),
        "data_units_read": held("data_units_read"),
        "data_units_written": held("data_units_written"),
        "power_cycles": count(
            log.get("power_cycles", document.get("power_cycle_count")), TOOL, "power_cycles"
        ),
        "power_on_hours": count(hours, TOOL, "power_on_hours"),
        "unsafe_shutdowns": held("unsafe_shutdowns"),
        "media_errors": held("media_errors"),
        "error_log_entries": held("num_err_log_entries"),
        "warning_temp_min": held("warning_temp_time"),
        "critical_temp_min": held("critical_comp_time"),
    }


def _celsius(value: Any, name: str) -> int | None:
    """Return whole degrees; also below zero, which a counter never is."""
    if value is None or (isinstance(value, str) and available(value) is None):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and -274 < value < 1000:
        return value
    return refuse(TOOL, f"{name} is {shown(value)}, not a temperature in °C")


def _tests(log: dict[str, Any], told: bool) -> dict[str, Any]:
    running = member(log.get("current_self_test_operation"), TOOL, "current_self_test_operation")
    return {
        "self_test_running": words(running.get("string"), TOOL, "current_self_test_operation"),
        "self_tests": tuple(
            _test(row) for row in rows(log.get("table", []), TOOL, "nvme_self_test_log.table")
        )
        if told
        else None,
    }


def _test(row: dict[str, Any]) -> SelfTest:
    kind = member(row.get("self_test_code"), TOOL, "self_test_code")
    result = member(row.get("self_test_result"), TOOL, "self_test_result")
    value = count(result.get("value"), TOOL, "self_test_result")
    return SelfTest(
        kind=words(kind.get("string"), TOOL, "self_test_code"),
        result=words(result.get("string"), TOOL, "self_test_result"),
        passed=None if value is None else value == 0,  # 0h: completed without error (NVMe 5.16.1.7)
        power_on_hours=count(row.get("power_on_hours"), TOOL, "power_on_hours"),
    )


TOOLS = {"smartctl": drive}
