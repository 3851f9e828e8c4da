"""Content of KV chunks: made from a chunk's number, and told apart again sector by sector.

Content is a random pool over and over, each time XORed word by word with one key. The key is a
bijection of (chunk, version, turn), and no two sectors of 512 bytes of the pool are alike: so
equal chunks are equal bytes, all others differ in every sector, and a sector found anywhere tells
whose it is. Compressible content has zeros in the pool, so the key alone, for the rest of each
sector. Runs on hosts too: Python 3.8, NumPy only where it is there.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from typing import Any, NamedTuple

try:
    import numpy
except ImportError:  # then in pure Python, some 30 times slower, and said so in what is told
    numpy = None  # type: ignore[assignment]

SECTOR, PAGE = 512, 4096
POOL_PAGES = 64
"""A pool of 256 KiB stays in a core's cache; each turn through it has another key."""

MOST_CHUNKS, MOST_VERSIONS, MOST_PAGES = 2**32, 2**6, 2**26

_WORDS = SECTOR // 8
_IN_PAGE = PAGE // SECTOR
_ALL = 2**64 - 1
_M1, _M2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # the mixer of splitmix64 (Steele et al., 2014)
_I1, _I2 = pow(_M1, -1, 2**64), pow(_M2, -1, 2**64)


class Origin(NamedTuple):
    """Whose content a sector is: chunk, version, and which sector of it."""

    chunk: int
    version: int
    sector: int


class Content:
    """The content of all chunks of one seed; safe to use from several threads."""

    def __init__(self, seed: int, *, compressed_pct: int = 0) -> None:
        if not 0 <= compressed_pct <= 90:
            raise ValueError(f"{compressed_pct} % is not from 0 to 90 %")
        named = b"kvgate content %d" % seed
        kept = max(2, round(_WORDS * (100 - compressed_pct) / 100)) * 8  # bytes of each sector
        drawn = hashlib.shake_256(named).digest(POOL_PAGES * _IN_PAGE * kept)
        rest = bytes(SECTOR - kept)
        self._pool = b"".join(drawn[at : at + kept] + rest for at in range(0, len(drawn), kept))
        self._salt = int.from_bytes(hashlib.sha256(named).digest()[:8], "little")
        self._places: dict[int, int] = {}  # first word XOR second, which no key changes
        for place in range(POOL_PAGES * _IN_PAGE):
            first, second = self._head(place)
            self._places[first ^ second] = place
        self._array = _as_array(self._pool)

    def fill(self, buffer: memoryview, chunk: int, version: int = 0, *, page: int = 0) -> None:
        """Write a chunk's content from `page` on over `buffer` (whole pages).

        Raises ValueError for numbers beyond what a key holds, or a torn length.
        """
        count, torn = divmod(len(buffer), PAGE)
        if torn:
            raise ValueError(f"{len(buffer)} bytes are no whole pages")
        packed(chunk, version, page + max(0, count - 1))
        done = self._whole_turns(buffer, chunk, version, page)
        while done < count:  # a turn through the pool, or what of it is asked for
            turn, place = divmod(page + done, POOL_PAGES)
            many = min(POOL_PAGES - place, count - done)
            key = _mixed((packed(chunk, version, turn) + self._salt) & _ALL)
            self._turn(buffer[done * PAGE : (done + many) * PAGE], place * PAGE, key)
            done += many

    def _whole_turns(self, buffer: memoryview, chunk: int, version: int, page: int) -> int:
        """Write all whole turns by one call, which other threads need not wait for; return pages.

        Turn by turn each would wait for the interpreter again, 31 times in a chunk of 8 MB.
        """
        first, ahead = divmod(page, POOL_PAGES)
        turns = len(buffer) // len(self._pool)
        if numpy is None or ahead or not turns:
            return 0
        size, number = turns * len(self._pool), packed(chunk, version, first) + self._salt
        mixed = [_mixed((number + turn) & _ALL) for turn in range(turns)]
        keys = numpy.array(mixed, dtype="<u8")
        into = numpy.frombuffer(buffer[:size], dtype="<u8").reshape(turns, -1)
        numpy.bitwise_xor(self._array, keys[:, None], out=into)
        return turns * POOL_PAGES

    def _turn(self, buffer: memoryview, at: int, key: int) -> None:
        """Write the pool from byte `at` on, XORed with `key`, over `buffer`."""
        end = at + len(buffer)
        if numpy is None:
            word = int.from_bytes(self._pool[at:end], "little") ^ key * _ones(len(buffer) // 8)
            buffer[:] = word.to_bytes(len(buffer), "little")
            return
        into = numpy.frombuffer(buffer, dtype="<u8")
        numpy.bitwise_xor(self._array[at // 8 : end // 8], numpy.uint64(key), out=into)

    def made(self, size: int, chunk: int, version: int = 0, *, sector: int = 0) -> bytes:
        """Return `size` bytes of a chunk's content from `sector` on."""
        page, ahead = divmod(sector * SECTOR, PAGE)
        whole = bytearray(-(-(ahead + size) // PAGE) * PAGE)
        self.fill(memoryview(whole), chunk, version, page=page)
        return bytes(whole[ahead : ahead + size])

    def origin(self, sector: bytes) -> Origin | None:
        """Return whose sector this is, by its first two words; None: nobody's of this seed."""
        first, second = struct.unpack_from("<QQ", sector)
        place = self._places.get(first ^ second)
        if place is None:
            return None
        number = (_unmixed(first ^ self._head(place)[0]) - self._salt) & _ALL
        turn = number % MOST_PAGES
        if turn >= MOST_PAGES // POOL_PAGES:
            return None
        version = (number >> 26) % MOST_VERSIONS
        return Origin(number >> 32, version, turn * POOL_PAGES * _IN_PAGE + place)

    def _head(self, place: int) -> tuple[int, int]:
        first, second = struct.unpack_from("<QQ", self._pool, place * SECTOR)
        return first, second


def packed(chunk: int, version: int, page: int) -> int:
    """Return the number that a key is made of, of a page or turn; ValueError beyond the most."""
    if not (0 <= chunk < MOST_CHUNKS and 0 <= version < MOST_VERSIONS and 0 <= page < MOST_PAGES):
        raise ValueError(f"chunk {chunk}, version {version}, page {page}: too large a number")
    return chunk << 32 | version << 26 | page


def chunk_of(session: int, place: int, *, shared: int, chunks: int) -> int:
    """Return the content of a session's chunk `place`: one for all sessions below `shared`.

    `chunks` is how many a session has; no two others are the same.
    """
    return place if place < shared else chunks + session * chunks + place


def maker() -> str:
    """Return what content is made by here: ``numpy`` or ``python``."""
    return "python" if numpy is None else "numpy"


def _as_array(pool: bytes) -> Any:
    if numpy is None:
        return None
    return numpy.frombuffer(pool, dtype="<u8")


def _mixed(x: int) -> int:
    x = (x ^ (x >> 30)) * _M1 & _ALL
    x = (x ^ (x >> 27)) * _M2 & _ALL
    return x ^ (x >> 31)


def _unmixed(x: int) -> int:
    """Undo `_mixed`: x ^ (x >> n) is undone by x ^ (x >> n) ^ (x >> 2n) …."""
    x = (x ^ (x >> 31) ^ (x >> 62)) * _I2 & _ALL
    x = (x ^ (x >> 27) ^ (x >> 54)) * _I1 & _ALL
    return x ^ (x >> 30) ^ (x >> 60)


@functools.lru_cache(maxsize=POOL_PAGES)
def _ones(words: int) -> int:
    """Return the number that repeats a word `words` times when it is multiplied by it."""
    return int.from_bytes((1).to_bytes(8, "little") * words, "little")
