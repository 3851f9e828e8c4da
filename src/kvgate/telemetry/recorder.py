"""Writes a run's telemetry: into a log within half a minute, into columnar files each hour."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from kvgate.errors import KvgateError
from kvgate.store import disk
from kvgate.store.canonical import JSON, compact
from kvgate.store.layout import SERIES
from kvgate.store.telemetry_log import LogWriter
from kvgate.telemetry import hours
from kvgate.telemetry.block import BLOCK, EVENT, NAMES, Group, encode
from kvgate.telemetry.stream import Stream
from kvgate.telemetry.wire import Row

BLOCK_S = 30.0
"""How long samples wait in memory, at most, before they are written and on the medium."""

TICK_S = 0.5
RETRY_S = 30.0
"""How long after a write failed the next is tried, into a new log."""

MOST_EVENTS = 200
"""Events of one host in one block's time that are kept; more are counted."""


class Journal(Protocol):
    """Adds a record to the run's journal (`store.run.RunWriter.event`)."""

    def __call__(self, kind: str, **fields: JSON) -> object:
        """Add a record of `kind`."""
        ...


class Recorder:
    """The one writer of the telemetry of the run at `path`, whose lock its caller holds.

    Thread-safe. `clock` tells seconds since 1970 UTC and never steps. No trouble with the disk ends
    the work that is watched: it is told to `on_trouble`, what could not be written is counted, and
    writing goes on in a new log once it can. What a crash left as a log becomes columnar when the
    next recorder of the run begins.
    """

    def __init__(
        self,
        path: Path,
        *,
        journal: Journal,
        on_trouble: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self.lost = 0  # samples that could not be written
        self._folder = path / SERIES
        self._journal = journal
        self._on_trouble = on_trouble
        self._clock = clock
        self._lock = threading.Lock()
        self._streams: dict[tuple[str, str], Stream] = {}
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._unkept: dict[str, int] = {}
        self._log: LogWriter | None = None
        self._named: set[tuple[str, str, int]] = set()
        self._hour = 0
        self._slot = 0
        self._failed_at: float | None = None
        self._settling = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="telemetry")

    def __enter__(self) -> Self:
        disk.make_folder(self._folder)
        self._slot = int(self._clock() // BLOCK_S)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def names(
        self, host: str, group: str, every_ms: int, series: tuple[tuple[str, str], ...]
    ) -> None:
        """Take the names and specs of a group's series; its next samples have these."""
        with self._lock:
            before = self._streams.get((host, group))
            if before is not None and before.group.series == series:
                return
            if before is not None and len(before):
                self._flush(before)
            number = 1 if before is None else before.group.number + 1
            made = Group(host, group, number, every_ms, series)
            self._streams[host, group] = Stream(made, before)

    def sample(self, host: str, group: str, t_ms: int, uptime_ms: int, row: Row) -> None:
        """Take a sample of `group`, whose names are known."""
        with self._lock:
            self._streams[host, group].add(t_ms, uptime_ms, row)

    def numbers(
        self, host: str, group: str, t_ms: int, uptime_ms: int, values: Sequence[int]
    ) -> None:
        """Take a sample that the controller took itself."""
        self.sample(host, group, t_ms, uptime_ms, np.array(values, np.int64))

    def event(self, host: str, t_ms: int, event: dict[str, Any]) -> None:
        """Take something that happened: its ``kind`` and ``text``, and what belongs to it."""
        with self._lock:
            self._note(host, t_ms, event)

    def restarted(self, host: str) -> None:
        """Take it that `host` was started anew: its counters begin again."""
        with self._lock:
            for (name, _), stream in self._streams.items():
                if name == host:
                    if len(stream):
                        self._flush(stream)
                    stream.restart()

    def _note(self, host: str, t_ms: int, event: dict[str, Any]) -> None:
        held = self._events.setdefault(host, [])
        if len(held) < MOST_EVENTS:
            held.append({**event, "host": host, "t": t_ms})
        else:
            self._unkept[host] = self._unkept.get(host, 0) + 1

    def _work(self) -> None:
        self._tidy()
        while not self._over.wait(TICK_S):
            self._write(last=False)
        self._write(last=True)
        self._tidy()

    def _write(self, *, last: bool) -> None:
        """Write what has waited long enough, all of it at the `last`; begin a new log each hour."""
        now = self._clock()
        if not last and int(now // BLOCK_S) == self._slot:
            return
        self._slot = int(now // BLOCK_S)
        with self._lock:
            for stream in self._streams.values():
                if len(stream):
                    self._flush(stream)
            self._flush_events()
            log, over = self._log, last or int(now // 3600) != self._hour
            if over:
                self._log = None
        if log is None:
            return
        self._guarded(log.close if over else log.sync)
        if over and not last:
            self._tidy()

    def _flush(self, stream: Stream) -> None:
        """Write what `stream` holds as a block; its lock is held."""
        group = stream.group
        block, told = stream.take()
        for t, kind, text in told:
            self._note(group.host, t, {"kind": kind, "text": text})
        if stream.dropped:
            text = f"{group.name}: {stream.dropped} samples were dropped: not later than the last"
            self._note(group.host, int(block.t[-1]), {"kind": "dropped", "text": text})
            stream.dropped = 0
        if not self._ready():
            self.lost += len(block.t)
            return
        named = (group.host, group.name, group.number)
        if named not in self._named:
            self._add(NAMES, group.payload())
            self._named.add(named)
        if not self._add(BLOCK, encode(group, block)):
            self.lost += len(block.t)

    def _flush_events(self) -> None:
        now_ms = int(self._clock() * 1000)
        for host, count in self._unkept.items():
            text = f"{count} more events are not kept"
            self._events[host].append(
                {"kind": "unkept", "text": text, "host": host, "t": now_ms, "count": count}
            )
        self._unkept.clear()
        events = [each for held in self._events.values() for each in held]
        if events and self._ready():
            for event in events:
                self._add(EVENT, compact(event))
        self._events.clear()

    def _ready(self) -> bool:
        """Tell whether there is a log to write to; begins one where it is time."""
        if self._log is not None:
            return True
        if self._failed_at is not None and self._clock() - self._failed_at < RETRY_S:
            return False
        self._guarded(self._begin)
        return self._log is not None

    def _begin(self) -> None:
        now = self._clock()
        self._hour, self._named = int(now // 3600), set()
        moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
        self._log = LogWriter(self._folder / hours.log_name(self._folder, moment))

    def _add(self, kind: bytes, payload: bytes) -> bool:
        log = self._log
        if log is None:
            return False
        return self._guarded(lambda: log.add(kind, payload))

    def _guarded(self, change: Callable[[], object]) -> bool:
        """Make a change; one that fails gives the log up, is told, and tried again later."""
        try:
            change()
        except KvgateError as err:
            self._log, self._failed_at = None, self._clock()
            self._on_trouble(f"telemetry can't be written: {err.message}")
            return False
        return True

    def _tidy(self) -> None:
        """Make columnar files of every log that is not being written."""
        if self._settling:
            return
        self._settling = True
        with self._lock:  # no log begins between looking at which there are and which is written
            logs = hours.logs_in(self._folder, but=self._log.path if self._log else None)
        try:
            hours.settle(
                logs,
                journal=self._journal,
                meanwhile=lambda: self._write(last=False) if not self._over.is_set() else None,
                on_trouble=self._on_trouble,
            )
        except KvgateError as err:
            self._on_trouble(f"telemetry stays in its log: {err.message}")
        finally:
            self._settling = False
