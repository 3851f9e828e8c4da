"""The sampler that travels to a host: reads its files every second, its slow tools once a minute.

Standard library only, Python 3.8; sent as text behind `telemetry.hostread` (`telemetry.source`),
writes nothing to the host, and ends with its standard input or output. One process, no thread but
one for an engine's /metrics, no fork but for the slow tools: files stay open and are read from
their start again.

It writes lines of ASCII: ``H`` who it is (JSON), ``S group id`` the names and specs of a group's
series (JSON), ``V group id uptime_ms clock_us values…`` one sample, ``E`` an event (JSON), and
``P`` the answer to a question about the time, ``P number uptime_ns clock_ns``.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvgate.telemetry.hostgpu import Monitor  # joined by `source`
from kvgate.telemetry.hostread import PROC, SLOW, SYS, body, metrics, told  # joined by `source`
from kvgate.telemetry.hosttools import Tool, tools  # joined by `source`

STATES = re.compile(r"/(state|ana_state)$")
QUESTION = re.compile(r"^q (\d{1,9})$", re.MULTILINE)
MOST_FILES = 4000
MOST_KERNEL = 40  # records of the kernel log a second; the rest is counted
MISSING = -(2**63)
STEP_NS = 50000000
BOOT = time.CLOCK_BOOTTIME

if TYPE_CHECKING:
    from kvgate.telemetry.hostread import Values


class Files:
    """Files that are kept open and read from their start again; one that is gone is left out."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = patterns
        self.open: dict[str, int] = {}
        self.refused: dict[str, str] = {}
        self.look()

    def look(self) -> None:
        """Find the files that are there now."""
        wanted: list[str] = []
        for pattern in self.patterns:
            wanted += sorted(glob.glob(pattern)) if "*" in pattern else [pattern]
        wanted = wanted[:MOST_FILES]
        for path in set(self.open) - set(wanted):
            os.close(self.open.pop(path))
        for path in wanted:
            if path in self.open or path in self.refused:
                continue
            try:
                self.open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as err:
                self.refused[path] = str(err.strerror)

    def read(self) -> dict[str, str]:
        """Return path → what it says now."""
        texts: dict[str, str] = {}
        for path, fd in list(self.open.items()):
            try:
                piece = os.pread(
                    fd, 262144 if path[:5] == "/proc" and path != "/proc/stat" else 4096, 0
                )
                texts[path] = piece.decode("ascii", "replace")
            except OSError:  # a device that went: `look` finds it again when it is back
                os.close(self.open.pop(path))
        return texts


class Kernel:
    """The kernel log since a marker; one that may not be read is said.

    The marker is now, or for a sampler that follows another one in the same boot where that one
    left off: behind the record `seq`, and behind `us` where it had seen none.
    """

    def __init__(self, seq: int = -1, us: int = -1) -> None:
        self.fd = -1
        self.why = ""
        self.seq, self.us = seq, us if seq < 0 else -1
        follows = seq >= 0 or us >= 0
        try:
            self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self.fd, 0, os.SEEK_SET if follows else os.SEEK_END)
        except OSError as err:
            self.why = str(err.strerror)

    def records(self) -> list[dict[str, Any]]:
        """Return what was logged since the last time, as events."""
        found: list[dict[str, Any]] = []
        more = lost = 0
        while self.fd >= 0:
            try:
                head, _, text = os.read(self.fd, 8192).partition(b";")
            except OSError as err:
                if err.errno == errno.EPIPE:  # overwritten before it was read
                    lost += 1
                    continue
                break
            words = head.split(b",")
            if int(words[1]) <= self.seq or int(words[2]) <= self.us:
                continue
            if len(found) >= MOST_KERNEL:
                more += 1
                if more > 20000:
                    break
                continue
            said = text.split(b"\n", 1)[0].decode("utf-8", "backslashreplace")[:1000]
            found.append(
                {
                    "kind": "kernel",
                    "level": int(words[0]) & 7,
                    "seq": int(words[1]),
                    "us": int(words[2]),
                    "text": said,
                }
            )
        if more or lost:
            found.append(
                {"kind": "kernel_lost", "text": f"{more} more records, {lost} overwritten"}
            )
        return found


class Sampler:
    """Samples until its standard input ends; see the module."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.every_ms = settings["every_ms"]
        self.slow_ms = settings["slow_ms"]
        self.fast, self.slow = Files(PROC + SYS), Files(SLOW)
        left = settings.get("kernel", {})
        same = left.get("boot") == boot_id()
        self.kernel = Kernel(left.get("seq", -1), left.get("us", -1)) if same else Kernel()
        self.tools = tools(settings.get("tools", []), sudo=settings.get("sudo", False))
        watched = settings.get("gpu") == "amd-smi"
        self.gpu = Monitor(self.every_ms / 1000.0) if watched else None
        self.running: list[Tool] = []
        self.slow_values: Values = {}
        self.before: dict[str, Any] = {}
        self.known: dict[str, tuple[int, Any]] = {}
        self.states: dict[str, str] = {}
        self.scraped: dict[str, tuple[tuple[int, int], Values | str]] = {}
        self.clock: int | None = None
        self.out: list[str] = []
        for name, url in settings.get("metrics", {}).items():
            threading.Thread(target=self.scrape, args=(name, url), daemon=True).start()

    def line(self, *words: str) -> None:
        """Add a line to what is told at the end of the tick."""
        self.out.append(" ".join(words) + "\n")

    def event(self, event: dict[str, Any]) -> None:
        """Add an event."""
        self.line("E", json.dumps(event))

    def flush(self) -> None:
        """Tell everything that waits."""
        data, self.out = "".join(self.out).encode("ascii", "replace"), []
        while data:
            data = data[os.write(1, data) :]

    def sample(self, group: str, values: Values, at: tuple[int, int]) -> None:
        """Tell `values`, and first their names where they are others than the last time."""
        names = [(name, spec) for name, (spec, _) in values.items()]
        number, known = self.known.get(group, (0, None))
        if names != known:
            number += 1
            self.known[group] = (number, names)
            self.line("S", group, str(number), json.dumps(names))
        row = [MISSING if v is None or abs(v) >= 2**63 else v for _, v in values.values()]
        uptime, clock = at
        self.line(
            "V",
            group,
            str(number),
            f"{uptime // 1000000} {clock // 1000}",
            " ".join(map(str, row)),
        )

    def scrape(self, name: str, url: str) -> None:
        """Ask an engine for its metrics, each time a second after its answer."""
        import http.client
        import urllib.request  # heavy, and most hosts have no engine to ask

        while True:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  declared
                    text = body(answer, 5.0)
                self.scraped[name] = (now(), metrics(text))
            except (OSError, ValueError, http.client.HTTPException) as err:
                self.scraped[name] = (now(), f"{type(err).__name__}: {err}")
            time.sleep(self.every_ms / 1000.0)

    def tick(self) -> None:
        """Take one sample of the fast files, and tell what else there is to tell."""
        at = now()
        texts = self.fast.read()
        values, _ = told(texts, self.before)
        mine = time.process_time()
        values["sampler.cpu_us"] = ("c", int(mine * 1000000))
        self.sample("fast", values, at)
        self.changes(texts, at[1] - at[0])
        for record in self.kernel.records():
            self.event(record)
        for name in list(self.scraped):
            when, found = self.scraped.pop(name)
            if isinstance(found, str):
                self.event({"kind": "metrics", "text": f"{name}: {found[:300]}"})
            else:
                self.sample("engine:" + name, found, when)
        if self.gpu is not None:
            self.gpu.tend()
            self.gpus(self.gpu)

    def gpus(self, gpu: Monitor) -> None:
        """Tell what amd-smi has told by now, and what became of it."""
        for values in gpu.read():
            values["amdsmi.cpu_us"] = ("c", gpu.cpu_us())
            self.sample("gpu", values, now())
        for text in gpu.events:
            self.event({"kind": "gpu", "text": text})
        gpu.events = []

    def changes(self, texts: dict[str, str], clock: int) -> None:
        """Tell of states that changed and of a clock that was set; `clock` is it less uptime."""
        for path in texts:
            if path[:4] == "/sys" and STATES.search(path):
                state = texts[path].strip()
                was = self.states.setdefault(path, state)
                if was != state:
                    self.event({"kind": "state", "text": f"{path}: {state}, was {was}"})
                    self.states[path] = state
        if self.clock is not None and abs(clock - self.clock) > STEP_NS:
            by = (clock - self.clock) / 1e9
            self.event({"kind": "clock_step", "text": f"the host's clock was set by {by:.3f} s"})
        self.clock = clock

    def slowly(self, due: bool) -> None:
        """Start the slow tools one after the other when they are `due`; tell when all have told."""
        if self.running:
            values = self.running[0].poll()
            if values is None:
                return
            self.slow_values.update(values)
            self.running.pop(0)
        elif due:
            self.fast.look()
            self.slow.look()
            self.before["blocks"] = set(os.listdir("/sys/block"))
            self.slow_values, _ = told(self.slow.read(), {})
            self.running = [tool for tool in self.tools if not tool.why]
        else:
            return
        if self.running:
            self.running[0].start()
        elif self.slow_values:
            self.sample("slow", self.slow_values, now())

    def answer(self, data: bytes) -> None:
        """Answer the questions about the time in `data`; the answer leaves at once."""
        for number in QUESTION.findall(data.decode("ascii", "replace")):
            uptime, clock = now()
            self.line("P", number, f"{uptime} {clock}")
            self.flush()

    def hello(self) -> None:
        """Tell who this is, and what of it may not be read or is not there."""
        absent = {tool.name: tool.why for tool in self.tools if tool.why}
        absent.update(self.fast.refused)
        if self.gpu is not None and self.gpu.why:
            absent["amd-smi"] = self.gpu.why
        if self.kernel.why:
            absent["/dev/kmsg"] = self.kernel.why
        python = ".".join(map(str, sys.version_info[:3]))
        told = {"sampler": 2, "python": python, "boot": boot_id(), "absent": absent}
        self.line("H", json.dumps(told))

    def run(self) -> None:
        """Sample until standard input ends."""
        self.before["blocks"] = set(os.listdir("/sys/block"))
        self.hello()
        due = 0
        while True:
            uptime = time.clock_gettime_ns(BOOT) // 1000000
            self.tick()
            self.slowly(uptime >= due)
            if uptime >= due:
                due = uptime + self.slow_ms
            self.flush()
            if not self.rest((uptime // self.every_ms + 1) * self.every_ms):
                break
        if self.gpu is not None:
            self.gpu.stop()

    def rest(self, until_ms: int) -> bool:
        """Answer questions until the next tick; tell whether anybody is there any more."""
        while True:
            left = until_ms / 1000.0 - time.clock_gettime(BOOT)
            if left <= 0:
                return True
            gpu = None if self.gpu is None else self.gpu.fd()
            ready = select.select([0] if gpu is None else [0, gpu], [], [], left)[0]
            if gpu in ready and self.gpu is not None:
                self.gpus(self.gpu)
            if 0 in ready:
                data = os.read(0, 4096)
                if not data:
                    return False
                self.answer(data)


def boot_id() -> str:
    """Return the name of this boot of the host."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def now() -> tuple[int, int]:
    """Return the host's uptime and its clock, both in ns."""
    return time.clock_gettime_ns(BOOT), time.time_ns()


def main() -> None:
    """Sample as the first argument (JSON) says, until nobody listens any more."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    Sampler(json.loads(sys.argv[1])).run()
