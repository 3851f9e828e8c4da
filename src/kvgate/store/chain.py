r"""Chained lines: JSON lines of which each carries a digest of itself and all before it.

A line is its record's canonical JSON with ``chain`` as last key. The digest is taken over the
digest before (hex) and the record's bytes without ``chain``; changing, cutting out or moving a
line breaks it at that line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store.layout import open_regular

LONGEST_LINE_BYTES = 16 * 2**20
"""No record is longer: a reader of a hostile folder needs no more memory than this."""

_KEY = b',"chain":"'
_HEX = 64
SUFFIX = len(_KEY) + _HEX + len(b'"}\n')


class Line(NamedTuple):
    """One whole line: its number (from 1), where it ends, its record without chain, its chain."""

    number: int
    end: int  # byte offset after its newline
    body: bytes
    head: str
    raw: bytes


def digest(before: str, body: bytes) -> str:
    """Return the chain after the record `body` (without its chain) that follows `before`."""
    return hashlib.sha256(before.encode() + body).hexdigest()


def link(before: str, body: bytes) -> tuple[bytes, str]:
    """Return the line of record `body` after chain `before`, and the chain after it."""
    head = digest(before, body)
    line = b"".join((body[:-1], _KEY, head.encode(), b'"}\n'))
    if len(line) > LONGEST_LINE_BYTES:
        raise StoreError(
            f"a record of {len(line)} bytes is over {LONGEST_LINE_BYTES}",
            hint="store long output as evidence",
        )
    return line, head


def split(line: bytes) -> tuple[bytes, str] | None:
    """Return a line's record and the chain it states, or None if it has not that form."""
    form = line[-SUFFIX : -SUFFIX + len(_KEY)] == _KEY and line.endswith(b'"}\n')
    if not form or line.count(b"\0"):
        return None
    return line[:-SUFFIX] + b"}", line[-SUFFIX + len(_KEY) : -3].decode("latin-1")


class Walk:
    """Reads a chained file from its start and stops before a torn last line.

    After the iteration, `count`, `head` and `end` describe the last whole line and `torn` is the
    number of bytes behind it. Iterating raises DamagedRunError at a line that is whole but
    altered. Once `count` has reached `upto`, reading stops.
    """

    def __init__(self, path: Path, genesis: str, *, upto: int | None = None) -> None:
        self.path = path
        self.count, self.head, self.end, self.torn = 0, genesis, 0, 0
        self._upto = upto

    def __iter__(self) -> Iterator[Line]:
        """Yield the whole lines in order."""
        with open_regular(self.path) as file:
            while self._upto is None or self.count < self._upto:
                raw = file.readline(LONGEST_LINE_BYTES)
                if not raw:
                    return
                if not raw.endswith(b"\n") and len(raw) < LONGEST_LINE_BYTES:
                    self.torn = len(raw)  # a crash, or a writer at work: nobody was told of it
                    return
                yield self._checked(raw)

    def _checked(self, raw: bytes) -> Line:
        parts = split(raw)
        if parts is None or digest(self.head, parts[0]) != parts[1]:
            raise DamagedRunError(
                f"{self.path}: record {self.count + 1} was altered: it does not follow the chain",
                hint="`kvgate verify` names every piece that was altered",
            )
        self.count, self.head, self.end = self.count + 1, parts[1], self.end + len(raw)
        return Line(self.count, self.end, parts[0], parts[1], raw)
