"""The way to the machine kvgate runs on: child processes on the same leash as everywhere."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import threading

from kvgate.errors import CommandError
from kvgate.transport.leashed import Leashed
from kvgate.transport.pump import PIECE_BYTES, Line

_PIECES = 16


class LocalTransport(Leashed):
    """A Transport whose host is this machine; there is no connection to open or to lose."""

    def __init__(self, name: str = "local") -> None:
        super().__init__(name)

    def open(self) -> None:
        """Return at once: this machine is there."""

    def _line(self, words: list[str], timeout_s: float) -> Line:  # noqa: ARG002  nothing to wait for
        try:
            return _PipeLine(words)
        except OSError as err:
            raise CommandError(
                self.name, f"no process can be started: {err.strerror or err}"
            ) from err


class _PipeLine:
    """A leash as a child process of ours; its stdin ends when we do (no one else holds it)."""

    def __init__(self, words: list[str]) -> None:
        encoded = [word.encode("utf-8", "surrogateescape") for word in words]
        self._child = subprocess.Popen(
            encoded,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        if not (self._child.stdin and self._child.stdout and self._child.stderr):
            raise OSError("no pipes")
        self._stdin = self._child.stdin
        self._out, self._err = self._child.stdout.fileno(), self._child.stderr.fileno()
        self._lock = threading.Lock()  # guards stdin: requests and hanging up come from any thread
        self._selector = selectors.PollSelector()
        for fd in (self._out, self._err):
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ)
        os.set_blocking(self._stdin.fileno(), False)
        self._open = {self._out, self._err}
        self._watches_stdin = False

    def wait(self, timeout_s: float, *, to_write: bool) -> None:
        with self._lock:
            if to_write != self._watches_stdin and not self._stdin.closed:
                self._watch_stdin(to_write)
        self._selector.select(timeout_s)

    def read(self) -> tuple[bytes, bytes]:
        return self._read(self._out), self._read(self._err)

    def write(self, data: memoryview) -> int:
        with self._lock:
            if self._stdin.closed:
                raise BrokenPipeError("the line was hung up")
            try:
                return os.write(self._stdin.fileno(), data)
            except BlockingIOError:
                return 0

    def drained(self) -> bool:
        return not self._open

    def exited(self) -> bool:
        return self._child.poll() is not None

    def hang_up(self) -> None:
        with self._lock:
            if not self._stdin.closed:
                if self._watches_stdin:
                    self._watch_stdin(False)
                self._stdin.close()

    def status(self, timeout_s: float) -> int | None:
        try:
            status = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return status if status >= 0 else 128 - status

    def close(self) -> None:
        self.hang_up()
        self._selector.close()
        for stream in (self._child.stdout, self._child.stderr):
            if stream:
                stream.close()

    def _watch_stdin(self, wanted: bool) -> None:
        if wanted:
            self._selector.register(self._stdin.fileno(), selectors.EVENT_WRITE)
        else:
            self._selector.unregister(self._stdin.fileno())
        self._watches_stdin = wanted

    def _read(self, fd: int) -> bytes:
        pieces: list[bytes] = []
        with contextlib.suppress(BlockingIOError):
            while fd in self._open and len(pieces) < _PIECES:
                piece = os.read(fd, PIECE_BYTES)
                if not piece:
                    self._open.discard(fd)
                    self._selector.unregister(fd)
                    break
                pieces.append(piece)
        return b"".join(pieces)
