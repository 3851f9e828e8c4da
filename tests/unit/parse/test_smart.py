import json
from collections.abc import Callable
from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.parse.smart import smart_log

Recorded = Callable[[str], bytes]
LOG: dict[str, Any] = {
    "critical_warning": 0,
    "temperature": 310,
    "avail_spare": 100,
    "spare_thresh": 10,
    "percent_used": 0,
    "media_errors": 0,
    "power_on_hours": 31,
}


def log(**changes: Any) -> bytes:
    return json.dumps({**LOG, **changes}).encode()


def test_a_new_drive(recorded: Recorded) -> None:
    found = smart_log(recorded("nvme_smart_log/composed-2.x-new-drive.json"))
    assert (found.critical_warning, found.media_errors, found.percentage_used) == (0, 0, 0)
    assert (found.available_spare_pct, found.power_on_hours) == (100, 31)
    assert (found.temperature_c, found.data_units_written) == (35, 1024)


def test_objects_texts_floats_and_128_bits(recorded: Recorded) -> None:
    found = smart_log(recorded("nvme_smart_log/composed-2.x-verbose.json"))
    assert (found.critical_warning, found.percentage_used, found.media_errors) == (4, 103, 7)
    assert found.temperature_c == 41
    assert (found.data_units_read, found.data_units_written) == (2**128 - 1, 136_157_680)
    assert (found.power_on_hours, found.unsafe_shutdowns) == (4974, 39)
    assert found.error_log_entries == 110
    assert found.warning_temp_min is None  # not printed, so not 0


def test_keys_differ_in_case_between_versions() -> None:
    told = {key: value for key, value in LOG.items() if key != "temperature"}
    told |= {"Temperature": 310, "critical_warning": {"Value": 1}}
    found = smart_log(json.dumps(told).encode())
    assert (found.temperature_c, found.critical_warning) == (37, 1)


def test_not_available_is_none_where_it_may_be() -> None:
    assert smart_log(log(data_units_written="N/A", temperature=0)).data_units_written is None
    assert smart_log(log(temperature=0)).temperature_c is None


@pytest.mark.parametrize(
    "changes",
    [
        {"media_errors": None},
        {"media_errors": "N/A"},
        {"media_errors": "1,5"},
        {"media_errors": 1.5},
        {"media_errors": -1},
        {"media_errors": True},
        {"media_errors": {"lo": 1}},
        {"media_errors": [1]},
        {"media_errors": 2**128},
        {"media_errors": float("nan")},
        {"media_errors": {"value": {}}},
        {"media_errors": 1e300},
        {"MEDIA_ERRORS": 3},
    ],
)
def test_a_counter_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ParseError, match="smart-log"):
        smart_log(log(**changes))


@pytest.mark.parametrize("name", sorted(set(LOG) - {"temperature"}))
def test_a_missing_counter_is_never_zero(name: str) -> None:
    told = {key: value for key, value in LOG.items() if key != name}
    with pytest.raises(ParseError, match=name):
        smart_log(json.dumps(told).encode())


@pytest.mark.parametrize("bad", [b"", b"[]", b"{}", b"NVMe status: 0x1\n{}", b"{", b"\xff{}"])
def test_refused(bad: bytes) -> None:
    with pytest.raises(ParseError, match="smart-log"):
        smart_log(bad)


def test_the_text_tells_the_same_units(recorded: Recorded) -> None:
    found = smart_log(recorded("nvme_smart_log/composed-2.x-text.txt"))
    assert (found.temperature_c, found.temperature_sensors_c) == (38, (38, 47))
    assert (found.data_units_read, found.data_units_written) == (1234, 136_157_684)
    assert (found.available_spare_pct, found.spare_threshold_pct) == (100, 10)
    assert (found.thermal_transitions_2, found.thermal_time_2_s) == (2, 7)
    assert (found.error_log_entries, found.power_cycles) == (110, 64)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"media_errors				: 0\n", b""),
        (b"media_errors				: 0", b"media_errors				: N/A"),
        (b"1,234 (", b"1,23 ("),
        (b"power_cycles				: 64", b"power_cycles				: -64"),
        (b"power_cycles				: 64\n", b"power_cycles : 64\npower_cycles : 65\n"),
        (b"power_cycles				: 64", b"power_cycles"),
    ],
)
def test_refused_text(recorded: Recorded, old: bytes, new: bytes) -> None:
    text = recorded("nvme_smart_log/composed-2.x-text.txt")
    assert old in text
    with pytest.raises(ParseError, match="smart-log"):
        smart_log(text.replace(old, new, 1))


def test_thermal_counters_and_sensors_of_json() -> None:
    found = smart_log(
        log(
            temperature_sensor_1=311,
            temperature_sensor_2=0,
            temperature_sensor_3=40,
            thm_temp1_trans_count="3",
        )
    )
    assert (found.temperature_sensors_c, found.thermal_transitions_1) == ((38, 40), 3)
    assert (found.thermal_time_1_s, found.host_read_commands) == (None, None)
