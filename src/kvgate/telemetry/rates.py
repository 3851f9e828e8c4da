"""Makes a sample of two snapshots: rates from counters, levels as they are, doubts as notes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from kvgate.telemetry.snapshot import Disk, Nic, Snapshot

Device = TypeVar("Device", Disk, Nic)

LATE = 1.5
"""An interval this many times the nominal one is a gap: at least one sample is missing."""


def sample(
    host: str,
    received_at: datetime.datetime,
    before: Snapshot | None,
    now: Snapshot,
    *,
    every_s: float,
) -> dict[str, Any]:
    """Return one telemetry sample as it is stored; ``utc`` is when the controller got it.

    Rates are per second of the host's uptime since the snapshot `before`, summed over whole
    disks and over all ports but loopback. A rate is None (never 0) where there is nothing to
    compare with or a counter went back; ``notes`` says which, and names gaps and restarts.
    """
    notes: list[str] = []
    span_s = now.uptime_s - before.uptime_s if before else 0.0
    if before is None:
        notes.append("first sample: no rates yet")
    elif span_s <= 0:
        notes.append("the host restarted: no rates")
        before = None
    elif span_s > LATE * every_s:
        notes.append(f"gap: {span_s:.2f} s since the sample before")
    return {
        "utc": received_at.isoformat(timespec="milliseconds"),
        "host": host,
        "host_clock_utc": datetime.datetime.fromtimestamp(now.clock_s, datetime.UTC).isoformat(
            timespec="milliseconds"
        ),
        "uptime_s": now.uptime_s,
        "interval_s": round(span_s, 2) if before else None,
        "load_1min": now.load_1min,
        "mem_total_bytes": now.mem_total_bytes,
        "mem_available_bytes": now.mem_available_bytes,
        "cpu_busy_pct": _cpu_busy_pct(before, now, notes),
        **_disk_rates(before, now, span_s, notes),
        **_nic_rates(before, now, span_s, notes),
        "notes": notes,
    }


def _cpu_busy_pct(before: Snapshot | None, now: Snapshot, notes: list[str]) -> float | None:
    """Return the share of time that was neither idle nor iowait (proc_stat(5)), all CPUs."""
    if before is None:
        return None
    spent = [b - a for a, b in zip(before.cpu, now.cpu, strict=True)]
    if any(ticks < 0 for ticks in spent):
        notes.append("cpu: a counter went back")
        return None
    total = sum(spent)
    if total == 0:
        notes.append("cpu: no tick since the sample before")
        return None
    return round(100 * (total - spent[3] - spent[4]) / total, 2)


def _disk_rates(
    before: Snapshot | None, now: Snapshot, span_s: float, notes: list[str]
) -> dict[str, float | None]:
    names = (
        "disk_read_bytes_per_s",
        "disk_write_bytes_per_s",
        "disk_read_iops",
        "disk_write_iops",
        "disk_busy_pct",
    )
    if before is None or not now.disks:
        return dict.fromkeys(names)
    moved = list(_moved("disk", before.disks, now.disks, _disk_counters, notes))
    if len(moved) < len(now.disks):  # a sum without one of them would be a lie
        return dict.fromkeys(names)
    read, written, reads, writes, busy_ms = (sum(column) for column in zip(*moved, strict=True))
    busy_pct = 100 * busy_ms / (1000 * span_s * len(moved))
    values = (read / span_s, written / span_s, reads / span_s, writes / span_s, busy_pct)
    return {name: round(value, 2) for name, value in zip(names, values, strict=True)}


def _nic_rates(
    before: Snapshot | None, now: Snapshot, span_s: float, notes: list[str]
) -> dict[str, float | None]:
    names = ("net_received_bytes_per_s", "net_sent_bytes_per_s")
    ports = {name: nic for name, nic in now.nics.items() if name != "lo"}
    if before is None or not ports:
        return dict.fromkeys(names)
    moved = list(_moved("port", before.nics, ports, _nic_counters, notes))
    if len(moved) < len(ports):
        return dict.fromkeys(names)
    return {
        name: round(sum(column) / span_s, 2)
        for name, column in zip(names, zip(*moved, strict=True), strict=True)
    }


def _disk_counters(disk: Disk) -> tuple[int, ...]:
    return disk.read_bytes, disk.written_bytes, disk.reads, disk.writes, disk.busy_ms


def _nic_counters(nic: Nic) -> tuple[int, ...]:
    return nic.received_bytes, nic.sent_bytes


def _moved(
    kind: str,
    before: Mapping[str, Device],
    now: Mapping[str, Device],
    counters: Callable[[Device], tuple[int, ...]],
    notes: list[str],
) -> Iterator[tuple[int, ...]]:
    """Yield what each device's counters moved by; note those that can't tell."""
    for name in sorted(now):
        if name not in before:
            notes.append(f"{kind} {name} is new")
            continue
        moved = tuple(
            b - a for a, b in zip(counters(before[name]), counters(now[name]), strict=True)
        )
        if any(count < 0 for count in moved):
            notes.append(f"{kind} {name}: a counter went back")
            continue
        yield moved
