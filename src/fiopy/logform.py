"""The columns of fio's bandwidth, IOPS and latency logs, read strictly and in large pieces.

fio's HOWTO, "Log File Formats": time (ms), value, [the window's maximum, log_window_value=both],
direction, block size, [offset, log_offset], [priority, since 3.18], [issue time in ns,
log_issue_time]. A log does not name its columns: its first lines tell them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from fiopy.errors import FioOutputError

PIECE_BYTES = 2**20
_LINE_CAP = 64 * 2**10  # a histogram's line has at most 1,859 numbers
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdef"
_TRIED = 500  # lines by which the columns are told apart

DIRECTIONS = ("read", "write", "trim")


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """Where the columns of a log stand. ``maximum`` and ``offset`` are None where it has none."""

    columns: int
    direction: int = 2
    maximum: int | None = None
    offset: int | None = None
    hex_priority: bool = False

    @property
    def skeleton(self) -> bytes:
        """Return what is left of a line without its digits."""
        return b", " * (self.columns - 1) + (b"x\n" if self.hex_priority else b"\n")

    @property
    def block(self) -> int:
        """Return the column of the block size."""
        return self.direction + 1


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Some lines of a log by column; ``values`` as printed, ``maxima`` the same where none.

    ``directions`` is None where all lines are of ``direction``. ``averages`` tells whether they
    are means over windows: fio writes 0 for the block size of those; None where only some are.
    """

    times_ms: list[int]
    values: list[int]
    maxima: list[int]
    direction: int
    directions: list[int] | None
    averages: bool | None


def from_file(source: str | Path | BinaryIO) -> Iterator[bytes]:
    """Yield a log's bytes in pieces, never more than one in memory."""
    if isinstance(source, str | Path):
        with Path(source).open("rb") as file:
            yield from from_file(file)
        return
    while piece := source.read(PIECE_BYTES):
        yield piece


def whole_lines(pieces: Iterable[bytes], where: str) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines in pieces, each with the number of its first line, from 1.

    Raises FioOutputError where the last line is cut, and for a line longer than any of fio's.
    """
    number, rest = 1, b""
    for piece in pieces:
        head, newline, tail = piece.rpartition(b"\n")
        if not newline:
            rest += tail
        else:
            lines = rest + head + b"\n"
            yield number, lines
            number += lines.count(b"\n")
            rest = tail
        if len(rest) > _LINE_CAP:
            raise FioOutputError(f"{where}, line {number}: longer than any line of fio's logs")
    if rest:
        raise FioOutputError(
            f"{where}, line {number}: {rest[:60]!r} is cut: no end of line",
            hint="fio was ended while it wrote the log, or the copy is not whole",
        )


def form_of(lines: bytes, where: str) -> Form:
    """Return the columns of the log that begins with `lines`; raises FioOutputError."""
    first = lines.split(b"\n", _TRIED)[:_TRIED]
    rows = [row.split(b", ") for row in first if row]
    columns = len(rows[0])
    if not 4 <= columns <= 8 or any(len(row) != columns for row in rows):
        raise FioOutputError(
            f"{where}: {lines[:60]!r} does not begin as a log of fio",
            hint="time, value, direction, block size (and up to four more), with ', ' between",
        )
    found = _told(rows, columns)
    if found is None:
        raise FioOutputError(f"{where}: no column of {lines[:60]!r} is the direction (0, 1, 2)")
    return found


def _told(rows: list[list[bytes]], columns: int) -> Form | None:
    """Return the form by what can stand in each column."""
    for direction in (2, 3):
        if {row[direction] for row in rows} <= {b"0", b"1", b"2"} and columns > direction + 1:
            maximum = 2 if direction == 3 else None
            beyond = columns - direction - 2  # after the block size
            after = direction + 2
            is_hex = any(row[-1].startswith(b"0x") for row in rows)
            lone = {row[after] for row in rows} if beyond == 1 else set()
            priority = is_hex or lone <= {b"0", b"1"}
            offset = after if beyond >= 2 or (beyond == 1 and not priority) else None
            return Form(columns, direction, maximum, offset, is_hex)
    return None


def columns_of(lines: bytes, form: Form, where: str, first_line: int) -> Piece:
    """Return whole `lines` by column; raises FioOutputError, naming the line, for one that differs.

    What is left without the digits must be exactly the commas of so many lines: that checks
    every line at the cost of one pass in C.
    """
    count = lines.count(b"\n")
    left = lines.translate(None, _HEX if form.hex_priority else _DIGITS)
    if left == form.skeleton * count:
        words = lines.decode("ascii").replace(",", " ").split()
        wide = form.columns
        if len(words) == wide * count:
            try:
                return _piece(words, form, wide)
            except ValueError:  # a hexadecimal digit where none may stand: said by line below
                pass
    raise FioOutputError(_first_bad(lines, form, where, first_line))


def _piece(words: list[str], form: Form, wide: int) -> Piece:
    values = list(map(int, words[1::wide]))
    maxima = values if form.maximum is None else list(map(int, words[form.maximum :: wide]))
    told = words[form.direction :: wide]
    there = set(told)
    if not there <= {"0", "1", "2"}:
        raise ValueError("no direction")
    blocks = set(words[form.block :: wide])
    averages = None if "0" in blocks and len(blocks) > 1 else "0" in blocks
    times_ms = list(map(int, words[0::wide]))
    directions = None if len(there) == 1 else list(map(int, told))
    return Piece(times_ms, values, maxima, int(told[0]), directions, averages)


def _first_bad(lines: bytes, form: Form, where: str, first_line: int) -> str:
    number = rb"\d{1,20}"
    parts = [number] * form.columns
    parts[form.direction] = rb"[012]"
    if form.hex_priority:
        parts[-1] = rb"0x[0-9a-f]{1,8}"
    good = re.compile(b", ".join(parts))
    for at, line in enumerate(lines.split(b"\n")[:-1], first_line):
        if not good.fullmatch(line):
            return f"{where}, line {at}: {line[:60]!r} is not like the lines before it"
    return f"{where}, from line {first_line}: the log is damaged"
