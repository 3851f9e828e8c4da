"""The pump: carries a leashed command's streams until it has ended, whatever the line is made of.

Bounded in time (a deadline, then the grace of the leash, then we give up) and in memory (output
over the cap is read, counted and dropped).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from kvgate.transport import leash
from kvgate.transport.kept import Kept

PIECE_BYTES = 64 * 1024
SLICE_S = 0.5
"""How long a pump sleeps at most: the end of a command whose streams stay open has no event."""

LINGER_S = 1.0
"""How long output may be silent after the exit before what holds it open is left behind."""

GIVE_UP_S = leash.GRACE_S + 2.0
"""How long after its deadline a command may take to end before we leave it to its leash."""

STATUS_S = 5.0
"""How long a host may take to tell the exit status of a command whose output has ended."""


class Line(Protocol):
    """The streams of one leashed command. One thread pumps; any may write a request or hang up."""

    def wait(self, timeout_s: float, *, to_write: bool) -> None:
        """Return when there is something to read (or room to write), at the latest at timeout."""
        ...

    def read(self) -> tuple[bytes, bytes]:
        """Return what has come on stdout and on stderr, without waiting, in bounded pieces."""
        ...

    def write(self, data: memoryview) -> int:
        """Return how much was taken, without waiting; BrokenPipeError where nobody reads."""
        ...

    def drained(self) -> bool:
        """Tell whether both output streams have ended and were read."""
        ...

    def exited(self) -> bool:
        """Tell whether the command is known to have ended."""
        ...

    def hang_up(self) -> None:
        """End its stdin, upon which the leash ends the command."""
        ...

    def status(self, timeout_s: float) -> int | None:
        """Return the exit status, None if none comes; HostUnreachableError if the link went."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class Pump:
    """Moves one command's bytes; `run` it in one thread, then ask `stdout`, `stderr`, `status`."""

    def __init__(
        self,
        line: Line,
        *,
        timeout_s: float,
        cap_bytes: int,
        stdin: bytes = b"",
        on_stdout: Callable[[bytes], None] | None = None,
        on_pid: Callable[[int], None] | None = None,
    ) -> None:
        self.stdout = Kept(cap_bytes)
        self.stderr = Kept(cap_bytes)
        self.status: int | None = None
        self.timed_out = False
        self._line = line
        self._stdin = memoryview(stdin)
        self._on_stdout = on_stdout
        self._on_pid = on_pid
        self._head = b""
        self._last_news = time.monotonic()
        self._deadline = self._last_news + timeout_s

    def run(self) -> None:
        """Carry until the command has ended or is given up; HostUnreachableError: lost link."""
        try:
            while not self._line.drained():
                now = time.monotonic()
                self._line.wait(
                    max(0.0, min(SLICE_S, self._deadline - now)), to_write=bool(self._stdin)
                )
                self._take()
                self._give()
                if self._over(time.monotonic()):
                    break
            if self._on_pid is not None:
                self.stderr.add(self._head)
            self.status = self._line.status(0.0 if self.timed_out else STATUS_S)
        finally:
            self._line.hang_up()
            self._line.close()

    def _take(self) -> None:
        out, err = self._line.read()
        if out or err:
            self._last_news = time.monotonic()
        self.stdout.add(out)
        self._take_stderr(err)
        if out and self._on_stdout is not None:
            self._on_stdout(out)

    def _give(self) -> None:
        if not self._stdin:
            return
        try:
            self._stdin = self._stdin[self._line.write(self._stdin[:PIECE_BYTES]) :]
        except BrokenPipeError:
            self._stdin = memoryview(b"")

    def _take_stderr(self, err: bytes) -> None:
        """Cut the leash's report out of stderr; before it stands only a login shell's noise."""
        if self._on_pid is None:
            self.stderr.add(err)
            return
        self._head += err
        found = leash.PID_LINE.search(self._head)
        if not found and len(self._head) < PIECE_BYTES:
            return
        on_pid, self._on_pid = self._on_pid, None
        start, end = found.span() if found else (0, 0)
        self.stderr.add(self._head[:start] + self._head[end:])
        if found:
            on_pid(int(found[1]))

    def _over(self, now: float) -> bool:
        """Tell whether to stop though output may still come; hang up at the deadline."""
        if self._line.exited():
            return now - self._last_news > LINGER_S
        if now < self._deadline:
            return False
        if self.timed_out:
            return True
        self.timed_out = True
        self._line.hang_up()
        self._deadline = now + GIVE_UP_S
        return False
