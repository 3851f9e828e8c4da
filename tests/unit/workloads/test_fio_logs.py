"""fio's logs: bounded, fetched, read; what they lack is said, and what is no log is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fiopy
from fiopy import Job, Pattern
from fiopy.logfiles import log_files
from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.workloads import fio_logs

BINS = 1856 >> fio_logs.COARSENESS


def job(runtime_s: float) -> Job:
    return Job(
        name="j",
        pattern=Pattern.READ,
        filename="/s/f",
        size_bytes=2**30,
        runtime_s=runtime_s,
        jobs=8,
    )


def lines(times_ms: list[int], direction: int = 0, ns: int = 1_000_000) -> bytes:
    return b"".join(b"%d, %d, %d, 0, 0\n" % (at, ns, direction) for at in times_ms)


def histogram(
    times_ms: list[int], direction: int = 0, *, slot: int = 100, count: int = 200
) -> bytes:
    rows = []
    for at in times_ms:
        counts = [0] * BINS
        counts[slot] = count
        rows.append(", ".join(map(str, (at, direction, 4096, *counts))) + "\n")
    return "".join(rows).encode()


def text(lat: bytes, hist: bytes) -> bytes:
    return b"== log_lat.log\n" + lat + b"== log_clat_hist.log\n" + hist


@pytest.mark.parametrize("runtime_s", [0.4, 4, 600, 72 * 3600])
def test_logs_are_bounded_whatever_the_runtime(runtime_s: float) -> None:
    (logged,) = fio_logs.logged([job(runtime_s)], "/s/x")
    assert logged.log_every_ms is not None
    assert logged.histogram_every_ms is not None
    assert runtime_s * 1000 / logged.log_every_ms <= 6000
    assert runtime_s * 1000 / logged.histogram_every_ms <= 100
    assert fio_logs.paths([logged]) == ("/s/x/log_lat.log", "/s/x/log_clat_hist.log")
    assert log_files([logged], "clat") == ("/s/x/log_clat.log",)


def told(directions: tuple[str, ...], said: bytes | str) -> dict[str, object]:
    return {each.name: each.problem or each.value for each in fio_logs.readings(directions, said)}


def test_the_longest_gap_and_the_highest_p99_of_a_window() -> None:
    times = [*range(100, 1100, 100), *range(2600, 3100, 100)]
    hist = histogram([250, 500, 750]) + histogram([1000], slot=120)
    found = told(("read",), text(lines(times), hist))
    assert found["fio.longest_gap"] == Quantity.of(1600, "ms"), "from 1000 to 2600"
    peak = found["fio.read_clat_p99_peak"]
    assert isinstance(peak, Quantity)
    upper = fiopy.bins.Layout.of(BINS).upper_ns(120)
    assert peak.base * 10**9 == upper


def test_a_log_tells_no_gap_shorter_than_its_windows() -> None:
    found = told(("read",), text(lines([100, 200, 300]), histogram([250])))
    assert found["fio.longest_gap"] == Quantity.of(100, "ms")


@pytest.mark.parametrize(
    ("counts", "ratio"),
    [
        ((100, 100, 100, 100), "1 x"),
        ((100, 100, 50, 50), "0.5 x"),
        ((10, 20, 30, 40), "2.333333 x"),
        ((10, 10, 10, 10, 999), "1 x"),  # an odd one at the end
        ((0, 0, 10, 10), None),
        ((10, 10, 10), None),
        ((10, 0, 0, 0), "0 x"),
    ],
)
def test_the_second_half_is_told_against_the_first(
    counts: tuple[int, ...], ratio: str | None
) -> None:
    """A run that rises or falls is no steady state; a few windows tell nothing of it."""
    hist = b"".join(histogram([250 * at + 5], count=count) for at, count in enumerate(counts, 1))
    found = told(("read",), text(lines([250 * len(counts)]), hist))["fio.second_half"]
    if ratio is None:
        assert "fewer than 4 windows" in str(found)
    else:
        assert found == Quantity.parse(ratio)


def test_a_window_of_too_few_has_no_p99() -> None:
    found = told(("read", "write"), text(lines([100]), histogram([250], count=99)))
    assert found["fio.read_clat_p99_peak"] == "no window of 250 ms has the I/Os that a p99 takes"
    assert found["fio.write_clat_p99_peak"] == found["fio.read_clat_p99_peak"]


@pytest.mark.parametrize(
    ("said", "because"),
    [
        ("fio left no whole logs", "fio left no whole logs"),
        (b"", "not one of latencies and one of histograms"),
        (text(b"", histogram([250])), "log 1 is empty"),
        (text(lines([100]), b"1, 2\n"), "no line of a histogram log"),
        (text(b"soon, 1, 0, 0, 0\n", histogram([250])), "fio's logs: "),
        (text(lines([100])[:-3], histogram([250])), "fio's logs: "),
    ],
)
def test_what_is_no_log_is_told_as_such(said: bytes | str, because: str) -> None:
    found = told(("read",), said)
    assert all(because in str(each) for each in found.values())
    assert set(found) == {"fio.longest_gap", "fio.second_half", "fio.read_clat_p99_peak"}


WHOLE = text(lines(list(range(100, 900, 100))), histogram([250, 500, 750]))


@given(st.integers(0, len(WHOLE)), st.binary(max_size=20), st.integers(0, 40))
def test_mutated_logs_raise_only_parse_errors(at: int, new: bytes, gone: int) -> None:
    try:
        logs = fio_logs.told(WHOLE[:at] + new + WHOLE[at + gone :])
    except ParseError:
        return
    assert fio_logs.longest_ms(logs.course) >= 1
