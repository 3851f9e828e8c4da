"""Holds the newest samples of one group of series until they become a block of the log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvgate.telemetry.block import Block, Group
from kvgate.telemetry.counters import Counters
from kvgate.telemetry.pyramid import Ints
from kvgate.telemetry.wire import Row

LATE = 1.5
"""A sample this many intervals after the one before is behind a gap: at least one is missing."""

MOST_SAMPLES = 600
"""Of a group; more in half a minute are not sampling."""


class Stream:
    """The samples of `group`, in the order they come; not thread-safe."""

    def __init__(self, group: Group, after: Stream | None = None) -> None:
        self.group = group
        self.dropped = 0
        self._which = group.counters
        self._counters = Counters([name for name, spec in group.series if spec[0] == "c"])
        self._t: list[int] = []
        self._uptime: list[int] = []
        self._rows: list[Row] = []
        self._last_t: int | None = None
        self._last_uptime: int | None = None
        if after is not None:  # the group's names have changed: what is in both goes on
            self._last_t, self._last_uptime = after._last_t, after._last_uptime
            self._counters.follow(after._counters)

    def add(self, t_ms: int, uptime_ms: int, row: Row) -> None:
        """Take one sample; of one that is not later than the last nothing is kept."""
        last = self._t[-1] if self._t else self._last_t
        if len(self._rows) >= MOST_SAMPLES or (last is not None and t_ms <= last):
            self.dropped += 1
            return
        self._t.append(t_ms)
        self._uptime.append(uptime_ms)
        self._rows.append(row)

    def restart(self) -> None:
        """Forget what counters were: the host has been started anew."""
        self._counters.restart()
        self._last_uptime = None

    def __len__(self) -> int:
        return len(self._rows)

    def take(self) -> tuple[Block, list[tuple[int, str, str]]]:
        """Return what is held as a block, and what happened in it: time, kind and text.

        A span is the host's own time since the sample before, 0 where that is not known.
        """
        t, uptime = np.array(self._t, np.int64), np.array(self._uptime, np.int64)
        rows = np.vstack(self._rows)
        told = list(self._gaps(t))
        first = self._last_uptime if self._last_uptime is not None else int(uptime[0])
        span = np.maximum(np.diff(uptime, prepend=first), 0)
        if self._which.any():
            rows[:, self._which], fell, more = self._counters.moved(rows[:, self._which])
            told += [(int(t[each.row]), "counter", f"{each.name} {each.text}") for each in fell]
            if more:
                told.append((int(t[-1]), "counter", f"counters went back {more} more times"))
        self._last_t, self._last_uptime = self._t[-1], self._uptime[-1]
        self._t, self._uptime, self._rows = [], [], []
        return Block(t, span, np.ascontiguousarray(rows.T)), told

    def _gaps(self, t: Ints) -> Iterator[tuple[int, str, str]]:
        known = t if self._last_t is None else np.concatenate([[self._last_t], t])
        for before, after in gaps_of(known, self.group.every_ms):
            text = f"{self.group.name}: {(after - before) / 1000:.1f} s without a sample"
            yield after, "gap", text


def gaps_of(t: Ints, every_ms: int) -> list[tuple[int, int]]:
    """Return between which of the times `t` samples are missing."""
    if not every_ms:
        return []
    late = np.flatnonzero(np.diff(t) > LATE * every_ms)
    return [(int(t[at]), int(t[at + 1])) for at in late]
