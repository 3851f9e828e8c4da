"""Parses what the sampler prints: counters and levels of one host at one moment."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from kvgate.errors import ParseError
from kvgate.telemetry.script import BEGIN, END

SNAPSHOT_CAP_BYTES = 4 * 2**20
"""The most one snapshot may hold; a host that prints more without an end is not sampling."""

SECTOR_BYTES = 512
"""What /proc/diskstats counts in, whatever the device's own sectors are (kernel iostats.rst)."""

_STACKED = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)\d+")
"""Devices that pass their work on to others, or to memory: counting them would count twice."""


@dataclasses.dataclass(frozen=True, slots=True)
class Disk:
    """Counters of one whole disk since boot, and the milliseconds it was busy."""

    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    busy_ms: int


@dataclasses.dataclass(frozen=True, slots=True)
class Nic:
    """Counters of one network port since boot."""

    received_bytes: int
    sent_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One moment of a host. ``cpu`` is user, nice, system, idle, iowait, irq, softirq, steal."""

    uptime_s: float
    clock_s: float  # the host's clock, seconds since 1970 UTC
    cpu: tuple[int, ...]
    load_1min: float
    mem_total_bytes: int
    mem_available_bytes: int
    disks: dict[str, Disk]
    nics: dict[str, Nic]


class Splitter:
    """Cuts the sampler's output, which comes in any pieces, into whole snapshots."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield every snapshot that `piece` completes, without its end line.

        Raises ParseError where more than SNAPSHOT_CAP_BYTES came without an end; what came is
        dropped then.
        """
        self._held += piece
        while True:
            end = self._held.find(b"\n" + END + b"\n")
            if end < 0:
                break
            whole = bytes(self._held[:end])
            del self._held[: end + len(END) + 2]
            yield whole
        if len(self._held) > SNAPSHOT_CAP_BYTES:
            self._held.clear()
            raise ParseError(f"sampler: {SNAPSHOT_CAP_BYTES} bytes without the end of a sample")


def parse(text: bytes) -> Snapshot:
    """Return the snapshot that the sampler printed; raises ParseError where it is none."""
    lines = text.decode("utf-8", "replace").split("\n")
    try:
        mark, uptime_cs, clock = lines[0].split(" ")
        if mark.encode() != BEGIN.strip():
            raise ParseError(f"sampler: starts with '{mark[:40]}', not with a sample")
        blocks = [line.removeprefix("/sys/block/") for line in lines if line[:11] == "/sys/block/"]
        rest = [line for line in lines[1:] if line[:11] != "/sys/block/"]
        memory = dict(line.split(":", 1) for line in rest if line.startswith("Mem"))
        return Snapshot(
            uptime_s=int(uptime_cs) / 100,
            clock_s=_clock(clock),
            cpu=_cpu(rest[0]),
            load_1min=float(rest[1].split()[0]),
            mem_total_bytes=_kib(memory["MemTotal"]),
            mem_available_bytes=_kib(memory["MemAvailable"]),
            disks=dict(_disks(rest, set(blocks))),
            nics=dict(_nics(rest)),
        )
    except (ValueError, KeyError, IndexError, OverflowError) as err:
        raise ParseError(f"sampler: {type(err).__name__}: {err}") from err


def _clock(text: str) -> float:
    """Read ``date +%s.%N``; a date without %N (BusyBox) leaves whole seconds."""
    seconds, _, fraction = text.partition(".")
    if not re.fullmatch(r"[0-9]{1,10}", seconds):
        raise ParseError(f"sampler: '{text[:40]}' is no time of a clock")
    return int(seconds) + (int(fraction) / 10**9 if re.fullmatch(r"[0-9]{9}", fraction) else 0.0)


def _cpu(line: str) -> tuple[int, ...]:
    name, *ticks = line.split()
    if name != "cpu" or len(ticks) < 8:
        raise ParseError(f"sampler: '{line[:60]}' is not the first line of /proc/stat")
    return tuple(int(tick) for tick in ticks[:8])


def _kib(text: str) -> int:
    number, unit = text.split()
    if unit != "kB":  # /proc/meminfo says kB and means KiB
        raise ParseError(f"sampler: '{text[:40]}' is not in kB")
    return int(number) * 1024


def _disks(lines: list[str], blocks: set[str]) -> Iterator[tuple[str, Disk]]:
    """Yield whole disks from /proc/diskstats: ``major minor name``, then 11 counters or more."""
    for line in lines:
        words = line.split()
        if len(words) < 14 or ":" in line or not words[0].isdigit() or words[2] not in blocks:
            continue
        if not _STACKED.fullmatch(words[2]):
            n = [int(word) for word in words[3:14]]
            yield words[2], Disk(n[0], n[2] * SECTOR_BYTES, n[4], n[6] * SECTOR_BYTES, n[9])


def _nics(lines: list[str]) -> Iterator[tuple[str, Nic]]:
    """Yield ports from /proc/net/dev lines: ``name: 16 counters``, received first."""
    for line in lines:
        name, colon, counters = line.partition(":")
        words = counters.split()
        if colon and len(words) == 16 and "|" not in line:
            yield name.strip(), Nic(int(words[0]), int(words[8]))
