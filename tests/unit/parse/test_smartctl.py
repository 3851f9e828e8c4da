import json
from collections.abc import Callable
from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.parse.smartctl import drive

Recorded = Callable[[str], bytes]
JSON, TEXT = "smartctl/composed-7.4-nvme.json", "smartctl/composed-7.4-nvme_german.txt"


def test_json_of_a_failing_drive_is_read(recorded: Recorded) -> None:
    found = drive(recorded(JSON), 8)  # bit 3: DISK FAILING
    assert (found.model, found.serial, found.firmware) == (
        "Example SSD 7.68TB",
        "EXS0000000001",
        "EX10",
    )
    assert (found.smart_passed, found.exit_status, found.critical_warning) == (False, 8, 4)
    assert (found.temperature_c, found.temperature_sensors_c) == (-3, (41, None, 38))
    assert (found.warning_temp_c, found.critical_temp_c) == (78, 85)
    assert (found.capacity_bytes, found.data_units_read) == (7_681_501_126_656, 2**128 - 1)
    assert found.messages == ("Warning: this is an example",)
    assert found.self_tests
    assert [(t.kind, t.passed, t.power_on_hours) for t in found.self_tests] == [
        ("Short", True, 30),
        ("Extended", False, 29),
    ]


def test_text_with_german_thousands(recorded: Recorded) -> None:
    found = drive(recorded(TEXT), 0)
    assert (found.smartctl_version, found.smart_passed) == ("7.4", True)
    assert (found.capacity_bytes, found.data_units_read) == (7_681_501_126_656, 1024)
    assert (found.data_units_written, found.power_on_hours) == (12_345_678, 1031)
    assert (found.temperature_c, found.temperature_sensors_c) == (36, (36, 41))
    assert found.self_tests is None


@pytest.mark.parametrize(
    "name",
    [
        "smart_passed",
        "percentage_used",
        "media_errors",
        "temperature_c",
        "power_on_hours",
        "critical_warning",
        "self_tests",
    ],
)
def test_what_a_cut_text_lacks_is_none_never_0(recorded: Recorded, name: str) -> None:
    found = drive(recorded(TEXT).split(b"=== START OF SMART DATA")[0])
    assert found.model == "Example SSD 7.68TB"
    assert getattr(found, name) is None


def changed(recorded: Recorded, **changes: Any) -> bytes:
    return json.dumps(json.loads(recorded(JSON)) | changes).encode()


def test_what_json_lacks_is_none(recorded: Recorded) -> None:
    found = drive(
        changed(
            recorded,
            nvme_smart_health_information_log=None,
            smart_status=None,
            nvme_total_capacity="N/A",
            user_capacity={},
        )
    )
    assert (found.percentage_used, found.smart_passed, found.capacity_bytes) == (None, None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"smartctl": {"exit_status": 2}},
        {"smartctl": {"version": [7, None]}},
        {"smartctl": []},
        {"smart_status": {"passed": "yes"}},
        {"nvme_smart_health_information_log": [1]},
        {"nvme_smart_health_information_log": {"temperature": 1.5}},
        {"nvme_smart_health_information_log": {"temperature": 5000}},
        {"nvme_smart_health_information_log": {"temperature_sensors": 4}},
        {"nvme_smart_health_information_log": {"media_errors": -1}},
        {"model_name": None, "serial_number": None},
        {"model_name": 4},
        {"nvme_self_test_log": {"table": {}}},
    ],
)
def test_refused_json(recorded: Recorded, changes: dict[str, Any]) -> None:
    with pytest.raises(ParseError, match="smartctl"):
        drive(changed(recorded, **changes))


def test_a_device_that_was_not_opened_is_refused_with_the_reason(recorded: Recorded) -> None:
    with pytest.raises(ParseError, match="Unable to detect device type"):
        drive(recorded("smartctl/smartctl-7.3-not_opened.json"))


@pytest.mark.parametrize("code", [1, 2, 3, 127])
def test_exit_codes_without_a_drive(recorded: Recorded, code: int) -> None:
    with pytest.raises(ParseError, match=f"exit status {code}"):
        drive(recorded(TEXT), code)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"36 Celsius", b"36 Kelvin"),
        (b"result: PASSED", b"result: MAYBE"),
        (b"0x00", b"0xzz"),
        (b"1.031", b"1.0311"),
        (b"100%", b"100 of 100"),
        (b"12.345.678", b"12.345,678"),
        (b"Power Cycles:                       9\n", b"Power Cycles: 9\nPower Cycles: 8\n"),
    ],
)
def test_refused_text(recorded: Recorded, old: bytes, new: bytes) -> None:
    assert old in recorded(TEXT)
    with pytest.raises(ParseError, match="smartctl"):
        drive(recorded(TEXT).replace(old, new))


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"smartctl 7.4 2023-08-01 r5530 [x] (y)\n"])
def test_nothing_of_a_drive_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError, match="smartctl"):
        drive(answer)
