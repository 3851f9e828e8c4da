"""Files of traces as bytes: whole lines by the chunk, unpacked from gzip and zstd, BOM dropped."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from kvgate.errors import UsageError

CHUNK = 2**20
"""Bytes read at once: with a few copies of them, a reader's memory. More would leave the caches."""

HEAD = 65536
"""Bytes by which a file's format is known."""

MOST_LINE = 256 * 2**20
"""Bytes of one line, at most."""

_PACKED = 4096
"""Bytes of zstd that are unpacked at once: they may become 32,768 times as many."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BOMS = (b"\xff\xfe", b"\xfe\xff")


class TraceError(UsageError):
    """A trace can't be read as one: the message says which file and line, and what is wrong."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of a file: their bytes, which end with a newline, and the first one's number."""

    content: bytes
    first_line: int


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open `path` for reading what is packed in it; raises TraceError.

    gzip and zstd are known by their first bytes, not by the file's name.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            if magic.startswith(_GZIP):
                with gzip.open(file, "rb") as packed:
                    yield cast("IO[bytes]", packed)
            elif magic == _ZSTD:
                yield cast("IO[bytes]", _Frames(file, _zstd(path)))
            else:
                yield file
    except OSError as err:
        raise TraceError(f"{path}: {err.strerror or err}") from err


class _Frames:
    """What is packed in a file of zstd frames; a last one that is cut off raises EOFError.

    The library's own reader ends in silence there: a trace would be smaller than it is.
    """

    def __init__(self, file: IO[bytes], zstd: Any) -> None:
        self._file, self._zstd = file, zstd
        self._frame: Any = None
        self._held, self._at = b"", 0

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        while self._at == len(self._held):
            packed = self._file.read(_PACKED)
            if not packed:
                if self._frame is not None:
                    raise EOFError("the last zstd frame has no end")
                return b""
            self._held, self._at = self._unpacked(packed), 0
        found = self._held[self._at : self._at + size]
        self._at += len(found)
        return found

    def _unpacked(self, packed: bytes) -> bytes:
        found = []
        while packed:
            if self._frame is None:
                self._frame = self._zstd.ZstdDecompressor().decompressobj()
            found.append(self._frame.decompress(packed))
            packed = b""
            if self._frame.eof:
                packed, self._frame = self._frame.unused_data, None
        return b"".join(found)


def _zstd(path: Path) -> Any:
    try:
        import zstandard
    except ImportError as err:
        raise TraceError(
            f"{path}: zstd, and Python's zstandard isn't installed here",
            hint="pip install 'kvgate[assess]', or unpack it: zstd -d",
        ) from err
    return zstandard


def read(file: IO[bytes], path: Path, size: int) -> bytes:
    """Return the next bytes of `file`, at most `size`; raises TraceError where it is damaged."""
    try:
        return file.read(size)
    except (EOFError, zlib.error, OSError) as err:
        raise TraceError(f"{path}: damaged or cut off: {err}") from err
    except Exception as err:
        if type(err).__name__ != "ZstdError":
            raise
        raise TraceError(f"{path}: damaged or cut off: {err}") from err


def bare(head: bytes, path: Path) -> bytes:
    """Return a file's first bytes without UTF-8's byte order mark; raises TraceError for UTF-16."""
    if head.startswith(_BOMS):
        raise TraceError(
            f"{path}: line 1: UTF-16 or UTF-32; traces are UTF-8",
            hint=f"iconv -t UTF-8 {path.name}",
        )
    return head.removeprefix(b"\xef\xbb\xbf")


def chunks(path: Path, size: int = CHUNK) -> Iterator[Chunk]:
    """Yield the lines of `path`, about `size` bytes at a time; raises TraceError."""
    line, rest = 1, b""
    with opened(path) as file:
        head = True
        while block := read(file, path, size):
            block, head = (bare(block, path) if head else block), False
            cut = block.rfind(b"\n") + 1
            if not cut:
                rest += block
                if len(rest) > MOST_LINE:
                    raise TraceError(f"{path}: line {line}: over {MOST_LINE:,} bytes: no trace")
                continue
            content, rest = b"".join((rest, memoryview(block)[:cut])), block[cut:]
            yield Chunk(content, line)
            line += int(np.count_nonzero(np.frombuffer(content, np.uint8) == ord("\n")))
    if rest.strip():
        yield Chunk(rest + b"\n", line)


def head_of(path: Path) -> bytes:
    """Return the first bytes of what is packed in `path`, at most HEAD; raises TraceError."""
    found = b""
    with opened(path) as file:
        while len(found) < HEAD and (block := read(file, path, HEAD - len(found))):
            found += block
    return bare(found, path)
