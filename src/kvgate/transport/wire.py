"""SSH packets over a socket that one thread at a time uses: framed, sealed, within bounds.

RFC 4253 (4.2 and 6); once keys are agreed, AES-GCM (RFC 5647 under OpenSSH's names). There is no
thread and no timer here: who waits says until when, by `time.monotonic`.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import time

import paramiko
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kvgate.transport.fields import uint32
from kvgate.transport.packets import BANNER_BYTES, PACKET_BYTES

VERSION = b"SSH-2.0-kvgate"
_PIECE_BYTES = 64 * 1024
_TAG_BYTES = 16
_LEAST_PADDING = 4
_COUNTS = 1 << 64
_UNSENT_BYTES = 2**20


class Seal:
    """AES-GCM in one direction: a key, and a nonce that is counted up with each packet."""

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._cipher = AESGCM(key)
        self._fixed = nonce[:4]
        self._count = int.from_bytes(nonce[4:], "big")

    def _nonce(self) -> bytes:
        nonce = self._fixed + self._count.to_bytes(8, "big")
        self._count = (self._count + 1) % _COUNTS
        return nonce

    def shut(self, length: bytes, plain: bytes) -> bytes:
        """Return `plain` encrypted, its tag behind it; `length` is protected and stays readable."""
        return self._cipher.encrypt(self._nonce(), plain, length)

    def opened(self, length: bytes, sealed: bytes) -> bytes:
        """Return what `shut` was given; raises SSHException where a bit of it has changed."""
        try:
            return self._cipher.decrypt(self._nonce(), sealed, length)
        except InvalidTag as err:
            raise paramiko.SSHException("a packet was altered on its way") from err


def _silence(err: TimeoutError) -> ConnectionAbortedError:
    """Return what TCP gives up on as a lost connection: TimeoutError is our own clock's here."""
    return ConnectionAbortedError(str(err))


class Wire:
    """Packets over `stream`.

    Reading and writing raise EOFError or OSError where the connection has ended, TimeoutError at
    the time given, and paramiko.SSHException where what comes is no SSH or has no bounds.
    """

    def __init__(self, stream: socket.socket) -> None:
        stream.setblocking(False)
        self._stream = stream
        self._poll = select.poll()
        self._poll.register(stream, select.POLLIN)
        self._events = select.POLLIN
        self._arrived = bytearray()
        self._unsent = bytearray()
        self._shut: Seal | None = None
        self._opened: Seal | None = None
        self.carried = 0
        """How many bytes have come."""

    def greet(self, until: float) -> bytes:
        """Return the host's version line; ours is sent before, with what was `put` behind it."""
        self._unsent[:0] = VERSION + b"\r\n"
        self.flush(until)
        read = 0
        while True:
            line, newline, rest = self._arrived.partition(b"\n")
            if read + len(line) > BANNER_BYTES:
                raise paramiko.SSHException(f": more than {BANNER_BYTES} bytes and no SSH in them")
            if not newline:
                self._receive(until)
                continue
            read += len(line)
            self._arrived = rest
            if line.startswith((b"SSH-2.0-", b"SSH-1.99-")):
                return bytes(line.removesuffix(b"\r"))
            if line.startswith(b"SSH-"):
                raise paramiko.SSHException("it speaks another version of SSH")

    def put(self, payload: bytes) -> None:
        """Frame and seal a packet, to be sent by `flush` or `flush_some`."""
        shut = self._shut
        if len(self._unsent) > _UNSENT_BYTES:
            raise paramiko.SSHException("it asks without end and reads no answer")
        block = 16 if shut else 8
        ahead = 1 if shut else 5  # bytes before the payload that are padded with it
        padding = block - (ahead + len(payload)) % block
        if padding < _LEAST_PADDING:
            padding += block
        length = uint32(1 + len(payload) + padding)
        plain = bytes((padding,)) + payload + os.urandom(padding)
        self._unsent += length + (shut.shut(length, plain) if shut else plain)

    def seal(self, shut: Seal) -> None:
        """Seal what is put from now on."""
        self._shut = shut

    def unseal(self, opened: Seal) -> None:
        """Open what comes from now on."""
        self._opened = opened

    def flush(self, until: float) -> None:
        """Send all that was put."""
        while not self.flush_some():
            self.wait(until - time.monotonic())
            if time.monotonic() >= until:
                raise TimeoutError

    def flush_some(self) -> bool:
        """Send what the kernel takes without waiting; tell whether that is all."""
        try:
            while self._unsent:
                sent = self._stream.send(self._unsent)
                del self._unsent[:sent]
        except BlockingIOError:
            return False
        except TimeoutError as err:
            raise _silence(err) from err
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for something to come, or for room for what is unsent; tell whether it did."""
        events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        if events != self._events:
            self._events = events
            self._poll.modify(self._stream, events)
        return bool(self._poll.poll(max(0.0, seconds) * 1000))

    def packet(self, until: float) -> bytes:
        """Return the next packet, waiting for it."""
        while (packet := self.arrived()) is None:
            self._receive(until)
        return packet

    def look(self) -> bool:
        """Take in what has come, without waiting; tell whether there was anything."""
        try:
            piece = self._stream.recv(_PIECE_BYTES)
        except BlockingIOError:
            return False
        except TimeoutError as err:
            raise _silence(err) from err
        if not piece:
            raise EOFError
        self._arrived += piece
        self.carried += len(piece)
        return True

    def _receive(self, until: float) -> None:
        """Take in what comes; a host that talks without end gets no more time than a silent one."""
        while (left := until - time.monotonic()) > 0:
            if self.look():
                return
            self.wait(left)
            if self._unsent:
                self.flush_some()
        raise TimeoutError

    def arrived(self) -> bytes | None:
        """Return the next packet that has arrived whole, None where there is none yet."""
        length, end = self._next()
        if length > PACKET_BYTES or 0 <= length < 2:
            raise paramiko.SSHException(f"it sends a packet of {length} bytes, which none has")
        if len(self._arrived) < end:
            return None
        head, body = bytes(self._arrived[:4]), bytes(self._arrived[4:end])
        del self._arrived[:end]
        if self._opened:
            body = self._opened.opened(head, body)
        padding = body[0]
        if padding + 1 >= length:
            raise paramiko.SSHException("it sends a packet of nothing but padding")
        return body[1 : length - padding]

    def _next(self) -> tuple[int, int]:
        """Return the next packet's length and where it ends; -1 and never: not known yet."""
        if len(self._arrived) < 4:
            return -1, sys.maxsize
        length = int.from_bytes(self._arrived[:4], "big")
        return length, 4 + length + (_TAG_BYTES if self._opened else 0)

    @property
    def holds(self) -> bool:
        """Tell whether a packet has arrived whole that nobody has taken: no poll tells of it."""
        return len(self._arrived) >= self._next()[1]

    @property
    def unsent(self) -> bool:
        """Tell whether something that was put waits for room."""
        return bool(self._unsent)

    def hang_up(self) -> None:
        """End the connection; whoever waits on it, in another thread, learns so at once."""
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection, which nobody uses any more."""
        self.hang_up()
        self._stream.close()
