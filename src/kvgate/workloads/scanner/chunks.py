"""Content-defined chunks: FastCDC by pyfastcdc, or a gear hash in NumPy with the same bounds."""

from __future__ import annotations

import random
from typing import Any

from kvgate.workloads.scanner.hashing import np, optional

SMALLEST, USUAL, LARGEST = 16 * 1024, 32 * 1024, 128 * 1024
"""Bounds of a chunk, and what its length beyond the smallest is on average, in bytes."""

_WINDOW = 32
_MASK = USUAL - 1


class GearChunker:
    """Cuts where a gear hash of the last 32 bytes has 15 zero bits: slower than FastCDC."""

    name = "gear (NumPy)"

    def __init__(self) -> None:
        draw = random.Random(0x6B76)  # noqa: S311  a table, the same everywhere; no secret
        self._gear = np.array([draw.getrandbits(32) for _ in range(256)], dtype=np.uint32)

    def lengths(self, data: Any) -> list[int]:
        """Return the lengths of the chunks of `data`; the last ends where `data` ends."""
        size = len(data)
        marks = self._marks(np.frombuffer(data, dtype=np.uint8))
        cuts: list[int] = []
        start = 0
        while size - start > SMALLEST:
            at = int(np.searchsorted(marks, start + SMALLEST - 1))
            end = int(marks[at]) + 1 if at < len(marks) else size
            end = min(end, start + LARGEST, size)
            cuts.append(end - start)
            start = end
        if start < size:
            cuts.append(size - start)
        return cuts

    def _marks(self, data: Any) -> Any:
        """Return the places after which a chunk may end, ascending."""
        rolled = self._gear[data]
        width = 1
        while width < _WINDOW:
            longer = rolled.copy()
            longer[width:] += rolled[:-width] << np.uint32(width)
            rolled, width = longer, width * 2
        return np.flatnonzero((rolled >> np.uint32(17)) & np.uint32(_MASK) == 0)


class FastChunker:
    """FastCDC by pyfastcdc."""

    name = "FastCDC (pyfastcdc)"

    def __init__(self, module: Any) -> None:
        self._cdc = module.FastCDC(avg_size=USUAL, min_size=SMALLEST, max_size=LARGEST)

    def lengths(self, data: Any) -> list[int]:
        """Return the lengths of the chunks of `data`; the last ends where `data` ends."""
        return [chunk.length for chunk in self._cdc.cut_buf(data)]


def chunker() -> Any:
    """Return the best chunker there is here, or None without pyfastcdc and NumPy."""
    if optional("pyfastcdc.cy") is not None:  # without its compiled part it is slower than NumPy
        return FastChunker(optional("pyfastcdc"))
    return GearChunker() if np is not None else None
