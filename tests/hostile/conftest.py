"""A proxy on loopback that cuts a connection at the moment a test asks for."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close sends RST


class Proxy:
    """Passes connections on to `port`, and cuts them when a test asks for it."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.connections = 0
        self._cut_after: int | None = None
        self._passing = False
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, pieces: int, *, passing: bool = False) -> None:
        """Cut the connection in place of our piece after `pieces` more, or just behind it."""
        with self._lock:
            self._cut_after, self._passing = pieces, passing

    def cut(self) -> None:
        """Cut every connection now."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for stream in pair:
                with contextlib.suppress(OSError):
                    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    stream.shutdown(socket.SHUT_RDWR)
                stream.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                for stream in (near, far):
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self.connections += 1
                    self._pairs.append((near, far))
                for ends in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, ours: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                due = ours and self._due()
                if not due or self._passing:
                    target.sendall(piece)
                if due:
                    time.sleep(0.2)  # what was passed is taken in
                    self.cut()
                    return
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _due(self) -> bool:
        with self._lock:
            if self._cut_after is None:
                return False
            self._cut_after -= 1
            if self._cut_after >= 0:
                return False
            self._cut_after = None
            return True


@pytest.fixture
def proxied() -> Iterator[Callable[[int], Proxy]]:
    """Return a function that puts a proxy before a port; all are closed after the test."""
    made: list[Proxy] = []

    def make(port: int) -> Proxy:
        made.append(Proxy(port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()
