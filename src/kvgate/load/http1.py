"""Reads one HTTP/1.1 response from bytes that arrive in any pieces (RFC 9112), within bounds."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import MappingProxyType

from kvgate.errors import ParseError

HEAD_CAP_BYTES = 64 * 2**10
"""The most a response's status line and headers may hold (8 KiB to 64 KiB are usual limits)."""

LINE_CAP_BYTES = 4096
"""The most a chunk's size line, or a trailer, may hold."""

INTERIM_MOST = 8
"""How many interim responses (1xx) may come before the one that counts."""

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: |$)")
_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")
_NUMBER = re.compile(rb"[0-9]{1,18}")


class Response:
    """One response as far as it has come.

    ``status`` is None until the head is whole. Nothing is kept of the body: `feed` gives it out.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.complete = False
        self.keep_alive = False
        self._buffer = b""
        self._interim = 0
        self._chunked = False
        self._in_trailer = False
        self._left: int | None = None  # bytes of the body or chunk to come; None: until the end
        self._claimed = 0
        self._after_chunk = False
        self._at_size = False  # what comes next begins with a chunk's size

    @property
    def content_type(self) -> str:
        """Return the media type without its parameters, "" where there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the pieces of the body that `data` holds; raises ParseError for no HTTP/1.1."""
        if self._at_size:  # most often, a piece is one chunk
            end = data.find(b"\r\n")
            size = _size(data[:end]) if 0 < end <= LINE_CAP_BYTES else 0
            if size and len(data) == end + 4 + size and data.endswith(b"\r\n"):
                return [data[end + 2 : -2]]
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        at = 0
        if self.status is None:
            at = self._read_head(data)
            if self.status is None:
                return []
        if self.complete:
            return []
        return self._read_chunks(data, at) if self._chunked else self._read_plain(data, at)

    def end(self) -> str:
        """Take the connection's end; return what it cut off, "" if nothing."""
        if self.complete:
            return ""
        if self.status is None:
            return "before it had answered" if not self._buffer else "in the answer's headers"
        if self._chunked:
            return "before the last chunk"
        if self._left is not None:
            return f"after {self._claimed - self._left:,} of {self._claimed:,} bytes"
        self.complete = True
        return ""

    def _read_head(self, data: bytes) -> int:
        """Read heads up to that of the response itself; return where its body begins."""
        at = 0
        while (end := data.find(b"\r\n\r\n", at)) >= 0 and end - at <= HEAD_CAP_BYTES:
            status = self._read_lines(data[at:end])
            at = end + 4
            if status >= 200:
                self.status = status
                self._choose_framing()
                return at
            self._interim += 1
            if self._interim > INTERIM_MOST:
                raise ParseError(f"more than {INTERIM_MOST} interim responses")
        if len(data) - at > HEAD_CAP_BYTES:
            raise ParseError(f"a response whose headers are over {HEAD_CAP_BYTES // 1024} KiB")
        if len(data) - at >= 5 and not data.startswith(b"HTTP/", at):
            raise ParseError(f"no HTTP response: {data[at : at + 40]!r}")
        self._buffer = data[at:]
        return at

    def _read_lines(self, head: bytes) -> int:
        version, status, self.headers = _lines(head)
        said = self.headers.get("connection", "").lower()
        self.keep_alive = "close" not in said and (version == b"1" or "keep-alive" in said)
        return status

    def _choose_framing(self) -> None:
        """Choose how the body ends (RFC 9112, section 6.3)."""
        coding = self.headers.get("transfer-encoding")
        length = self.headers.get("content-length")
        if coding is not None:
            if coding.lower() != "chunked":
                raise ParseError(f"a transfer coding that was not asked for: {coding[:40]!r}")
            self._chunked, self._left, self._at_size = True, 0, True
        elif self.status in (204, 304):
            self.complete = True
        elif length is not None:
            if _NUMBER.fullmatch(length.encode("latin-1")) is None:
                raise ParseError(f"a length that is no number: {length[:40]!r}")
            self._left = self._claimed = int(length)
            self.complete = self._left == 0
        else:
            self.keep_alive = False

    def _read_plain(self, data: bytes, at: int) -> list[bytes]:
        piece = data[at:] if at else data
        if self._left is not None:
            if len(piece) > self._left:  # more than was promised: what comes after is not ours
                piece, self.keep_alive = piece[: self._left], False
            self._left -= len(piece)
            self.complete = self._left == 0
        return [piece] if piece else []

    def _read_chunks(self, data: bytes, at: int) -> list[bytes]:
        pieces: list[bytes] = []
        length = len(data)
        while at < length:
            if not (self._left or self._after_chunk or self._in_trailer):  # whole chunks, quickly
                end = data.find(b"\r\n", at, at + LINE_CAP_BYTES)
                size = _size(data[at:end]) if end > at else 0
                if size and data.startswith(b"\r\n", end + 2 + size):
                    pieces.append(data[end + 2 : end + 2 + size])
                    at = end + 4 + size
                    continue
            if self._left:
                end = at + self._left
                pieces.append(data[at:end])
                self._left -= len(pieces[-1])
                self._after_chunk = not self._left
                at = min(end, length)
                continue
            if self._after_chunk and data[at : at + 2] not in (b"\r\n", b"\r"):
                raise ParseError(f"a chunk longer than its size says: {data[at : at + 40]!r}")
            end = data.find(b"\r\n", at)
            if end < 0:
                if length - at > LINE_CAP_BYTES:
                    raise ParseError(f"a chunk's size of over {LINE_CAP_BYTES} bytes")
                self._buffer = data[at:]
                break
            self._take_line(data[at:end])
            at = end + 2
            if self.complete:
                self.keep_alive = self.keep_alive and at == length
                break
        between = not (self._left or self._after_chunk or self._buffer)
        self._at_size = between and not (self._in_trailer or self.complete)
        return pieces

    def _take_line(self, line: bytes) -> None:
        """Take a line between chunks: a chunk's end, a size, a trailer, or the end of all."""
        if self._after_chunk:
            self._after_chunk = False
        elif self._in_trailer:
            self.complete = not line
        else:
            self._left = _size(line)
            self._in_trailer = self._left == 0


@functools.lru_cache(maxsize=4096)
def _size(line: bytes) -> int:
    """Return the size that a chunk's first line says; answers' chunks are of few sizes."""
    size = line.partition(b";")[0].strip()
    if _SIZE.fullmatch(size) is None:
        raise ParseError(f"a chunk's size that is no number: {line[:40]!r}")
    return int(size, 16)


@functools.lru_cache(maxsize=16)
def _lines(head: bytes) -> tuple[bytes, int, Mapping[str, str]]:
    """Return a head's minor version, status and headers; answers' heads are alike for a second."""
    lines = head.split(b"\r\n")
    match = _STATUS.match(lines[0])
    if match is None:
        raise ParseError(f"no HTTP/1.1 status line: {lines[0][:60]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise ParseError(f"no header: {line[:60]!r}")
        key, text = name.decode("latin-1").lower(), value.strip().decode("latin-1")
        if key == "content-length" and headers.get(key, text) != text:
            raise ParseError(f"two lengths of one body: {headers[key]} and {text}")
        headers[key] = text
    return match[1], int(match[2]), MappingProxyType(headers)
