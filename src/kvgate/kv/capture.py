"""A site's requests as a trace without their texts: lengths, times, and blocks as salted hashes.

What is written of a request: its time since the first one, how many tokens came and went, and one
keyed BLAKE2b hash a prefix block (`trace_tokens.prefix_ids`). The key is random, made when a
capture begins, held in memory only and gone with the process: without it nobody, the site
neither, can test whether a text is in the trace, or join two captures. No text, no token id, no
name, no header is written.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from kvgate.errors import UsageError
from kvgate.kv.trace_tokens import Encode, prefix_ids

BLOCK = 16
"""Tokens of a block, unless asked for otherwise: vLLM's block size, and Qwen-Bailian's."""

REORDERED = 10_000
"""Requests of a log that are held to bring them in order of time: logs are written at the end."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Seen:
    """One request as it is written: time in s on any clock, tokens, and hashes."""

    time_s: float
    input_tokens: int
    output_tokens: int
    ids: tuple[int, ...]


class Blinder:
    """Makes hashes of prefix blocks with a key of its own, which nothing can read out."""

    def __init__(self, block: int, encode: Encode) -> None:
        if not 1 <= block <= 10**6:
            raise UsageError(f"a block of {block} tokens: from 1 to 1,000,000")
        self.block = block
        self._encode = encode
        self.__salt = os.urandom(32)

    def of_tokens(self, time_s: float, tokens: Sequence[int], output: int) -> Seen:
        """Return what is written of a request whose token ids are known."""
        ids = prefix_ids(tokens, self.block, self.__salt)
        return Seen(time_s, len(tokens), output, tuple(ids))

    def of_text(self, time_s: float, text: str, output: int) -> Seen:
        """Return what is written of a request whose text is known."""
        return self.of_tokens(time_s, self._encode(text), output)

    def __repr__(self) -> str:
        """Tell nothing of the key."""
        return f"Blinder(block={self.block})"


def in_order(seen: Iterable[Seen], held: int = REORDERED) -> Iterator[Seen]:
    """Yield requests in order of time, of which any may come up to `held` places late.

    Raises UsageError for one that comes later still.
    """
    waiting: list[Seen] = []
    last = float("-inf")
    for each in seen:
        if each.time_s < last:
            raise UsageError(
                f"a request comes over {held:,} places too late: the log isn't in order of time",
                hint="sort the log by its time",
            )
        heapq.heappush(waiting, each)
        if len(waiting) > held:
            first = heapq.heappop(waiting)
            last = first.time_s
            yield first
    while waiting:
        yield heapq.heappop(waiting)


class Writer:
    """Writes requests as lines that `kvgate assess` reads; times count from the first one."""

    def __init__(self, file: IO[bytes], block: int) -> None:
        self._file, self._block = file, block
        self._first: float | None = None
        self.count = 0

    def write(self, seen: Seen) -> None:
        """Write one request; they have to come in order of time."""
        if self._first is None:
            self._first = seen.time_s
        record = {
            "timestamp": round(1000 * (seen.time_s - self._first)),
            "input_length": seen.input_tokens,
            "output_length": seen.output_tokens,
            "hash_ids": seen.ids,
            "block_size": self._block,
        }
        self._file.write(json.dumps(record, separators=(", ", ": ")).encode() + b"\n")
        self._file.flush()
        self.count += 1
