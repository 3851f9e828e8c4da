import datetime

import hypothesis
import pytest
from hypothesis import strategies as st

from kvgate.model.quantity import UNITS, Quantity
from kvgate.report import show


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("1234567890 B/s", "1.23 GB/s"),
        ("1234567890 B", "1.23 GB"),
        ("1288490188.8 B", "1.29 GB"),
        ("65842324 KiB", "62.8 GiB"),
        ("64 GiB", "64 GiB"),
        ("1024 MiB/s", "1 GiB/s"),
        ("24310000 ns", "24.3 ms"),
        ("0.00151 s", "1.51 ms"),
        ("350 us", "350 µs"),
        ("90 s", "90 s"),
        ("260000 s", "72.2 h"),
        ("0 B/s", "0 B/s"),
        ("12.5 %", "12.5 %"),
        ("4.4213 x", "4.42 ×"),
        ("100000000000 bit/s", "100 Gb/s"),
        ("152340 IOPS", "152 kIOPS"),
        ("1536", "1536"),
        ("999.9 MB/s", "1000 MB/s"),
    ],
)
def test_quantities_read_well(written: str, shown: str) -> None:
    assert show.quantity(Quantity.parse(written)).text == shown


def test_the_exact_value_is_kept_where_it_differs() -> None:
    assert show.quantity(Quantity.parse("1234567890 B/s")).exact == "1234567890 B/s"
    assert show.quantity(Quantity.parse("64 GiB")).exact == ""


@pytest.mark.parametrize(
    ("measured", "limit", "shown"),
    [
        ("1.5004 ms", "at most 1.5 ms", "1.5004 ms"),
        ("1.4996 ms", "at most 1.5 ms", "1.4996 ms"),
        ("1.5 ms", "at most 1.5 ms", "1.5 ms"),
        ("1.8214 ms", "at most 50 ms", "1.82 ms"),
        ("199999999 B/s", "at least 200 MB/s", "199.999999 MB/s"),
    ],
)
def test_rounding_never_crosses_the_limit(measured: str, limit: str, shown: str) -> None:
    assert show.text(measured, near=show.quantities_in(limit)).text == shown


@hypothesis.given(st.integers(1, 10**16), st.sampled_from(sorted(UNITS)), st.integers(1, 10**16))
def test_shown_is_close_and_on_the_same_side(number: int, unit: str, other: int) -> None:
    value, limit = Quantity.of(number, unit), Quantity.of(other, unit)
    shown = show.quantity(value, near=[limit]).text
    back = Quantity.parse(shown.replace("µs", "us").replace("×", "x").replace("°C", "degC"))
    assert abs(back.base - value.base) <= value.base / 100
    assert (back > limit) == (value > limit)
    assert (back < limit) == (value < limit)


@pytest.mark.parametrize(
    "text", ["6.1.0-28-amd64", "22.04", "20240101", "yes", "", "12 monkeys", "1e5", "FW 1.2 ms"]
)
def test_texts_that_are_no_quantity_stay(text: str) -> None:
    assert show.text(text) == show.Shown(text)


def test_values() -> None:
    assert show.value(True).text == "yes"
    assert show.value(False).text == "no"
    assert show.value("X710").text == "X710"
    assert show.value(Quantity.parse("5000 MB/s")).text == "5 GB/s"


@pytest.mark.parametrize(
    ("limit", "found"),
    [
        ("at most 1.5 ms", ["1.5 ms"]),
        ("within 1 GB/s and 2 GB/s", ["1 GB/s", "2 GB/s"]),
        ("matches inventory within 5 %", ["5 %"]),
        ("one of 6.1.0-28-amd64, 6.8.0-48-generic", []),
    ],
)
def test_quantities_in_a_limit(limit: str, found: list[str]) -> None:
    with_unit = [each for each in show.quantities_in(limit) if each.unit]
    assert with_unit == [Quantity.parse(each) for each in found]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0004, "0 ms"),
        (0.85, "850 ms"),
        (41.23, "41.2 s"),
        (99.97, "1 min 40 s"),
        (185, "3 min 05 s"),
        (3599.9, "1 h 00 min"),
        (259200, "72 h 00 min"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert show.duration(seconds) == shown


def test_moments_are_shown_in_utc_whatever_zone_they_came_in() -> None:
    east = datetime.datetime(
        2026, 5, 12, 16, 15, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=8))
    )
    assert show.clock(east) == "2026-05-12 08:15:30 UTC"
    assert show.clock("2026-05-12T08:15:30.123456Z") == "2026-05-12 08:15:30 UTC"
