"""Progress from the process that works to the one that shows it: JSON lines over a pipe.

Progress is for eyes only; what counts stands in the journal. A reader that went away never
disturbs the work.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
"""``{"t": "gate"|"test"|"step"|"done"|"progress", "text": …, "host": …, "awaits": …}``"""


class Progress:
    """Writes progress messages to a pipe; without one they go nowhere."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, kind: str, text: str, *, host: str = "", awaits: str = "") -> None:
        """Send one message; a closed pipe ends the sending, not the caller."""
        message = {"t": kind, "text": text, "host": host, "awaits": awaits}
        line = json.dumps(message, ensure_ascii=True).encode() + b"\n"
        with self._lock:
            if self._fd is None:
                return
            try:
                os.write(self._fd, line)
            except OSError:
                self._fd = None


def read_messages(fd: int, tell: Callable[[Message], None]) -> None:
    """Call `tell` for every message from `fd` until its writers are gone."""
    with os.fdopen(fd, "rb") as stream:
        for line in stream:
            try:
                message = json.loads(line)
            except ValueError:  # a line torn by a kill in mid-write
                continue
            if isinstance(message, dict):
                tell(message)
