"""Keeps paramiko within bounds of memory: a host may announce any packet, or a line without end."""

from __future__ import annotations

import paramiko
from paramiko.packet import Packetizer

BANNER_BYTES = 64 * 1024
"""The most that is read before the line that begins with ``SSH-`` has ended (RFC 4253, 4.2)."""

PACKET_BYTES = 1024 * 1024
"""The largest packet that is taken; RFC 4253 (6.1) asks for 35,000 bytes, and no sshd sends more
than 256 KiB."""


class BoundedPacketizer(Packetizer):
    """A Packetizer that gives up on a host instead of holding whatever it sends."""

    _banner_bytes = 0

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read `n` bytes; raises SSHException where that is more than a packet has."""
        if n > PACKET_BYTES or n < 0:
            raise paramiko.SSHException(f"it sends a packet of {n} bytes, which none has")
        return super().read_all(n, check_rekey)

    def _read_timeout(self, timeout: float) -> bytes:
        """Read a piece of the banner; raises SSHException where it has no end."""
        piece: bytes = super()._read_timeout(timeout)  # type: ignore[misc]  # not in the stubs
        self._banner_bytes += len(piece)
        if self._banner_bytes > BANNER_BYTES:
            raise paramiko.SSHException(f": more than {BANNER_BYTES} bytes and no SSH in them")
        return piece
