"""paramiko's connection as we use it: algorithms by what they cost, no polling, no log.

Measured on one core of a server, a connection with one command: key exchange by group14 costs
28 ms of CPU, by curve25519 under 1 ms; what paramiko logs at each step, its timer threads and its
polling ten times a second cost as much as the rest.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

import paramiko

from kvgate.transport.packets import BoundedPacketizer

_IDLE_S = 1.0
"""How often a connection that waits looks whether a keep-alive is due."""


def _first(known: tuple[str, ...], *wanted: str) -> tuple[str, ...]:
    """Return `known` with those of `wanted` that are in it at its front: nothing is left out."""
    front = tuple(name for name in wanted if name in known)
    return front + tuple(name for name in known if name not in front)


class Link(paramiko.Transport):
    """A connection; `close` ends its thread at once. Nothing paramiko offers is left out."""

    _preferred_kex = _first(
        paramiko.Transport._preferred_kex,  # type: ignore[attr-defined]  # not in the stubs
        "curve25519-sha256",
        "curve25519-sha256@libssh.org",
    )
    _preferred_ciphers = _first(
        paramiko.Transport._preferred_ciphers,  # type: ignore[attr-defined]  # ditto
        "aes128-gcm@openssh.com",
        "aes256-gcm@openssh.com",
        "aes128-ctr",
    )
    _preferred_macs = _first(
        paramiko.Transport._preferred_macs,  # type: ignore[attr-defined]  # ditto
        "hmac-sha2-256-etm@openssh.com",
        "hmac-sha2-512-etm@openssh.com",
    )
    _active_check_timeout = _IDLE_S

    def __init__(self, stream: socket.socket | paramiko.Channel) -> None:
        super().__init__(stream, packetizer_class=BoundedPacketizer)

    def start_client(
        self, event: threading.Event | None = None, timeout: float | None = None
    ) -> None:
        """Shake hands, as paramiko's own does, without waking ten times a second to look."""
        done = event or threading.Event()
        super().start_client(done)
        if event is not None:
            return
        done.wait(timeout)
        if not self.is_active():
            raise self.get_exception() or paramiko.SSHException("Negotiation failed.")

    def auth_publickey(
        self, username: str, key: paramiko.PKey, event: threading.Event | None = None
    ) -> list[str]:
        """Log in, as paramiko's own does, without waking ten times a second to look."""
        done = event or threading.Event()
        told = super().auth_publickey(username, key, done)
        if event is None and self.auth_handler is not None:
            done.wait(self.auth_timeout)
            self.auth_timeout = 0.0  # it was waited for
            told = self.auth_handler.wait_for_response(done)
        return told

    def close(self) -> None:
        """Close the connection; whoever waits for it learns so at once."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self.sock.shutdown(socket.SHUT_RDWR)  # else its thread sits in recv till it looks again
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):  # a hop that is gone
            super().close()

    def _filter_algorithm(self, type_: str) -> tuple[str, ...]:
        """Return what is offered of a kind: we disable none, and paramiko asks 16 times."""
        offered: tuple[str, ...] = getattr(self, f"_preferred_{type_}")
        return offered

    def _log(self, level: int, msg: Any, *args: Any) -> None:
        """Log nothing: what matters is in our errors, and what hosts say is in no log."""

    def _log_agreement(self, which: str, local: str, remote: str) -> None:
        """Log nothing."""
