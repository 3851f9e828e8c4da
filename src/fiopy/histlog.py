"""fio's histogram logs (``write_hist_log``): true percentiles over time, from every single I/O.

Each line holds, for one direction, how many latencies fell into each bin since the line before
(iolog.c, flush_hist_samples). Logs of several jobs are added bin by bin.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fiopy import bins
from fiopy.bins import Layout, Percentile
from fiopy.errors import FioOutputError
from fiopy.logform import DIRECTIONS, whole_lines

_BEFORE = 3  # time in ms, direction, block size
_MOST_WINDOWS = 200_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The latencies of one direction: how many, and the percentiles that so many carry."""

    samples: int
    percentiles: tuple[Percentile, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Histograms:
    """What histogram logs say. ``windows``: (begin in ms on the log's clock, by direction)."""

    whole: Mapping[str, Spread]
    windows: tuple[tuple[int, Mapping[str, Spread]], ...]
    begin_ms: int
    end_ms: int

    @property
    def samples(self) -> int:
        """Return how many latencies were counted."""
        return sum(each.samples for each in self.whole.values())


def histograms(
    logs: Iterable[Iterable[bytes]],
    *,
    window_s: float = 60,
    percents: Sequence[float] = (50, 99, 99.9),
) -> Histograms:
    """Return what `logs` tell together, each the pieces of one file (`from_file`).

    A line counts in the window in which it was written: its latencies are at most log_hist_msec
    older. Raises FioOutputError, with log and line, for anything but whole histogram logs.
    """
    counted = _Counted(round(window_s * 1000))
    for number, pieces in enumerate(logs, 1):
        counted.read(pieces, f"log {number}")
    return counted.told(tuple(percents))


class _Counted:
    def __init__(self, window_ms: int) -> None:
        if window_ms < 1:
            raise ValueError("a window is at least 1 ms")
        self._window_ms = window_ms
        self._counts: dict[tuple[int, int], Counter[int]] = {}  # window, direction → ns → count
        self._layouts: dict[int, list[int]] = {}
        self._begin_ms: int | None = None
        self._end_ms = 0

    def read(self, pieces: Iterable[bytes], where: str) -> None:
        """Take one log."""
        columns = 0
        for first_line, lines in whole_lines(pieces, where):
            for at, line in enumerate(lines.split(b"\n")[:-1], first_line):
                numbers = _numbers(line, f"{where}, line {at}")
                if columns and len(numbers) != columns:
                    raise FioOutputError(
                        f"{where}, line {at}: {len(numbers)} numbers, {columns} in line 1"
                    )
                columns = len(numbers)
                self._take(numbers, f"{where}, line {at}")
        if not columns:
            raise FioOutputError(
                f"{where} is empty",
                hint="no I/O completed after the ramp: fio was ended, or there is too little to do",
            )

    def _take(self, numbers: list[int], where: str) -> None:
        time_ms, direction = numbers[:2]
        bounds = self._bounds(len(numbers) - _BEFORE, where)
        if direction >= len(DIRECTIONS):
            raise FioOutputError(f"{where}: {direction} is no direction (0, 1, 2)")
        key = time_ms // self._window_ms, direction
        counts = self._counts.get(key)
        if counts is None:
            if len(self._counts) >= _MOST_WINDOWS:
                raise FioOutputError(f"{where}: too many windows", hint="take longer ones")
            counts = self._counts[key] = Counter()
        for at, count in enumerate(numbers[_BEFORE:]):
            if count:
                counts[bounds[at]] += count
        self._begin_ms = time_ms if self._begin_ms is None else min(self._begin_ms, time_ms)
        self._end_ms = max(self._end_ms, time_ms)

    def _bounds(self, columns: int, where: str) -> list[int]:
        """Return the largest latency in ns of each bin."""
        if columns not in self._layouts:
            try:
                layout = Layout.of(columns)
            except FioOutputError as err:
                raise FioOutputError(f"{where}: {err.message}", hint=err.hint) from err
            self._layouts[columns] = [layout.upper_ns(at) for at in range(columns)]
        return self._layouts[columns]

    def told(self, percents: tuple[float, ...]) -> Histograms:
        """Return all that was counted."""
        if self._begin_ms is None:
            raise FioOutputError("no log was given")
        whole: dict[int, Counter[int]] = {}
        windows: dict[int, dict[str, Spread]] = {}
        for (window, direction), counts in sorted(self._counts.items()):
            named = windows.setdefault(window * self._window_ms, {})
            named[DIRECTIONS[direction]] = _spread(counts, percents)
            whole.setdefault(direction, Counter()).update(counts)
        return Histograms(
            whole={DIRECTIONS[at]: _spread(each, percents) for at, each in sorted(whole.items())},
            windows=tuple(windows.items()),
            begin_ms=self._begin_ms,
            end_ms=self._end_ms,
        )


def _numbers(line: bytes, where: str) -> list[int]:
    words = line.split(b", ")
    if len(words) <= _BEFORE or not all(map(bytes.isdigit, words)):
        raise FioOutputError(
            f"{where}: {line[:60]!r} is no line of a histogram log",
            hint="time, direction, block size, and a count a bin, with ', ' between",
        )
    return list(map(int, words))


def _spread(counts: Counter[int], percents: tuple[float, ...]) -> Spread:
    return Spread(
        samples=sum(counts.values()),
        percentiles=bins.percentiles(counts, percents),
    )
