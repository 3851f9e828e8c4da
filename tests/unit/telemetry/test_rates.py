from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest

from kvgate.telemetry.rates import sample
from kvgate.telemetry.snapshot import Disk, Nic, Snapshot

AT = datetime.datetime(2026, 12, 31, 23, 59, 59, 500000, tzinfo=datetime.UTC)
BEFORE = Snapshot(
    uptime_s=100.0, clock_s=1767225599.5, cpu=(100, 0, 50, 900, 20, 0, 0, 0), load_1min=0.5,
    mem_total_bytes=1000, mem_available_bytes=400,
    disks={"a": Disk(10, 1000, 20, 2000, 100), "b": Disk(0, 0, 0, 0, 0)},
    nics={"eth0": Nic(1000, 2000), "lo": Nic(5, 5)},
)  # fmt: skip
NOW = dataclasses.replace(
    BEFORE, uptime_s=102.0, cpu=(120, 0, 60, 960, 30, 0, 0, 0),
    disks={"a": Disk(30, 5000, 20, 2000, 1100), "b": Disk(2, 512, 4, 1024, 0)},
    nics={"eth0": Nic(3000, 2500), "lo": Nic(5000, 5000)},
)  # fmt: skip


def made(before: Snapshot | None, now: Snapshot, every_s: float = 2.0) -> dict[str, Any]:
    return sample("ini1", AT, before, now, every_s=every_s)


def test_rates_are_deltas_over_the_hosts_own_time() -> None:
    found = made(BEFORE, NOW)
    assert found == {
        "utc": "2026-12-31T23:59:59.500+00:00", "host": "ini1",
        "host_clock_utc": "2025-12-31T23:59:59.500+00:00", "uptime_s": 102.0, "interval_s": 2.0,
        "load_1min": 0.5, "mem_total_bytes": 1000, "mem_available_bytes": 400,
        "cpu_busy_pct": 30.0,
        "disk_read_bytes_per_s": 2256.0, "disk_write_bytes_per_s": 512.0,
        "disk_read_iops": 11.0, "disk_write_iops": 2.0, "disk_busy_pct": 25.0,
        "net_received_bytes_per_s": 1000.0, "net_sent_bytes_per_s": 250.0,
        "notes": [],
    }  # fmt: skip


RATES = {
    "cpu_busy_pct", "disk_read_bytes_per_s", "disk_write_bytes_per_s", "disk_read_iops",
    "disk_write_iops", "disk_busy_pct", "net_received_bytes_per_s", "net_sent_bytes_per_s",
}  # fmt: skip


def none_of(found: dict[str, Any]) -> set[str]:
    return {name for name in RATES if found[name] is None}


def test_the_first_sample_has_no_rates() -> None:
    found = made(None, NOW)
    assert none_of(found) == RATES
    assert (found["notes"], found["interval_s"]) == (["first sample: no rates yet"], None)
    assert found["mem_available_bytes"] == 400


def test_a_restarted_host_has_no_rates() -> None:
    found = made(NOW, dataclasses.replace(NOW, uptime_s=3.0))
    assert none_of(found) == RATES
    assert found["notes"] == ["the host restarted: no rates"]


def test_a_gap_is_noted_and_rates_span_it() -> None:
    found = made(BEFORE, NOW, every_s=1.0)
    assert found["notes"] == ["gap: 2.00 s since the sample before"]
    assert found["cpu_busy_pct"] == 30.0
    assert made(BEFORE, dataclasses.replace(NOW, uptime_s=101.5), every_s=1.0)["notes"] == []


@pytest.mark.parametrize(
    ("change", "note", "gone"),
    [
        ({"cpu": (120, 0, 60, 899, 30, 0, 0, 0)}, "cpu: a counter went back", {"cpu_busy_pct"}),
        ({"cpu": BEFORE.cpu}, "cpu: no tick since the sample before", {"cpu_busy_pct"}),
        ({"disks": {"a": Disk(9, 5000, 20, 2000, 1100)}}, "disk a: a counter went back",
         {name for name in RATES if name.startswith("disk")}),
        ({"disks": NOW.disks | {"c": Disk(1, 1, 1, 1, 1)}}, "disk c is new",
         {name for name in RATES if name.startswith("disk")}),
        ({"nics": {"eth0": Nic(999, 2500)}}, "port eth0: a counter went back",
         {name for name in RATES if name.startswith("net")}),
    ],
)  # fmt: skip
def test_a_doubtful_counter_is_none_with_a_note(
    change: dict[str, Any], note: str, gone: set[str]
) -> None:
    found = made(BEFORE, dataclasses.replace(NOW, **change))
    assert found["notes"] == [note]
    assert none_of(found) == gone


def test_without_disks_or_ports_there_is_none_not_zero() -> None:
    found = made(BEFORE, dataclasses.replace(NOW, disks={}, nics={"lo": Nic(9, 9)}))
    assert none_of(found) == RATES - {"cpu_busy_pct"}
