"""An hour of 100 hosts of 200 series, as lines of their samplers, recorded and made columnar.

A process of its own, so that its memory is that of a controller. Prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

from kvgate.telemetry import recorder as recorders
from kvgate.telemetry.recorder import Recorder
from kvgate.telemetry.wire import Listener, Names, Sample

START_MS = 1_796_083_200_000
CHUNK_S = 60
DISTINCT = 10  # hosts that are made up; more are like them, and compressed each by itself


def rss_mb() -> float:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def peak_mb() -> float:
    """Return the most that this program ever had; ru_maxrss also tells of who started it."""
    (line,) = (e for e in Path("/proc/self/status").read_text().split("\n") if "VmHWM" in e)
    return int(line.split()[1]) * 1024 / 1e6


class Host:
    """A host at work: 45 % counters of errors, 20 % busy bytes, 13 % operations, 8 % memory, 8 %
    temperatures, 6 % noise from 0 to 100 %; with `noise` all are busy bytes.
    """

    def __init__(self, number: int, series: int, noise: bool) -> None:
        self.rng = np.random.default_rng(number)
        self.series, self.noise = series, noise
        kinds = np.arange(series) / series
        self.kind = np.searchsorted([0.45, 0.65, 0.78, 0.86, 0.94], kinds, side="right")
        if noise:
            self.kind[:] = 1
        self.total = self.rng.integers(0, 10**12, series)
        self.level = np.full(series, 10**11)
        self.drift = np.zeros(series)
        self.names = [
            (f"device{n}.counter_of_kind_{kind}", "c" if kind < 3 else "l")
            for n, kind in enumerate(self.kind)
        ]

    def chunk(self) -> np.ndarray:
        """Return the values of the next `CHUNK_S` seconds (time × series)."""
        rng, shape = self.rng, (CHUNK_S, self.series)
        steps = np.where(rng.random(shape) < 0.0005, 1, 0)
        walk = np.cumsum(rng.normal(0, 0.05, shape), axis=0)
        self.drift = 0.5 * (self.drift + walk[-1])
        busy = (5e8 * np.exp(0.3 * (walk + self.drift))).astype(np.int64) // 4096 * 4096
        steps = np.where(self.kind == 1, busy, steps)
        steps = np.where(self.kind == 2, rng.poisson(2000, shape), steps)
        counters = self.total + np.cumsum(steps, axis=0)
        self.total = counters[-1]
        memory = self.level + 4096 * np.cumsum(rng.integers(-3, 4, shape), axis=0)
        self.level = memory[-1]
        levels = np.where(self.kind == 3, memory, 50_000 + 1000 * rng.integers(0, 3, shape))
        levels = np.where(self.kind == 5, rng.integers(0, 10_000, shape), levels)
        return np.where(self.kind < 3, counters, levels)


def main(path: Path, hosts: int, series: int, minutes: int, noise: bool) -> None:
    recorders.TICK_S = 10**6  # the hour goes by as fast as it can: this thread writes
    now = [START_MS / 1000]
    made = [Host(n, series, noise) for n in range(min(hosts, DISTINCT))]
    ears = [Listener() for _ in range(hosts)]
    troubles: list[str] = []
    cpu = {"sampling": 0.0, "columns": 0.0}
    rss = []

    def hear(record: Recorder, number: int, line: bytes, t_ms: int) -> None:
        for each in ears[number].feed(line):
            if isinstance(each, Names):
                record.names(f"host{number:03d}", each.group, 1000, each.series)
            elif isinstance(each, Sample):
                record.sample(f"host{number:03d}", each.group, t_ms, each.uptime_ms, each.row)
            else:
                raise TypeError(each)

    with Recorder(
        path, journal=lambda _kind, **_: None, on_trouble=troubles.append, clock=lambda: now[0]
    ) as record:
        for number in range(hosts):
            names = json.dumps(made[number % len(made)].names)
            hear(record, number, f"S fast 1 {names}\n".encode(), START_MS)
        for minute in range(minutes):
            lines = []
            for host in made:
                lines.append([" ".join(map(str, row)).encode() for row in host.chunk().tolist()])
            began = time.process_time()
            for second in range(CHUNK_S):
                at = 1000 * (CHUNK_S * minute + second)
                now[0] = (START_MS + at) / 1000
                record._write(last=False)
                for number in range(hosts):
                    jitter = (number * 7 + second * 13) % 5
                    head = b"V fast 1 %d %d " % (10**7 + at + jitter, 1000 * (START_MS + at))
                    line = head + lines[number % len(made)][second] + b"\n"
                    hear(record, number, line, START_MS + at + jitter)
            cpu["sampling"] += time.process_time() - began
            if minute % 15 == 14:
                rss.append(round(rss_mb()))
        began = time.process_time()
        sizes = [each.stat().st_size for each in (path / "telemetry").iterdir()]
    cpu["columns"] = time.process_time() - began
    print(
        json.dumps(
            {
                "log_bytes": sum(sizes),
                "bytes": sum(each.stat().st_size for each in (path / "telemetry").iterdir()),
                "files": {e.name: e.stat().st_size for e in (path / "telemetry").iterdir()},
                "cpu_s": cpu,
                "rss_mb": rss,
                "peak_mb": peak_mb(),
                "troubles": troubles,
                "lost": record.lost,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:5]), sys.argv[5:] == ["noise"])
