"""The way through a part of a file: what is read becomes digests, tensors' hashes and samples."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from kvgate.workloads.scanner import hashing
from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.reading import CARRY, WINDOW, OpenFile, Piece
from kvgate.workloads.scanner.tensor_hashes import TensorHashes

CDC = 0
"""Stands for content-defined chunks among block sizes."""

_STRETCH = 256 * 1024 * 1024
_LOOK = 64
_ZERO_BYTES = bytes(WINDOW)
_ZEROS = memoryview(_ZERO_BYTES)


class Settings(NamedTuple):
    """What is asked of a scan. Results of different settings are never merged."""

    sizes: tuple[int, ...]  # fixed block sizes, ascending, each a multiple of the first
    chunked: bool
    limit: int  # keys kept for each block size
    rate: int  # of 2**32 blocks that are compressed

    @classmethod
    def from_json(cls, told: list[Any]) -> Settings:
        """Return the settings that became JSON."""
        sizes, *rest = told
        return cls(tuple(sizes), *rest)

    def levels(self) -> tuple[int, ...]:
        """Return the block sizes, with CDC last where chunks are asked for."""
        return (*self.sizes, CDC) if self.chunked else self.sizes


class Stretch:
    """Digests of a stretch of a file, in the file's order."""

    def __init__(self) -> None:
        self.joined: list[bytes] = []
        self.chunked: list[bytes] = []
        self.chunk_lengths: list[int] = []
        self.tail = 0  # bytes of the last window where it is not full
        self.zero_windows = self.hole_bytes = self.length = 0

    def digests(self, settings: Settings) -> dict[int, bytes]:
        """Return the digests for each block size."""
        found: dict[int, bytes] = {}
        if settings.sizes:
            base = settings.sizes[0]
            found[base] = b"".join(self.joined)
            for size in settings.sizes[1:]:
                many = size // base
                found[size] = b"".join(hashing.group_digests(each, many) for each in self.joined)
        if settings.chunked:
            found[CDC] = b"".join(self.chunked)
        return found

    def lengths(self, size: int, count: int) -> Any:
        """Return the bytes of `count` blocks: one number where all are full."""
        if size == CDC:
            return self.chunk_lengths
        rest = self.tail % size
        return [size] * (count - 1) + [rest] if rest else size


class Course:
    """The way of `unit` through one piece of an open `file`, window by window."""

    def __init__(self, unit: Any, file: OpenFile, piece: Piece) -> None:
        self._unit, self._file, self._piece = unit, file, piece
        self._path = os.fsencode(piece.path)
        self._found = Stretch()
        self._carry = 0
        self._zero_run = 0
        self._marked = False
        self._marks = hashing.stream()
        self._tensors = TensorHashes.of(unit, piece)

    def run(self) -> None:
        """Go to the end; raises ScanError or OSError with what was counted before kept."""
        piece = self._piece
        at, end = piece.offset, piece.offset + piece.length
        while at < end:
            hole = self._hole(at, end)
            stop = at + hole if hole else min(end, at + _STRETCH)
            if not hole:
                self._file.enter(at, stop - at)
            if at == piece.offset and self._tensors is not None:
                self._tensors.read_header(self._file)
            self._stretch(at, stop)
            at = stop
        if self._marked:
            self._flush_zeros()
            self._unit.parts.append((piece.file, piece.offset, self._marks.hexdigest()))

    def _stretch(self, at: int, stop: int) -> None:
        self._found = Stretch()
        self._found.length = stop - at
        while at < stop:
            hole = self._hole(at, stop)
            want = hole or min(WINDOW, stop - at)
            if hole:
                self._found.hole_bytes += hole
                self._zeros(at, hole // WINDOW)
            else:
                self._window(at, want)
            at += want
        self._cut(0, last=True)
        self._file.check()
        self._unit.count(self._piece, self._found)

    def _hole(self, at: int, end: int) -> int:
        """Return the bytes of whole windows from `at` on that are a hole."""
        return (min(self._file.hole_until(at), end) - at) // WINDOW * WINDOW

    def _window(self, at: int, want: int) -> None:
        got = self._file.read(at, want)
        if got < want:
            raise ScanError("ended early: it became shorter while it was scanned")
        data, base = self._unit.reader.data[:want], self._unit.base
        if want == WINDOW and data[:_LOOK] == _ZEROS[:_LOOK] and bytes(data) == _ZERO_BYTES:
            self._zeros(at, 1)
            return
        self._unit.sampler.look(data, self._path, at)
        if self._tensors is not None:
            self._tensors.feed(data, at)
        if base:
            joined = b"".join(map(hashing.digest, self._unit.reader.slices(base, want)))
            self._found.joined.append(joined)
            self._found.tail = want % WINDOW
            self._mark(joined)
        self._cut(want)

    def _zeros(self, at: int, windows: int) -> None:
        """Count windows of zeros, written or not, without hashing them."""
        self._cut(0, last=True)
        self._found.zero_windows += windows
        self._zero_run += windows
        if self._tensors is not None:
            for each in range(windows):
                self._tensors.feed(_ZEROS, at + each * WINDOW)

    def _mark(self, joined: bytes) -> None:
        self._flush_zeros()
        self._marked = True
        self._marks.update(joined)

    def _flush_zeros(self) -> None:
        if self._zero_run:
            self._marks.update(b"zeros %d " % self._zero_run)
            self._zero_run = 0

    def _cut(self, fresh: int, last: bool = False) -> None:
        """Cut the carried bytes and the `fresh` ones of the window; the last waits for more."""
        if self._unit.chunker is None or not (fresh or self._carry):
            return
        if not fresh and last:  # what is carried lies before the window
            self._chunks(CARRY - self._carry, [self._carry])
            self._carry = 0
            return
        start, whole = CARRY - self._carry, self._unit.reader.whole
        lengths = self._unit.chunker.lengths(whole[start : CARRY + fresh])
        self._carry = lengths.pop()
        if self._carry > CARRY:
            raise ScanError("a chunk is longer than its bound")
        rest = self._chunks(start, lengths)
        whole[CARRY - self._carry : CARRY] = bytes(whole[rest : rest + self._carry])

    def _chunks(self, at: int, lengths: list[int]) -> int:
        whole, digest = self._unit.reader.whole, hashing.digest
        joined = []
        for length in lengths:
            joined.append(digest(whole[at : at + length]))
            at += length
        self._found.chunked.append(b"".join(joined))
        self._found.chunk_lengths += lengths
        if not self._unit.base and joined:
            self._mark(self._found.chunked[-1])
        return at
