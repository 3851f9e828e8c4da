"""Reads SSH packets within bounds of memory, and with as few system calls as there are arrivals."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import paramiko
from paramiko.packet import NeedRekeyException, Packetizer

BANNER_BYTES = 64 * 1024
"""The most that is read before the line that begins with ``SSH-`` has ended (RFC 4253, 4.2)."""

PACKET_BYTES = 1024 * 1024
"""The largest packet that is taken; RFC 4253 (6.1) asks for 35,000 bytes, and no sshd sends more
than 256 KiB."""

_PIECE_BYTES = 32 * 1024
_LINE_PIECE_BYTES = 1024


class BoundedPacketizer(Packetizer):
    """A Packetizer that gives up on a host instead of holding whatever it sends.

    What has arrived is taken at once and packets are cut from it: paramiko's own asks the kernel
    twice for each packet, and for each of these waits with a poll.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._stream = stream
        self._arrived = b""
        self._banner_bytes = 0

    def close(self) -> None:
        """Close the stream; a way through a jump host that is gone already has nothing to say."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            super().close()

    def start_handshake(self, timeout: float) -> None:
        """Start no timer: `dial` closes the connection at its deadline, by one for all hosts."""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read `n` bytes; raises SSHException where that is more than a packet has.

        EOFError where the stream has ended; NeedRekeyException as paramiko's does, while idle.
        """
        if n > PACKET_BYTES or n < 0:
            raise paramiko.SSHException(f"it sends a packet of {n} bytes, which none has")
        if len(self._arrived) < n:
            self._read_up_to(n, check_rekey)
        out, self._arrived = self._arrived[:n], self._arrived[n:]
        return out

    def _read_up_to(self, n: int, check_rekey: bool) -> None:
        pieces, have = [self._arrived], len(self._arrived)
        while have < n:
            piece = self._receive(_PIECE_BYTES)
            if piece is not None:
                pieces.append(piece)
                have += len(piece)
                continue
            if check_rekey and not have and self.need_rekey():
                raise NeedRekeyException
            self._check_keepalive()  # type: ignore[attr-defined]  # not in the stubs
        self._arrived = b"".join(pieces)

    def readline(self, timeout: float) -> str:
        """Read a line of the banner; raises SSHException where it has no end."""
        until = time.monotonic() + timeout
        while b"\n" not in self._arrived:
            piece = self._receive(_LINE_PIECE_BYTES)
            if piece is None:
                if time.monotonic() >= until:
                    raise TimeoutError
                continue
            self._banner_bytes += len(piece)
            if self._banner_bytes > BANNER_BYTES:
                raise paramiko.SSHException(f": more than {BANNER_BYTES} bytes and no SSH in them")
            self._arrived += piece
        line, _, self._arrived = self._arrived.partition(b"\n")
        return line.removesuffix(b"\r").decode("utf-8")

    def _receive(self, most: int) -> bytes | None:
        """Return what has come, None when nothing does for a while; EOFError: it has ended."""
        if self.closed:
            raise EOFError
        try:
            piece: bytes = self._stream.recv(most)
        except TimeoutError:
            if self.closed:
                raise EOFError from None
            return None
        except OSError:
            if self.closed:
                raise EOFError from None
            raise
        if not piece:
            raise EOFError
        return piece
