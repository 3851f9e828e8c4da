"""The hot tier: chunks in memory, at most so many bytes, the least recently used ones go first."""

from __future__ import annotations

import collections
import threading

import numpy as np

from kvgate.serving.weights import Array


class HotTier:
    """Copies of KV blocks by key, safe in many threads. A `limit_bytes` of 0 holds nothing."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._blocks: collections.OrderedDict[str, Array] = collections.OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Return the bytes of all blocks held, never more than the limit."""
        return self._bytes

    def get(self, key: str) -> Array | None:
        """Return the block of `key`, which is now the most recently used one."""
        with self._lock:
            found = self._blocks.get(key)
            if found is not None:
                self._blocks.move_to_end(key)
            return found

    def put(self, key: str, block: Array) -> None:
        """Keep a copy of `block`; the oldest ones make room. One that is too large is not kept."""
        if block.nbytes > self.limit_bytes:
            return
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return
        copy = np.array(block)  # outside of the lock: it takes a while
        copy.flags.writeable = False
        with self._lock:
            if key in self._blocks:
                return
            while self._bytes + copy.nbytes > self.limit_bytes:
                _, gone = self._blocks.popitem(last=False)
                self._bytes -= gone.nbytes
            self._blocks[key] = copy
            self._bytes += copy.nbytes
