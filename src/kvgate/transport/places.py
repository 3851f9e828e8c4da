"""How many sessions a connection has room for, learnt from the host's refusals (MaxSessions)."""

from __future__ import annotations

import threading
import time

from kvgate.errors import CommandError

_MOMENT_S = 0.05


class Places:
    """The sessions open on one connection; once a refusal showed the limit, `take` waits."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._free = threading.Condition()
        self._taken = 0  # open, or being asked for
        self._open = 0
        self._most = 0  # that were ever open at once: so many are known to fit
        self._limit: int | None = None

    def take(self, until: float) -> None:
        """Take a place; raises CommandError if none is free by the monotonic time `until`."""
        with self._free:
            while self._limit is not None and self._taken >= self._limit:
                if not self._free.wait(max(0.0, until - time.monotonic())):
                    raise CommandError(
                        self._host,
                        f"all {self._limit} sessions of the connection are in use",
                        hint="raise MaxSessions in the host's sshd_config",
                    )
            self._taken += 1

    def idle(self) -> bool:
        """Tell whether no session is open or being asked for."""
        with self._free:
            return not self._taken

    def opened(self) -> None:
        """Note that the host opened a session on a place that was taken."""
        with self._free:
            self._open += 1
            self._most = max(self._most, self._open)

    def give(self, *, opened: bool = True) -> None:
        """Give a place back, with the session that was `opened` on it."""
        with self._free:
            self._taken -= 1
            self._open -= opened
            self._free.notify()

    def refused(self, until: float) -> bool:
        """Give back a place that the host refused; tell whether to ask for one again.

        Waits for a session to end, or a moment: one that has ended here may still count there.
        """
        with self._free:
            self._taken -= 1
            if not self._most or time.monotonic() > until:
                return False
            self._limit = max(1, self._most)
            self._free.wait(_MOMENT_S)
            return True
