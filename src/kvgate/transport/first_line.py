"""The first line of a long command, as it comes: by it a process says that it is ready."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_MOST_BYTES = 4096
_LOOK_EVERY_S = 0.05


class FirstLine:
    """Collects what a process says, from the transport's thread, up to its first line."""

    def __init__(self) -> None:
        self._said = b""
        self._came = threading.Condition()

    def take(self, piece: bytes) -> None:
        """Take bytes as they come (`Transport.start`'s ``on_stdout``)."""
        with self._came:
            self._said = (self._said + piece)[:_MOST_BYTES]
            self._came.notify_all()

    def line(self, within_s: float, *, ended: Callable[[], bool]) -> bytes:
        """Return the line, or b"" if none came within the time or before the process `ended`."""
        until = time.monotonic() + within_s
        with self._came:
            while b"\n" not in self._said and time.monotonic() < until and not ended():
                self._came.wait(_LOOK_EVERY_S)
            line, newline, _ = self._said.partition(b"\n")
            return line + newline if newline else b""
