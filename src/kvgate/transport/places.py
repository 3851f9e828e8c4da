"""How many sessions a connection has room for, learnt from the host's refusals (MaxSessions)."""

from __future__ import annotations

import threading
import time

from kvgate.errors import CommandError


class Places:
    """The sessions open on one connection; once a refusal showed the limit, `take` waits."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._free = threading.Condition()
        self._taken = 0
        self._limit: int | None = None

    def take(self, until: float) -> None:
        """Take a place; raises CommandError if none is free by the monotonic time `until`."""
        with self._free:
            while self._limit is not None and self._taken >= self._limit:
                if not self._free.wait(max(0.0, until - time.monotonic())):
                    raise CommandError(
                        self._host, f"all {self._limit} sessions of the connection are in use",
                        hint="raise MaxSessions in the host's sshd_config",
                    )
            self._taken += 1

    def give(self) -> None:
        """Give a place back."""
        with self._free:
            self._taken -= 1
            self._free.notify()

    def refused(self) -> bool:
        """Give back a place that the host refused; tell whether waiting for another makes sense."""
        with self._free:
            self._taken -= 1
            self._limit = max(1, self._taken)
            return self._taken > 0
