"""Memory for KV that is used again: touching new pages costs more than reading a chunk into them.

Measured on a virtual machine: 0.9 CPU seconds a GB for new pages of 4 KiB, 0.5 with huge pages,
against 0.2 for all else a restore does. An engine with a GPU has its KV memory from the start too.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
import weakref

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

KEPT_BYTES = 512 * 2**20
"""How much is kept at most that nobody uses."""
_ROOMY = 4  # what is kept may be so many times as large as what is asked for


class Memory:
    """Hands out page-aligned memory and takes it back when the last array on it is gone."""

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> tuple[Bytes, bool]:
        """Return `size` bytes, and whether they are new and so zero; else they are anything."""
        with self._lock:
            fitting = [each for each in self._free if size <= len(each) <= _ROOMY * size]
            found = min(fitting, key=len, default=None)
            if found is not None:
                self._free.remove(found)
        pages = _new(size) if found is None else found
        # All views of an array hold the one at their root: when that goes, nobody looks any more.
        array: Bytes = np.frombuffer(pages, np.uint8, count=size)
        weakref.finalize(array, self._give, pages).atexit = False
        return array, found is None

    @property
    def kept_bytes(self) -> int:
        """Return how much is kept that nobody uses."""
        with self._lock:
            return sum(map(len, self._free))

    def _give(self, pages: mmap.mmap) -> None:
        with self._lock:
            if sum(map(len, self._free)) + len(pages) <= KEPT_BYTES:
                self._free.append(pages)


def _new(size: int) -> mmap.mmap:
    """Return new memory: private, since shared memory has no huge pages."""
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without them
        pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


MEMORY = Memory()
"""The memory of all caches of this process."""
