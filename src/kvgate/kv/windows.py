"""Tokens restored and written in windows of time: the bandwidth that a tier has to carry."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from kvgate.kv.trace import Floats

MOST_WINDOWS = 10**8
"""Windows of which a percentile is taken, at most: three years of seconds."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WindowStatistics:
    """Tokens a second in windows of ``width_s``, empty ones among them, by nearest rank."""

    width_s: int
    count: int
    restored: tuple[float, float, float, float]
    written: tuple[float, float, float, float]


SHARES = (50, 95, 99, 100)
"""Percentiles that are taken; the last is the largest window."""


class Windows:
    """Sums tokens by second; its memory is 24 bytes a second in which something happened."""

    def __init__(self) -> None:
        self._sums: list[tuple[Floats, Floats, Floats]] = []  # seconds, restored, written
        self._first: float | None = None
        self._last = 0.0
        self._step = math.inf

    @property
    def span_s(self) -> float:
        """Return the time from the first request to the last, in s."""
        return 0.0 if self._first is None else self._last - self._first

    @property
    def step_s(self) -> float:
        """Return the shortest time between two requests that differ in time, 0 for none."""
        return 0.0 if math.isinf(self._step) else self._step

    def add(self, times_s: Floats, restored: Floats, written: Floats) -> None:
        """Add requests in order of time, with the tokens that each restores and writes."""
        if self._first is None:
            self._first = self._last = float(times_s[0])
        steps = np.diff(np.concatenate(([self._last], times_s)))
        if (steps > 0).any():
            self._step = min(self._step, float(steps[steps > 0].min()))
        self._last = float(times_s[-1])
        seconds, place = np.unique(np.floor(times_s - self._first), return_inverse=True)
        sums = [np.bincount(place, values).astype(np.float64) for values in (restored, written)]
        self._sums.append((seconds, sums[0], sums[1]))

    def statistics(self) -> tuple[WindowStatistics, ...]:
        """Return the rates in windows of 1 s, and of the trace's own step where that is longer.

        A trace whose times are in steps of 3 s shows all of 3 s in one second.
        """
        widths = [1]
        if self.step_s > 1:
            widths.append(math.ceil(self.step_s))
        return tuple(self._in_windows(width) for width in widths)

    def _in_windows(self, width: int) -> WindowStatistics:
        """Return the rates in windows of `width` s: seconds of two batches may be one window."""
        seconds, *columns = (np.concatenate(each) for each in zip(*self._sums, strict=True))
        window = seconds // width
        firsts = np.flatnonzero(np.diff(window, prepend=-1.0))
        count = min(MOST_WINDOWS, int(self.span_s // width) + 1)
        restored, written = (
            _ranks(np.sort(np.add.reduceat(column, firsts)) / width, count) for column in columns
        )
        return WindowStatistics(width_s=width, count=count, restored=restored, written=written)


def _ranks(values: Floats, count: int) -> tuple[float, float, float, float]:
    """Return the percentiles of `values` (sorted) and as many zeros as make `count`."""
    zeros = count - len(values)
    found = []
    for share in SHARES:
        place = math.ceil(count * share / 100) - 1 - zeros
        found.append(float(values[place]) if place >= 0 else 0.0)
    return (found[0], found[1], found[2], found[3])
