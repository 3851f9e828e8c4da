"""The log that telemetry is written to first: whole records, each bound to all before it.

A file begins with `MAGIC`. A record is a mark, the length of its payload, a letter for its kind,
the SHA-256 over the digest before it, the letter and the payload, and the payload. So a torn end,
a flipped bit and a record cut out are all seen at that record, and what stands before is whole.
What payloads mean is for `kvgate.telemetry` to know.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kvgate.errors import DamagedRunError
from kvgate.store import disk
from kvgate.store.layout import open_regular

MAGIC = b"kvgate-telemetry-log/1\n"
LONGEST_BYTES = 64 * 2**20
"""No payload is longer: a reader of a hostile folder needs no more memory than this."""

_MARK = b"KVT\n"
_HEAD = struct.Struct("<4sIc32s")


class Entry(NamedTuple):
    """One whole record: where it begins and ends in its file, its kind (a letter), its payload."""

    start: int
    end: int
    kind: bytes
    payload: bytes


def _digest(before: bytes, kind: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(before + kind + payload).digest()


class LogWriter:
    """The writing end of one new log at `path`; every method raises WriteFailedError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = disk.File(path, new=True)
        self._file.write(MAGIC)
        self._head = hashlib.sha256(MAGIC).digest()
        self.size = len(MAGIC)
        self.firm = 0  # bytes known to be on the medium
        disk.sync_folder(path.parent)

    def add(self, kind: bytes, payload: bytes) -> None:
        """Add a record of `kind`, one letter."""
        head = _digest(self._head, kind, payload)
        self._file.write(_HEAD.pack(_MARK, len(payload), kind, head), payload)
        self._head = head
        self.size += _HEAD.size + len(payload)

    def sync(self) -> None:
        """Return once every record is on the medium."""
        size = self.size  # another thread may add meanwhile
        if self.firm != size:
            self._file.sync()
            self.firm = size

    def close(self) -> None:
        """Sync and close."""
        try:
            self.sync()
        finally:
            self._file.close()


class LogWalk:
    """Iterates over the whole records of the log at `path`; then says how it ended.

    ``end`` is behind the last whole record. ``torn`` tells of what follows it: "" for nothing. What
    a crash leaves is the beginning of one record (`cut_short`); anything else was altered.
    Raises DamagedRunError where the file is no such log, StoreError where it can't be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end = 0
        self.torn = ""
        self.cut_short = False

    def __iter__(self) -> Iterator[Entry]:
        with open_regular(self.path) as file:
            magic = file.read(len(MAGIC))
            if magic != MAGIC:
                self._torn("its first line is not whole", short=MAGIC.startswith(magic))
                if not self.cut_short:
                    raise DamagedRunError(f"{self.path}: is no telemetry log that this reads")
                return
            self.end = len(MAGIC)
            before = hashlib.sha256(MAGIC).digest()
            while head := file.read(_HEAD.size):
                if len(head) < _HEAD.size:
                    return self._torn("the head of a record is cut short", short=True)
                mark, length, kind, stated = _HEAD.unpack(head)
                if mark != _MARK or length > LONGEST_BYTES:
                    return self._torn("no record begins there")
                payload = file.read(length)
                if len(payload) < length:
                    return self._torn("a record is cut short", short=True)
                if _digest(before, kind, payload) != stated:
                    return self._torn("a record is not as it was written")
                start, before = self.end, stated
                self.end += len(head) + length
                yield Entry(start, self.end, kind, payload)

    def _torn(self, why: str, *, short: bool = False) -> None:
        self.torn, self.cut_short = why, short


def entry_at(path: Path, start: int, end: int) -> bytes:
    """Return the payload of the record that a walk found between `start` and `end`, not checked."""
    with open_regular(path) as file:  # past its buffer, which is far larger than most records
        return os.pread(file.fileno(), end - start - _HEAD.size, start + _HEAD.size)
