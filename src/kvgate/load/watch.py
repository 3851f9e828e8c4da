"""Watches the client itself: how late its event loop is, and what it gets of the processor.

A load whose client was the bottleneck says nothing about the endpoint. Whatever arrives is noticed
when the event loop comes to it; how long that takes is what a timer is late by.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import os
import time
from collections import Counter
from collections.abc import Mapping

TICK_S = 0.005
WINDOW_S = 0.25

LAG_P99_MOST_S = 0.02
"""What the client may be late by at p99: what is asked of it as its own error in TTFT."""

LAG_PART = 0.01
"""... or this part of the median TTFT, where that is more (G3.6 has the same share)."""

OCCUPIED = 0.9
"""A window of which the loop's thread spent this part computing, or waiting for a processor, is
full: nothing more could have been sent in it."""

FULL_MOST = 0.1
"""How many windows may be full, as a part of all."""

WINDOWS_LEAST = 4
"""How many windows it takes to tell how many are full: 1 s."""

_STEPS = 8  # buckets for each doubling: a value is told to 9 %
_FLOOR_S = 1e-4


class Histogram:
    """Counts durations in buckets that each are 9 % wider than the one before."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.total = 0
        self.most_s = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration; what is under 0.1 ms counts as that."""
        self.counts[_bucket(seconds)] += 1
        self.total += 1
        self.most_s = max(self.most_s, seconds)

    def percentile_s(self, percent: float) -> float:
        """Return the upper end of the bucket that the percentile lies in, 0 where nothing was."""
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen * 100 >= percent * self.total:
                return min(_upper_s(bucket), self.most_s)
        return 0.0

    def shown(self) -> dict[str, int]:
        """Return the counts by the upper ends of their buckets, in ms."""
        return {_plain(1000 * _upper_s(each)): self.counts[each] for each in sorted(self.counts)}


def _bucket(seconds: float) -> int:
    return 0 if seconds <= _FLOOR_S else math.ceil(math.log2(seconds / _FLOOR_S) * _STEPS)


def _upper_s(bucket: int) -> float:
    return _FLOOR_S * float(2 ** (bucket / _STEPS))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """How the client fared; seconds. ``lag`` is of the event loop, ``send_lag`` of sending.

    ``cpu_share`` and ``wait_share`` are of the loop's thread: parts of the time that it computed,
    and that it could have but had no processor (None where the kernel doesn't tell).
    ``full_share`` is the part of windows that were full, None where the load was too short to
    tell. ``process_cpu_share`` is all of the process's CPU by ``cores``.
    """

    lag_p50_s: float
    lag_p90_s: float
    lag_p99_s: float
    lag_max_s: float
    send_lag_p50_s: float
    send_lag_p99_s: float
    send_lag_max_s: float
    cpu_share: float
    wait_share: float | None
    full_share: float | None
    process_cpu_share: float
    cores: int
    lag_ms: Mapping[str, int]

    def bottleneck(self, ttft_s: float | None = None) -> tuple[str, ...]:
        """Return why the client was the bottleneck, () where it was not.

        `ttft_s` is the median TTFT that was measured, where there is one.
        """
        most = max(LAG_P99_MOST_S, LAG_PART * (ttft_s or 0.0))
        told: list[str] = []
        if self.lag_p99_s > most:
            told.append(
                f"its event loop was late by {_ms(self.lag_p99_s)} at p99 (over {_ms(most)})"
            )
        if self.send_lag_p99_s > most:
            told.append(f"it sent {_ms(self.send_lag_p99_s)} late at p99 (over {_ms(most)})")
        if self.full_share is not None and self.full_share > FULL_MOST:
            waited = "" if not self.wait_share else f", {self.wait_share:.0%} waiting for a core"
            told.append(
                f"it was full in {self.full_share:.0%} of the time "
                f"({self.cpu_share:.0%} computing{waited}; {self.cores} cores are its)"
            )
        return tuple(told)


def _ms(seconds: float) -> str:
    ms = 1000 * seconds
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.3g} ms"


def _plain(ms: float) -> str:
    """Return a number as people write it, never by powers of ten."""
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}"


class SelfWatch:
    """Watches while it is running; `begin` forgets what was before (a warm-up)."""

    def __init__(self) -> None:
        self._lag = Histogram()
        self._send_lag = Histogram()
        self._windows: list[float] = []
        self._wait_file: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._begun = self._window = (0.0, 0.0, 0.0)
        self._process_begun = 0.0
        self._due = 0.0

    def start(self) -> None:
        """Start to watch, in the event loop's thread."""
        with contextlib.suppress(OSError):  # not Linux, or without statistics: lag tells enough
            self._wait_file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self._due = asyncio.get_running_loop().time()
        self.begin()
        self._tick()

    def begin(self) -> None:
        """Count from now."""
        self._lag, self._send_lag, self._windows = Histogram(), Histogram(), []
        self._begun = self._window = self._look()
        self._process_begun = time.process_time()

    def sent(self, late_s: float) -> None:
        """Count how late a request was sent that could have been."""
        self._send_lag.add(late_s)

    def stop(self) -> Watched:
        """Stop to watch and return what was seen; to be called once."""
        if self._timer is not None:
            self._timer.cancel()
        now = self._look()
        elapsed, cpu, waited = (b - a for a, b in zip(self._begun, now, strict=True))
        process = time.process_time() - self._process_begun
        told = self._wait_file is not None
        self.close()
        elapsed = max(elapsed, 1e-9)
        full = sum(each >= OCCUPIED for each in self._windows)
        count, cores = len(self._windows), len(os.sched_getaffinity(0))
        return Watched(
            lag_p50_s=self._lag.percentile_s(50),
            lag_p90_s=self._lag.percentile_s(90),
            lag_p99_s=self._lag.percentile_s(99),
            lag_max_s=self._lag.most_s,
            send_lag_p50_s=self._send_lag.percentile_s(50),
            send_lag_p99_s=self._send_lag.percentile_s(99),
            send_lag_max_s=self._send_lag.most_s,
            cpu_share=cpu / elapsed,
            wait_share=waited / elapsed if told else None,
            full_share=full / count if count >= WINDOWS_LEAST else None,
            process_cpu_share=process / elapsed / cores,
            cores=cores,
            lag_ms=self._lag.shown(),
        )

    def close(self) -> None:
        """Give back what `start` opened; may be called again."""
        if self._wait_file is not None:
            os.close(self._wait_file)
            self._wait_file = None

    def _look(self) -> tuple[float, float, float]:
        """Return the time, this thread's CPU, and how long it waited for a processor."""
        waited_s = 0.0
        if self._wait_file is not None:
            waited_s = int(os.pread(self._wait_file, 80, 0).split()[1]) / 1e9
        return time.monotonic(), time.thread_time(), waited_s

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        late = max(0.0, now - self._due)
        self._lag.add(late)
        while late > TICK_S:  # what would have arrived meanwhile had waited for the rest
            late -= TICK_S
            self._lag.add(late)
        if now - self._window[0] >= WINDOW_S:
            self._close_window()
        self._due = now + TICK_S
        self._timer = loop.call_at(self._due, self._tick)

    def _close_window(self) -> None:
        last, self._window = self._window, self._look()
        elapsed, cpu, waited = (b - a for a, b in zip(last, self._window, strict=True))
        self._windows += [(cpu + waited) / elapsed] * round(elapsed / WINDOW_S)
