"""Digests of blocks: 8 bytes each, of larger blocks from those of the blocks in them."""

from __future__ import annotations

import hashlib
import importlib
import struct
from collections.abc import Callable, Sequence
from typing import Any


def optional(name: str) -> Any:
    """Return the module `name`, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


np: Any = optional("numpy")
_xxhash: Any = optional("xxhash")

DIGEST = 8
"""Bytes of a block's digest."""


def _blake2b(data: Any) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


digest: Callable[[Any], bytes] = _xxhash.xxh3_64_digest if _xxhash else _blake2b
"""The digest of a block's bytes."""

ALGORITHM = "xxh3" if _xxhash else "blake2b"
"""What blocks are hashed with; results of different ones are never merged."""


def stream() -> Any:
    """Return a hash with ``update`` and ``hexdigest`` for tensors and files (128 bits)."""
    return _xxhash.xxh3_128() if _xxhash else hashlib.blake2b(digest_size=16)


def group_digests(joined: bytes, many: int) -> bytes:
    """Return the digests of every `many` digests in `joined`; the last may be of fewer."""
    step = many * DIGEST
    return b"".join([digest(joined[at : at + step]) for at in range(0, len(joined), step)])


def zero_digests(sizes: Sequence[int]) -> tuple[bytes, ...]:
    """Return the digests of blocks of zeros, of ascending `sizes`, each of the first's digests."""
    first = digest(bytes(sizes[0]))
    return (first, *(digest(first * (size // sizes[0])) for size in sizes[1:]))


def numbers(joined: bytes) -> Any:
    """Return digests as unsigned 64-bit numbers: a NumPy array, or a tuple without NumPy."""
    if np is not None:
        return np.frombuffer(joined, dtype="<u8")
    return struct.unpack(f"<{len(joined) // DIGEST}Q", joined)
