"""Keeps a sampler running on one host for as long as a block lasts, and notices its silence."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
import types
from collections.abc import Callable, Mapping
from typing import Any, Self

from kvgate.errors import KvgateError
from kvgate.telemetry import rates, script
from kvgate.telemetry.snapshot import Snapshot, Splitter, parse
from kvgate.transport.base import HostProcess, Transport

SILENT_AFTER = 5.0
"""Intervals without a sample after which a sampler is silent: said once, then started anew."""

Sink = Callable[[Mapping[str, Any]], None]
"""Takes a sample (`store.run.RunWriter.telemetry`)."""


class Sampler:
    """Samples one host from ``with`` to its end; samples go to `sink` as they come.

    `watch` is called now and then by whoever works meanwhile: it notices a sampler that ended or
    fell silent, tells `on_gap`, and starts it anew. No trouble with sampling ends the block: what
    is missing shows in ``count`` and in the samples' notes.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        every_s: float,
        deadline_s: float,
        sink: Sink,
        on_gap: Callable[[str], None],
    ) -> None:
        self.host = transport.name
        self.count = 0  # samples that reached the sink
        self._transport = transport
        self._every_s = every_s
        self._deadline_s = deadline_s
        self._sink = sink
        self._on_gap = on_gap
        self._process: HostProcess | None = None
        self._lock = threading.Lock()
        self._before: Snapshot | None = None
        self._heard = time.monotonic()
        self._troubles: list[str] = []

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._stop()
        self._tell()

    def watch(self) -> None:
        """Look after the sampler; costs nothing when it is well."""
        self._tell()
        silent_s = time.monotonic() - self._heard
        ended = self._process is None or self._process.poll()
        if silent_s < SILENT_AFTER * self._every_s and not (ended and silent_s > self._every_s):
            return
        how = "ended" if ended else "is silent"
        self._on_gap(f"{self.host}: the sampler {how}; no sample for {silent_s:.1f} s")
        self._stop()
        self._start()

    def _tell(self) -> None:
        with self._lock:
            troubles, self._troubles = self._troubles, []
        for text in troubles:
            self._on_gap(f"{self.host}: {text}")

    def _start(self) -> None:
        self._heard = time.monotonic()
        splitter = Splitter()  # of its own: late bytes of the one before must not mix in
        try:
            self._process = self._transport.start(
                script.command(round(self._every_s * 100)),
                deadline_s=self._deadline_s,
                on_stdout=lambda piece: self._take(splitter, piece),
                cap_bytes=4096,
            )
        except KvgateError as err:
            self._process = None
            self._trouble(f"the sampler can't be started: {err.message}")

    def _stop(self) -> None:
        if self._process is not None:
            with contextlib.suppress(KvgateError):  # gone already: the gap is told by `watch`
                self._process.stop(grace_s=1.0)
            self._process = None

    def _trouble(self, text: str) -> None:
        with self._lock:
            self._troubles.append(text)

    def _take(self, splitter: Splitter, piece: bytes) -> None:
        """Take bytes as they come, in the transport's thread, which no error may leave."""
        try:
            for text in splitter.feed(piece):
                self._sample(parse(text))
        except KvgateError as err:
            self._trouble(err.message)

    def _sample(self, now: Snapshot) -> None:
        self._heard = time.monotonic()
        at = datetime.datetime.now(datetime.UTC)
        self._sink(rates.sample(self.host, at, self._before, now, every_s=self._every_s))
        self._before = now
        self.count += 1
