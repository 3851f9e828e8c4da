"""Reads what a Linux host tells of itself into named whole numbers.

A part of the sampler that travels (`telemetry.source`): standard library only, Python 3.8. The
controller uses the same functions on what the shell's sampler sends and on an engine's /metrics,
so that a series has one meaning however it came; the shell reads the same files.

Every reader yields (name, spec, value). A spec is ``c`` for a counter or ``l`` for a level, and
behind it how many of the number make one unit, where that is not 1: ``l100`` are hundredths.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

PROC = (
    "/proc/stat",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/vmstat",
    "/proc/sys/fs/file-nr",
    "/proc/diskstats",
    "/proc/net/dev",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
)
SYS = (
    "/sys/class/infiniband/*/ports/*/counters/*",
    "/sys/class/infiniband/*/ports/*/hw_counters/*",
    "/sys/class/nvme/nvme*/state",
    "/sys/class/nvme/nvme*/nvme*c*n*/stat",
    "/sys/class/nvme/nvme*/nvme*c*n*/ana_state",
    "/sys/class/drm/card*/device/gpu_busy_percent",
    "/sys/class/drm/card*/device/mem_busy_percent",
    "/sys/class/drm/card*/device/mem_info_vram_used",
    "/sys/class/drm/card*/device/mem_info_gtt_used",
    "/sys/class/drm/card*/device/hwmon/hwmon*/power1_average",
    "/sys/class/drm/card*/device/hwmon/hwmon*/power1_input",
    "/sys/class/drm/card*/device/hwmon/hwmon*/temp[123]_input",
)
SLOW = ("/sys/class/hwmon/hwmon*/temp*_input",)
SECTOR = 512  # what diskstats and stat count in, whatever the device's sectors (iostats.rst)
STACKED = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)\d+")  # pass their work on, or are memory
MEMORY = {
    "MemTotal": "total",
    "MemFree": "free",
    "MemAvailable": "available",
    "Cached": "cached",
    "Dirty": "dirty",
    "Writeback": "writeback",
    "AnonPages": "anonymous",
    "Slab": "slab",
    "SwapFree": "swap_free",
}
EVENTS = ("pgmajfault", "oom_kill", "allocstall_normal")  # of /proc/vmstat
DISK = (
    ("reads", 0, 1),
    ("read_bytes", 2, SECTOR),
    ("read_ms", 3, 1),
    ("writes", 4, 1),
    ("written_bytes", 6, SECTOR),
    ("write_ms", 7, 1),
    ("busy_ms", 9, 1),
)
PORT = ("bytes", "packets", "errors", "dropped")
ANA = {"optimized": 2, "non-optimized": 1}  # everything else is 0: no I/O that way
WORDS = ("/port_xmit_data", "/port_rcv_data")  # count in words of the InfiniBand architecture
WORD = 4
FINITE = 2**63 - 1
MILLION = 1000000

if TYPE_CHECKING:
    Values = dict[str, tuple[str, int | None]]
    Named = Iterator[tuple[str, str, int | None]]


def cpu(text: str, before: dict[str, Any]) -> Named:
    """Yield the time of all CPUs, in clock ticks (proc_stat(5)), and how much of it was busy."""
    words = text.split("\n", 1)[0].split()
    if len(words) < 9 or words[0] != "cpu":
        raise ValueError("not the first line of /proc/stat")
    t = [int(word) for word in words[1:9]]
    for name, value in (
        ("user", t[0] + t[1]),
        ("system", t[2]),
        ("idle", t[3]),
        ("iowait", t[4]),
        ("irq", t[5] + t[6]),
        ("steal", t[7]),
    ):
        yield "cpu." + name + "_ticks", "c", value
    now = (sum(t), t[3] + t[4])
    was = before.get("cpu", now)
    total, idle = now[0] - was[0], now[1] - was[1]
    busy = 10000 * (total - idle) // total if 0 <= idle <= total > 0 else None
    yield "cpu.busy_pct", "l100", busy
    before["cpu"] = now


def load(text: str) -> Named:
    """Yield the load of one minute and how many tasks run (proc_loadavg(5))."""
    words = text.split()
    yield "load.1min", "l100", round(float(words[0]) * 100)
    yield "load.running", "l", int(words[3].split("/")[0])


def memory(text: str) -> Named:
    """Yield sizes in bytes; /proc/meminfo says kB and means KiB."""
    for line in text.split("\n"):
        name, colon, rest = line.partition(":")
        if colon and name in MEMORY and rest.endswith(" kB"):
            yield "mem." + MEMORY[name] + "_bytes", "l", int(rest[:-3]) * 1024


def events(text: str) -> Named:
    """Yield the few counters of /proc/vmstat that tell of trouble."""
    for line in text.split("\n"):
        name, _, value = line.partition(" ")
        if name in EVENTS:
            yield "vm." + name, "c", int(value)


def files(text: str) -> Named:
    """Yield how many files are open on the host (proc/sys/fs/file-nr)."""
    yield "fs.open_files", "l", int(text.split()[0])


def pressure(text: str, what: str) -> Named:
    """Yield for how many µs some tasks have waited for `what` (psi.rst)."""
    line = text.split("\n", 1)[0]
    if line.startswith("some ") and "total=" in line:
        yield "psi." + what + "_us", "c", int(line.rsplit("total=", 1)[1])


def disk(name: str, words: list[str]) -> Named:
    """Yield a disk's counters; `words` are those of its ``stat`` (iostats.rst)."""
    for what, place, factor in DISK:
        yield name + "." + what, "c", int(words[place]) * factor
    yield name + ".in_flight", "l", int(words[8])


def disks(text: str, blocks: set[str]) -> Named:
    """Yield the counters of whole disks, `blocks`, from /proc/diskstats."""
    for line in text.split("\n"):
        words = line.split()
        if len(words) >= 14 and words[2] in blocks and not STACKED.fullmatch(words[2]):
            yield from disk("disk." + words[2], words[3:])


def ports(text: str) -> Named:
    """Yield the counters of network ports but loopback, from /proc/net/dev."""
    for line in text.split("\n"):
        name, colon, counters = line.partition(":")
        words = counters.split()
        name = name.strip()
        if colon and len(words) == 16 and name != "lo" and "|" not in line:
            for place, what in enumerate(PORT):
                yield "net." + name + ".received_" + what, "c", int(words[place])
                yield "net." + name + ".sent_" + what, "c", int(words[place + 8])


def value(path: str, text: str) -> Named:
    """Yield what one file below /sys says, by where it lies; nothing where it is not known."""
    parts = path.split("/")
    text = text.strip()
    if path.startswith("/sys/class/infiniband/") and len(parts) == 9 and parts[5] == "ports":
        name, factor = parts[8], WORD if path.endswith(WORDS) else 1
        yield ".".join(("rdma", parts[4], parts[6], name)), "c", int(text) * factor
    elif path.startswith("/sys/class/nvme/") and parts[-1] == "state":
        yield "nvme." + parts[4] + ".live", "l", int(text == "live")
    elif path.startswith("/sys/class/nvme/") and parts[-1] == "ana_state":
        yield "path." + parts[5] + ".ana", "l", ANA.get(text, 0)
    elif path.startswith("/sys/class/nvme/") and parts[-1] == "stat":
        yield from disk("path." + parts[5], text.split())
    elif path.startswith("/sys/class/drm/"):
        yield "gpu." + parts[4] + "." + parts[-1], "l", int(text)
    elif path.startswith("/sys/class/hwmon/"):
        yield "temp." + parts[4] + "." + parts[5].replace("_input", ""), "l1000", int(text)


def told(texts: dict[str, str], before: dict[str, Any]) -> tuple[Values, dict[str, str]]:
    """Return name → (spec, value) of what the files `texts` (path → text) say.

    `before` is a dict of the caller's, kept from one time to the next. What can't be read is left
    out and named: the second value is path → why.
    """
    found: Values = {}
    odd: dict[str, str] = {}
    blocks = {path.split("/")[3] for path in texts if path.startswith("/sys/block/")}
    readers: dict[str, Callable[[str], Named]] = {
        "/proc/stat": lambda text: cpu(text, before),
        "/proc/loadavg": load,
        "/proc/meminfo": memory,
        "/proc/vmstat": events,
        "/proc/sys/fs/file-nr": files,
        "/proc/diskstats": lambda text: disks(text, before.get("blocks", blocks)),
        "/proc/net/dev": ports,
        "/proc/pressure/cpu": lambda text: pressure(text, "cpu"),
        "/proc/pressure/io": lambda text: pressure(text, "io"),
        "/proc/pressure/memory": lambda text: pressure(text, "memory"),
    }
    plain = before.setdefault("plain", {})  # of the many small files: their names and factors
    for path, text in texts.items():
        try:
            if path in plain:
                name, factor = plain[path]
                found[name] = ("c", int(text) * factor)
                continue
            if path.startswith("/sys/class/infiniband/"):
                ((name, _, number),) = value(path, text)
                plain[path] = (name, WORD if path.endswith(WORDS) else 1)
                found[name] = ("c", number)
                continue
            reader = readers.get(path)
            for name, spec, number in reader(text) if reader else value(path, text):
                found[name] = (spec, number)
        except (ValueError, IndexError) as err:
            odd[path] = type(err).__name__ + ": " + str(err)[:80]
    return found, odd


LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[^\n]{0,400}\})? +([-+.eE0-9]{1,40})(?: +-?\d+)?")


def body(answer: Any, within_s: float, most: int = 1 << 20) -> str:
    """Return an answer's text; one that is over `most` bytes or takes longer is a ValueError."""
    end = time.monotonic() + within_s
    told = bytearray()
    while piece := answer.read1(65536):
        told += piece
        if len(told) > most:
            raise ValueError("the answer is over " + str(most) + " bytes")
        if time.monotonic() > end:
            raise ValueError("the answer takes over " + str(within_s) + " s")
    return told.decode("utf-8", "replace")


def metrics(text: str, most: int = 400) -> Values:
    """Return name → (spec, value) of an engine's metrics in Prometheus' text format.

    Kept to a millionth; buckets of histograms and times of creation are left out, and what is
    behind the first `most` series.
    """
    kinds: dict[str, str] = {}
    found: Values = {}
    for line in text.split("\n"):
        if line.startswith("# TYPE "):
            words = line.split()
            kinds[words[2]] = words[3] if len(words) > 3 else ""
            continue
        match = LINE.fullmatch(line)
        if match is None or match.group(1).endswith(("_bucket", "_created")) or len(found) >= most:
            continue
        name = match.group(1)
        family = name.rsplit("_", 1)[0] if name.endswith(("_sum", "_count", "_total")) else name
        kind = kinds.get(name) or kinds.get(family, "")
        grows = kind == "counter" or (kind in ("histogram", "summary") and name != family)
        number = float(match.group(3)) * MILLION
        spec = ("c" if grows else "l") + str(MILLION)
        found["engine." + name + (match.group(2) or "")] = (
            spec,
            round(number) if abs(number) < FINITE else None,
        )
    return found


def numbers(value: object, name: str, most: int = 300) -> Values:
    """Return name → (spec, value) of the numbers in a tool's JSON, to a thousandth."""
    found: Values = {}
    waiting: list[tuple[str, object]] = [(name, value)]
    while waiting and len(found) < most:
        at, each = waiting.pop()
        if isinstance(each, dict):
            waiting.extend((at + "." + str(key)[:60], inner) for key, inner in each.items())
        elif isinstance(each, (int, float)) and not isinstance(each, bool):
            fits = abs(each) < FINITE // 1000
            found[at] = ("l1000", round(each * 1000) if fits else None)
    return found


def statistics(text: str, name: str, most: int = 1500) -> Values:
    """Return name → (spec, value) of ``ethtool -S``: digits in names are part of them."""
    found: Values = {}
    for line in text.split("\n"):
        what, colon, number = line.strip().rpartition(": ")
        if colon and number.isdigit() and len(found) < most:
            found[name + "." + what.strip().replace(" ", "_")] = ("c", int(number))
    return found
