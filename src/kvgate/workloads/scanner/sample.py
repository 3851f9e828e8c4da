"""Compresses sampled blocks of 128 KiB: sums of whole numbers, so that they add up exactly."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from kvgate.workloads.scanner.hashing import optional

BLOCK = 128 * 1024
"""Bytes of a sampled block; what is left at a file's end may be less."""

ALWAYS = 1 << 32
"""The rate at which every block is sampled."""

SUMS = ("blocks", "raw", "packed", "raw squared", "packed squared", "raw times packed")
"""What is summed for each codec."""


def codecs() -> dict[str, Callable[[Any], int]]:
    """Return the compressors there are here, by name: each gives a block's compressed length."""
    found: dict[str, Callable[[Any], int]] = {}
    zstd, lz4 = optional("zstandard"), optional("lz4.block")
    if zstd is not None:
        compress = zstd.ZstdCompressor(level=1).compress
        found["zstd-1"] = lambda data: len(compress(data))
    if lz4 is not None:
        found["lz4"] = lambda data: len(lz4.compress(data, store_size=False))
    if not found:
        found["zlib-1"] = lambda data: len(zlib.compress(bytes(data), 1))
    return found


class Sampler:
    """Compresses the blocks that a path and a place decide on: at `rate` of 2**32."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._codecs = codecs() if rate else {}
        self.sums: dict[str, list[int]] = {name: [0] * len(SUMS) for name in self._codecs}

    def look(self, data: Any, path: bytes, offset: int) -> None:
        """Sample the blocks of a window at `offset`."""
        if not self._rate:
            return
        start = zlib.crc32(path)
        for at in range(0, len(data), BLOCK):
            place = zlib.crc32((offset + at).to_bytes(8, "little"), start)
            if place < self._rate:
                block = data[at : at + BLOCK]
                for name, length_of in self._codecs.items():
                    count(self.sums[name], len(block), min(length_of(block), len(block)))


def count(sums: list[int], raw: int, packed: int) -> None:
    """Add a block of `raw` bytes that became `packed`; stored as it is where that is shorter."""
    for at, value in enumerate((1, raw, packed, raw * raw, packed * packed, raw * packed)):
        sums[at] += value
