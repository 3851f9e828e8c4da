"""Asks an engine for its /metrics once a second, from the controller."""

from __future__ import annotations

import http.client
import threading
import time
import urllib.request
from typing import Self

from kvgate.telemetry.hostclock import ControllerClock
from kvgate.telemetry.hostread import body, metrics
from kvgate.telemetry.recorder import Recorder
from kvgate.telemetry.wire import MISSING
from kvgate.untrusted import mask, plain

_TIMEOUT_S = 5.0


class Scraper:
    """Records what an engine on `host` tells at `url`, from ``with`` to its end.

    An engine that does not answer leaves a gap and an event that says why, once.
    """

    def __init__(
        self,
        host: str,
        name: str,
        url: str,
        recorder: Recorder,
        clock: ControllerClock,
        every_s: float = 1.0,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url} is no address of an engine's metrics")
        self._host, self._group, self._url = host, f"engine:{name}", url
        self._recorder, self._clock, self._every_s = recorder, clock, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"metrics of {host}", daemon=True)
        self._told = ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_TIMEOUT_S + 1)

    def _work(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due = max(due + self._every_s, time.monotonic())
            try:
                self._scrape()
                self._told = ""
            except (OSError, ValueError, http.client.HTTPException) as err:
                text = mask(plain(f"{self._url}: {type(err).__name__}: {err}"))[:300]
                if text != self._told:
                    event = {"kind": "metrics", "text": text}
                    self._recorder.event(self._host, round(self._clock.ms()), event)
                self._told = text

    def _scrape(self) -> None:
        with urllib.request.urlopen(self._url, timeout=_TIMEOUT_S) as answer:  # noqa: S310  checked
            found = metrics(body(answer, _TIMEOUT_S))
        if not found:
            raise ValueError("no metric is in the answer")
        series = tuple((name, spec) for name, (spec, _) in found.items())
        values = [MISSING if value is None else value for _, value in found.values()]
        now, uptime = round(self._clock.ms()), time.monotonic_ns() // 10**6
        self._recorder.names(self._host, self._group, round(1000 * self._every_s), series)
        self._recorder.numbers(self._host, self._group, now, uptime, values)
