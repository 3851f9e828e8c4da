"""Alarms: what has to happen at a deadline, for any number of waiters, with one thread for all."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator

_LOG = logging.getLogger(__name__)


class _Clock:
    """Calls back at deadlines from one thread of its own, begun with the first alarm."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int]] = []
        self._calls: dict[int, Callable[[], object]] = {}
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def set(self, seconds: float, call: Callable[[], object]) -> int:
        """Have `call` made in `seconds`; return the alarm's number."""
        with self._changed:
            number = next(self._numbers)
            self._calls[number] = call
            heapq.heappush(self._heap, (time.monotonic() + seconds, number))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="alarms", daemon=True)
                self._thread.start()
            elif self._heap[0][1] == number:
                self._changed.notify()
            return number

    def forget(self, number: int) -> None:
        """Make the call no more, unless it is being made already."""
        with self._changed:
            self._calls.pop(number, None)
            if len(self._heap) > 64 and len(self._heap) > 2 * len(self._calls):
                self._heap = [each for each in self._heap if each[1] in self._calls]
                heapq.heapify(self._heap)

    def _work(self) -> None:
        while True:
            call = self._due()
            try:
                call()
            except Exception:  # noqa: BLE001  a caller's alarm must not end those of all others
                _LOG.exception("an alarm failed")

    def _due(self) -> Callable[[], object]:
        with self._changed:
            while True:
                if not self._heap:
                    self._changed.wait()
                    continue
                left = self._heap[0][0] - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                call = self._calls.pop(heapq.heappop(self._heap)[1], None)
                if call is not None:
                    return call


_clock = _Clock()


@contextlib.contextmanager
def after(seconds: float, call: Callable[[], object]) -> Iterator[None]:
    """Make `call`, from another thread, if the block lasts longer than `seconds`.

    The call must return soon: it holds up the alarms of others.
    """
    number = _clock.set(seconds, call)
    try:
        yield
    finally:
        _clock.forget(number)
