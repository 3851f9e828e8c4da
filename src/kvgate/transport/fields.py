"""SSH's data types (RFC 4251, 5): read from packets without trust, and written."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import paramiko

_UINT32 = struct.Struct(">I")


class Reader:
    """Takes the fields of one packet in their order.

    Every method raises paramiko.SSHException where the packet ends before the field does.
    """

    def __init__(self, packet: bytes) -> None:
        self._packet = packet
        self._at = 0

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        end = self._at + count
        if end > len(self._packet):
            raise paramiko.SSHException("it sends a packet that is shorter than what is in it")
        taken, self._at = self._packet[self._at : end], end
        return taken

    def byte(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def uint32(self) -> int:
        """Return the next four bytes as a number."""
        return int(_UINT32.unpack(self.take(4))[0])

    def string(self) -> bytes:
        """Return the next string: its length stands before it."""
        return self.take(self.uint32())

    def text(self) -> str:
        """Return the next string as text; what is no UTF-8 is replaced."""
        return self.string().decode("utf-8", "replace")

    def names(self) -> tuple[str, ...]:
        """Return the next list of names."""
        return tuple(self.text().split(","))


def uint32(number: int) -> bytes:
    """Return `number` as four bytes."""
    return _UINT32.pack(number)


def string(data: bytes) -> bytes:
    """Return `data` with its length before it."""
    return _UINT32.pack(len(data)) + data


def names(listed: Sequence[str]) -> bytes:
    """Return a list of names."""
    return string(",".join(listed).encode("ascii"))


def mpint(number: bytes) -> bytes:
    """Return an unsigned number, given by its bytes from the highest on, as an mpint."""
    number = number.lstrip(b"\0")
    return string(b"\0" + number if number[:1] >= b"\x80" else number)
