"""Scans parts of files: the pure step that every worker does, whichever machine it is on."""

from __future__ import annotations

import functools
import os
from typing import Any

from kvgate.workloads.scanner import chunks, hashing, kinds
from kvgate.workloads.scanner.course import CDC, Course, Settings, Stretch
from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.index import EVERYTHING, GROUP_MASK, Index
from kvgate.workloads.scanner.reading import WINDOW, Piece, Reader
from kvgate.workloads.scanner.sample import Sampler

_KEEP = ~GROUP_MASK & (EVERYTHING - 1)


class Level:
    """One block size: its distinct blocks, and what is counted exactly beside them."""

    def __init__(self, limit: int) -> None:
        self.index = Index(limit)
        self.blocks = self.zero_blocks = self.zero_bytes = 0


class Unit:
    """Scans pieces one after the other; `packed` is all that came out, for `Totals.merge`.

    ``base`` is the size of the blocks that are hashed themselves (0 without fixed ones),
    ``chunker`` what cuts chunks, or None.
    """

    def __init__(self, settings: Settings, below: dict[int, int], reader: Reader) -> None:
        self._settings = settings
        self.base = settings.sizes[0] if settings.sizes else 0
        self.reader = reader
        self.sampler = Sampler(settings.rate)
        self.chunker = chunks.chunker() if settings.chunked else None
        self.levels = {size: Level(settings.limit) for size in settings.levels()}
        for size, level in self.levels.items():
            level.index.below = below.get(size, EVERYTHING)
        self.bytes = self.hole_bytes = self.left_out = 0
        self.groups: dict[int, int] = {}
        self.parts: list[tuple[int, int, str]] = []
        self.tensors: list[tuple[int, str, str, str, int]] = []
        self.problems: list[tuple[str, str]] = []

    def scan(self, piece: Piece) -> None:
        """Scan `piece`; what hinders that becomes a problem with its path, never an exception."""
        counted = self.bytes
        try:
            with self.reader.open(piece) as file:
                Course(self, file, piece).run()
        except (ScanError, OSError) as err:
            told = err.message if isinstance(err, ScanError) else err.strerror or str(err)
            missing = piece.length - (self.bytes - counted)
            self.left_out += missing
            self.problem(piece, f"{told}; {missing} bytes left out")

    def problem(self, piece: Piece, what: str) -> None:
        """Note what is wrong with a file."""
        self.problems.append((kinds.shown(os.fsencode(piece.path)), what))

    def count(self, piece: Piece, found: Stretch) -> None:
        """Take over what a stretch of `piece` holds."""
        for size, joined in found.digests(self._settings).items():
            self._blocks(size, joined, found, piece.group)
        self.bytes += found.length
        self.hole_bytes += found.hole_bytes
        self.groups[piece.group] = self.groups.get(piece.group, 0) + found.length

    def _blocks(self, size: int, joined: bytes, found: Stretch, group: int) -> None:
        level, zero = self.levels[size], hashing.numbers(_zero(self._settings.sizes, size))
        unit = size or chunks.LARGEST
        zeros = found.zero_windows * (WINDOW // unit)
        numbers = hashing.numbers(joined)
        count = len(numbers)
        if count:
            level.index.add(_keys(numbers, group), found.lengths(size, count))
            zeros += _equal(numbers, zero[0])
        if found.zero_windows:
            number = found.zero_windows * (WINDOW // unit)
            level.index.add(_keys(zero, group), [unit], [number])
            count += number
        level.blocks += count
        level.zero_blocks += zeros
        level.zero_bytes += zeros * unit

    def packed(self) -> dict[str, Any]:
        """Return all that came out, as plain values and bytes."""
        return {
            "levels": {
                size: {
                    **level.index.packed(),
                    "blocks": level.blocks,
                    "zero_blocks": level.zero_blocks,
                    "zero_bytes": level.zero_bytes,
                }
                for size, level in self.levels.items()
            },
            "hash": hashing.ALGORITHM,
            "bytes": self.bytes,
            "hole_bytes": self.hole_bytes,
            "left_out": self.left_out,
            "through_cache": self.reader.through_cache,
            "groups": self.groups,
            "parts": self.parts,
            "tensors": self.tensors,
            "problems": self.problems,
            "samples": self.sampler.sums,
        }


def _keys(numbers: Any, group: int) -> Any:
    """Return the keys of digests in folder `group`."""
    if hashing.np is None:
        return [number & _KEEP | group for number in numbers]
    return (numbers & hashing.np.uint64(_KEEP)) | hashing.np.uint64(group)


def _equal(numbers: Any, number: Any) -> int:
    if hashing.np is None:
        return int(numbers.count(number))
    return int(hashing.np.count_nonzero(numbers == number))


@functools.lru_cache(maxsize=64)
def _zero(sizes: tuple[int, ...], size: int) -> bytes:
    """Return the digest of `size` zeros, where blocks of `sizes` are made of each other."""
    if size == CDC:
        return hashing.digest(bytes(chunks.LARGEST))
    return hashing.zero_digests(sizes)[sizes.index(size)]
