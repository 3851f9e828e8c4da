"""Waiting that says what for: nothing of the lab takes over two seconds in silence."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kvgate.errors import HarnessError

Say = Callable[[str], None]
"""What takes a line of progress for people."""

EVERY_S = 2.0
_PAUSE_S = 0.1


def quiet(_line: str) -> None:
    """Say nothing."""


class Waiting:
    """A wait for `what` of at most `limit_s`; `pause` tells every two seconds that it goes on."""

    def __init__(self, say: Say, what: str, limit_s: float) -> None:
        self._say = say
        self._what = what
        self._limit_s = limit_s
        self._began = time.monotonic()
        self._said = self._began

    @property
    def elapsed_s(self) -> float:
        """Return how long it has taken so far."""
        return time.monotonic() - self._began

    def pause(self, detail: str = "", pause_s: float = _PAUSE_S) -> None:
        """Wait a moment; raises HarnessError with `detail` where the limit is over."""
        if self.elapsed_s > self._limit_s:
            raise HarnessError(
                f"lab: awaited {self._what} for {self._limit_s:.0f} s in vain"
                + (f"; last seen: {detail}" if detail else ""),
                hint="a machine under load is slower: see the load, and --patience",
            )
        if time.monotonic() - self._said >= EVERY_S:
            self._said = time.monotonic()
            told = f" ({detail})" if detail else ""
            self._say(f"awaiting {self._what}, {self.elapsed_s:.0f} s{told}")
        time.sleep(pause_s)


@contextlib.contextmanager
def alone(lock: Path, waiting: Waiting) -> Iterator[None]:
    """Hold the lock (flock) of the file `lock` for the block; who holds it is awaited.

    Raises HarnessError where `waiting` is over.
    """
    with lock.open("w") as held:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting.pause()
            else:
                break
        yield
