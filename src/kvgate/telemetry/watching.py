"""Watches hosts while something is done on them: one recorder, and a channel to each host."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from kvgate.errors import KvgateError
from kvgate.telemetry.channel import Channel, Settings
from kvgate.telemetry.hostclock import ControllerClock
from kvgate.telemetry.recorder import Journal, Recorder
from kvgate.telemetry.scrape import Scraper
from kvgate.transport.base import Transport

WATCH_S = 1.0
"""How often channels are looked after."""

_AT_ONCE = 32


class Watching:
    """Records the telemetry of `ways` into the run at `path` from ``with`` to its end.

    The caller holds the run's lock. What is missing and why is noted in the `journal`; nothing that
    goes wrong with telemetry ends the block.
    """

    def __init__(
        self,
        path: Path,
        ways: Sequence[Transport],
        *,
        journal: Journal,
        settings: Settings,
        settings_of: Mapping[str, Settings] | None = None,
    ) -> None:
        self._clock = ControllerClock()
        self._journal = journal
        self._every_s = settings.every_s
        self._recorder = Recorder(
            path, journal=journal, on_trouble=self._note, clock=lambda: self._clock.ms() / 1000
        )
        own = settings_of or {}
        self.channels = tuple(
            Channel(way, self._recorder, self._clock, own.get(way.name, settings), self._note)
            for way in ways
        )
        self._opened = contextlib.ExitStack()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            opened.enter_context(self._recorder)
            with ThreadPoolExecutor(_AT_ONCE, "telemetry-start") as pool:
                for channel in pool.map(Channel.__enter__, self.channels):
                    opened.push(channel)
            watcher = threading.Thread(target=self._watch, name="telemetry-watch")
            watcher.start()
            opened.callback(watcher.join)
            opened.callback(self._over.set)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def scrape(self, host: str, name: str, url: str) -> None:
        """Record the metrics of an engine too, which the controller asks at `url`, from now on."""
        scraper = Scraper(host, name, url, self._recorder, self._clock, self._every_s)
        self._opened.enter_context(scraper)

    def counts(self) -> dict[str, int]:
        """Return host → how many samples came so far."""
        return {channel.host: channel.count for channel in self.channels}

    def _note(self, text: str) -> None:
        with contextlib.suppress(KvgateError):  # the run's own trouble shows where it is written
            self._journal("note", text=f"telemetry: {text}")

    def _watch(self) -> None:
        while not self._over.wait(WATCH_S):
            for channel in self.channels:
                channel.watch()
