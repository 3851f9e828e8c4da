"""Reads files without changing what is in the page cache: what is there from there, else O_DIRECT.

What a file system can't read directly comes through the cache, and pages that were not there
before are dropped afterwards. Links are not followed, and nothing but regular files is read.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from kvgate.workloads.scanner.chunks import LARGEST
from kvgate.workloads.scanner.errors import ScanError

WINDOW = 1024 * 1024
"""Bytes read at a time: they stay in a core's cache while they are hashed."""

CARRY = LARGEST
"""Room before the window for the begin of a chunk that ends in it."""

PAGE = mmap.PAGESIZE
_ALIGN = 4096
_PRIVATE = getattr(os, "O_NOATIME", 0)


class Piece(NamedTuple):
    """A part of a file, as it was when it was listed; ``group`` is its folder's number."""

    file: int
    path: str  # as os.fsdecode gives it
    group: int
    kind: int
    offset: int
    length: int
    size: int
    mtime_ns: int
    dev: int
    ino: int
    sparse: bool


class _Pages:
    """Says by mincore(2) which pages of a file are in memory."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._map, self._unmap, self._core = libc.mmap, libc.munmap, libc.mincore
        self._map.restype = ctypes.c_void_p
        self._map.argtypes = [
            *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
            *(ctypes.c_int, ctypes.c_int, ctypes.c_int64),
        ]
        self._unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._core.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]

    def resident(self, fd: int, offset: int, length: int) -> bytes | None:
        """Return a byte a page from `offset` on, 1: in memory; None where that can't be told."""
        at = self._map(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
        if at in (None, ctypes.c_void_p(-1).value):
            return None
        told = ctypes.create_string_buffer((length + PAGE - 1) // PAGE)
        failed = self._core(at, length, told)
        self._unmap(at, length)
        return None if failed else told.raw.translate(_LOWEST_BIT)


_LOWEST_BIT = bytes(each & 1 for each in range(256))


class Reader:
    """Holds one process's buffer; ``data`` is its window, which each read fills from the start."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, CARRY + WINDOW)
        self.whole = memoryview(self._memory)
        self.data = self.whole[CARRY:]
        self.pages = _Pages()
        self._slices: dict[int, list[memoryview]] = {}
        self.through_cache = 0  # bytes that had to be read through the page cache

    def slices(self, size: int, length: int) -> Sequence[memoryview]:
        """Return the first `length` bytes of the window in blocks of `size`."""
        if length == WINDOW:
            if size not in self._slices:
                self._slices[size] = _cut(self.data, size)
            return self._slices[size]
        return _cut(self.data[:length], size)

    def open(self, piece: Piece) -> OpenFile:
        """Open `piece`'s file; raises ScanError where it is not the one that was listed."""
        return OpenFile(self, piece)


class OpenFile:
    """A file being read; a context manager."""

    def __init__(self, reader: Reader, piece: Piece) -> None:
        self._reader = reader
        self._piece = piece
        self._path = os.fsencode(piece.path)
        self._direct: int | None = None
        self._may_be_direct = hasattr(os, "O_DIRECT")
        self._before: bytes | None = None
        self._stretch = (0, 0)
        self._cached = False  # whether the page cache was read through in this stretch
        self._fd = _open(self._path, 0)
        try:
            self.check()
            self._knows = _knows_pages(os.fstat(self._fd), self._fd)
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        for fd in (self._fd, self._direct):
            if fd is not None:
                os.close(fd)

    def check(self) -> None:
        """Raise ScanError where the file is no longer as it was listed."""
        now, was = os.fstat(self._fd), self._piece
        if not stat.S_ISREG(now.st_mode) or (now.st_dev, now.st_ino) != (was.dev, was.ino):
            raise ScanError("another file has its name now")
        if (now.st_size, now.st_mtime_ns) != (was.size, was.mtime_ns):
            raise ScanError("changed while it was scanned")

    def enter(self, offset: int, length: int) -> None:
        """Note which pages of the next `length` bytes are in memory."""
        self.leave()
        self._stretch = (offset, length)
        self._cached = False
        self._before = (
            self._reader.pages.resident(self._fd, offset, length) if self._knows else None
        )

    def leave(self) -> None:
        """Drop what is in memory now and was not before, where that may be due to us."""
        offset, length = self._stretch
        before, self._before, self._stretch = self._before, None, (0, 0)
        if self._cached and before is not None and b"\0" in before:
            now = self._reader.pages.resident(self._fd, offset, length)
            if now is not None and now != before:
                _drop_new(self._fd, offset, before, now)

    def hole_until(self, offset: int) -> int:
        """Return where the next data begins: `offset` itself outside of a hole."""
        if not self._piece.sparse:
            return offset
        try:
            return os.lseek(self._fd, offset, os.SEEK_DATA)
        except OSError as err:
            return self._piece.size if err.errno == errno.ENXIO else offset

    def read(self, offset: int, want: int) -> int:
        """Fill the window with `want` bytes from the aligned `offset`; return how many came."""
        if self._in_memory(offset, want) or not self._may_be_direct:
            return self._buffered(offset, want)
        try:
            if self._direct is None:
                self._direct = _open(self._path, os.O_DIRECT)
                if not os.path.sameopenfile(self._direct, self._fd):
                    raise ScanError("another file has its name now")
            asked = (want + _ALIGN - 1) // _ALIGN * _ALIGN
            return min(os.preadv(self._direct, [self._reader.data[:asked]], offset), want)
        except OSError as err:
            if err.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        self._may_be_direct = False
        return self._buffered(offset, want)

    def _buffered(self, offset: int, want: int) -> int:
        known = self._in_memory(offset, want)
        self._cached = True
        got = 0
        while got < want:
            count = os.preadv(self._fd, [self._reader.data[got:want]], offset + got)
            if count == 0:
                break
            got += count
        if not known:
            self._reader.through_cache += got
            if self._before is None:  # nobody can tell what was there: leave nothing behind
                os.posix_fadvise(self._fd, offset, got, os.POSIX_FADV_DONTNEED)
        return got

    def _in_memory(self, offset: int, want: int) -> bool:
        if self._before is None:
            return False
        first = (offset - self._stretch[0]) // PAGE
        last = (offset + want - 1 - self._stretch[0]) // PAGE
        return self._before.find(b"\0", first, last + 1) < 0


def _open(path: bytes, more: int) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | more
    try:
        return os.open(path, flags | _PRIVATE)  # a look leaves no access time
    except PermissionError:
        return os.open(path, flags)


def _knows_pages(told: os.stat_result, fd: int) -> bool:
    """Tell whether mincore says the truth: since Linux 5.2 only to who may write the file."""
    if told.st_uid == os.geteuid() or os.geteuid() == 0:
        return True
    return os.access(f"/proc/self/fd/{fd}", os.W_OK)


def _drop_new(fd: int, offset: int, before: bytes, now: bytes) -> None:
    """Drop the pages that are in `now` and not in `before`, run by run."""
    new = bytes(a & ~b & 1 for a, b in zip(now, before))  # noqa: B905  Python 3.8
    at = new.find(1)
    while at >= 0:
        end = new.find(0, at)
        end = len(new) if end < 0 else end
        os.posix_fadvise(fd, offset + at * PAGE, (end - at) * PAGE, os.POSIX_FADV_DONTNEED)
        at = new.find(1, end)


def _cut(data: memoryview, size: int) -> list[memoryview]:
    return [data[at : at + size] for at in range(0, len(data), size)]
