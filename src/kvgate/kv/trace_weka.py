"""WEKA's traces: one conversation a JSON file, its requests read one at a time.

The requests of a ``subagent`` stand inside its entry, with times of the same clock; they come in
order of time with those beside them. ``hash_ids`` are whole blocks: the tokens after the last
whole block have none (at times they have one).
"""

from __future__ import annotations

import codecs
import heapq
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from kvgate.kv.trace import Batch
from kvgate.kv.trace_files import CHUNK, MOST_LINE, TraceError, bare, opened, read
from kvgate.kv.trace_lines import MOST, Row, Where
from kvgate.kv.trace_rows import batches_of

MOST_LOCAL = 2**40 - 1
"""The largest id of local scope; the bits above number the file."""

_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()


def weka_batches(path: Path, number: int) -> Iterator[Batch]:
    """Yield the requests of a WEKA trace; `number` sets its local ids apart. Raises TraceError."""
    with opened(path) as file:
        text = _Text(file, path)
        head = _head(text)
        where = Where(str(path), 1)
        block = where.count(head, "block_size", 1)
        scope = where.has(head, "hash_id_scope")
        if scope not in ("local", "global"):
            raise where.wrong(f"'hash_id_scope' is {scope!r}: it is local or global")
        base = (number + 1) * (MOST_LOCAL + 1) if scope == "local" else 0
        yield from batches_of(_rows(text, str(path), block, base), str(path), block)


class _Text:
    """A file as text of which only what is being read is held."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._held = self._decoded(bare(read(file, path, CHUNK), path))
        self._at, self._ended = 0, False

    def _decoded(self, block: bytes, final: bool = False) -> str:
        try:
            return self._decode.decode(block, final)
        except UnicodeDecodeError as err:
            raise TraceError(f"{self._path}: no UTF-8: {err}") from err

    def _more(self) -> bool:
        """Read on; False at the file's end."""
        if self._ended:
            return False
        block = read(self._file, self._path, CHUNK)
        self._ended = not block
        self._held = self._held[self._at :] + self._decoded(block, self._ended)
        self._at = 0
        if len(self._held) > MOST_LINE:
            raise TraceError(f"{self._path}: a value of over {MOST_LINE:,} characters: no trace")
        return not self._ended

    def peek(self) -> str:
        """Return the next character that is no space, unread; empty at the end."""
        while True:
            while self._at < len(self._held):
                if self._held[self._at] not in _SPACE:
                    return self._held[self._at]
                self._at += 1
            if not self._more():
                return ""

    def take(self, wanted: str, what: str) -> None:
        """Pass over the character `wanted`; raises TraceError where another stands."""
        if (found := self.peek()) != wanted:
            told = f"'{found}'" if found else "the end of the file"
            raise TraceError(f"{self._path}: {what}: {told} where '{wanted}' belongs")
        self._at += 1

    def value(self, what: str) -> Any:
        """Return the next JSON value; raises TraceError."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._held, self._at)
            except (ValueError, RecursionError) as err:
                if self._more():
                    continue
                told = " ".join(str(err).split())
                raise TraceError(f"{self._path}: {what}: no JSON, or cut off: {told}") from err
            if end == len(self._held) and self._more():
                continue  # a number may go on
            self._at = end
            return value


def _head(text: _Text) -> dict[str, Any]:
    """Return what stands before the requests, whose list is then open."""
    head: dict[str, Any] = {}
    text.take("{", "start")
    while True:
        key = text.value("a key")
        text.take(":", f"after key {key!r}")
        if key == "requests":
            text.take("[", "requests")
            return head
        head[str(key)] = text.value(f"'{key}'")
        text.take(",", f"after '{key}'")


def _rows(text: _Text, name: str, block: int, base: int) -> Iterator[Row]:
    """Yield the requests in order of time, those of sub-agents among the others."""
    later: list[tuple[float, int, Row]] = []
    number, made = 0, 0
    while text.peek() not in ("]", ""):
        number += 1
        entry = text.value(f"request {number}")
        where = Where(name, number, "request")
        if type(entry) is not dict:
            raise where.wrong("no object")
        inner = where.has(entry, "requests") if entry.get("type") == "subagent" else None
        if inner is None:
            row = _row(where, entry, block, base)
            while later and later[0][0] <= row.time_s:
                yield heapq.heappop(later)[2]
            yield row
        elif type(inner) is list and all(type(each) is dict for each in inner):
            for each in inner:
                made += 1
                row = _row(where, each, block, base)
                heapq.heappush(later, (row.time_s, made, row))
        else:
            raise where.wrong("a sub-agent's requests are no list of objects")
        if text.peek() != "]":
            text.take(",", f"after request {number}")
    text.take("]", f"after request {number}")
    while later:
        yield heapq.heappop(later)[2]


def _row(where: Where, entry: dict[str, Any], block: int, base: int) -> Row:
    tokens = where.count(entry, "in")
    ids = where.ids(entry, most=MOST_LOCAL if base else MOST)
    if len(ids) not in (tokens // block, -(-tokens // block)):
        raise where.wrong(
            f"{len(ids)} hash_ids contradict {tokens} tokens in: whole blocks of {block} "
            f"tokens would be {tokens // block}"
        )
    return Row(
        line=where.line,
        time_s=where.time(entry, "t"),
        input_tokens=tokens,
        output_tokens=where.count(entry, "out"),
        ids=[base + each for each in ids] if base else ids,
    )
