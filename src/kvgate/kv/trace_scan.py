"""The inner loop of reading a trace's lines: bytes to columns, only where nothing is in doubt.

It knows lines of the plain form that traces have: an object of numbers, plain texts, and lists of
whole numbers. At anything else (escapes, nested objects, keys that stand twice, numbers beyond
its exactness, a length that its ids contradict) it gives up and says so: the strict reader
(`trace_lines`) then reads the same bytes, and words what is wrong. So it never has to be right
about what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvgate.kv.compiled import jit
from kvgate.kv.trace import Floats, Ints
from kvgate.kv.trace_lines import MOST_TOKENS

Bytes = npt.NDArray[Any]
"""Of unsigned bytes."""

FIELDS = (
    *(b"timestamp", b"input_length", b"output_length", b"hash_ids"),
    *(b"chat_id", b"parent_chat_id", b"block_size"),
)
"""Keys that are read, by their number from 0; others are passed over."""

TIME, INPUT, OUTPUT, IDS, CHAT, PARENT, BLOCK, OTHER = range(8)
DOUBT = -1
"""Instead of a position: not for certain."""

_MOST_EXACT = 2**53
_MOST = np.uint64(2**63 - 1)


KEYS = np.frombuffer(b'"'.join((*FIELDS, b"")), np.uint8)
"""The fields' keys one after the other, each with the quote that ends it."""

STARTS = np.cumsum([0, *(len(key) + 1 for key in FIELDS)])

LEAST = len('{"timestamp":0,"input_length":0,"output_length":0,"hash_ids":[]}\n')
"""Bytes of a line that a request takes, at the least."""


@jit
def space(text: Bytes, at: Any) -> Any:
    """Return the place of the next byte that is no space, tab or carriage return."""
    while text[at] == 32 or text[at] == 9 or text[at] == 13:
        at += 1
    return at


@jit
def digits(text: Bytes, at: Any) -> Any:
    """Return the place after the digits at `at`, if any, and their number; unsigned, as is `at`.

    A place that has a sign would be looked for from the end, if below zero, at every byte.
    """
    one, ten, zero, value = np.uint64(1), np.uint64(10), np.uint64(48), np.uint64(0)
    digit = np.uint64(text[at]) - zero
    while digit < ten:
        value = value * ten + digit
        at += one
        digit = np.uint64(text[at]) - zero
    return at, value


@jit
def whole(text: Bytes, at: Any) -> Any:
    """Return the place after a whole number from 0, and the number; DOUBT for anything else."""
    first = np.uint64(at)
    after, value = digits(text, first)
    many = after - first
    if many == 0 or (many > 1 and text[first] == 48) or many > 19 or value > _MOST:
        return DOUBT, 0
    return np.int64(after), np.int64(value)


@jit
def time_of(text: Bytes, at: Any) -> Any:
    """Return the place after a number, and the number, exactly as it is read by the book.

    A whole number below 2⁵³, divided by a power of ten up to 10²², is rounded once.
    """
    negative = text[at] == 45
    if negative:
        at += 1
    after, value = whole(text, at)
    if after == DOUBT:
        return DOUBT, 0.0
    scale = 1.0
    if text[after] == 46:
        point = after + 1
        digit = np.int64(text[point]) - 48
        while 0 <= digit <= 9 and point - after <= 15 and value < _MOST_EXACT:
            value, scale, point = value * 10 + digit, scale * 10.0, point + 1
            digit = np.int64(text[point]) - 48
        if point == after + 1 or 0 <= digit <= 9:
            return DOUBT, 0.0
        after = point
    if value >= _MOST_EXACT or text[after] == 101 or text[after] == 69:
        return DOUBT, 0.0
    found = value / scale
    return after, -found if negative else found


@jit
def quoted(text: Bytes, at: int) -> int:
    """Return the place after a plain text, `at` is its quote; DOUBT for anything else."""
    if text[at] != 34:
        return DOUBT
    at += 1
    while text[at] != 34:
        if text[at] < 32 or text[at] == 92 or text[at] > 126:
            return DOUBT
        at += 1
    return at + 1


@jit
def key_of(text: Bytes, at: Any, keys: Bytes, key_starts: Ints) -> Any:
    """Return the place after a key and its colon, and which field it is; `at` is its quote."""
    after, field = DOUBT, 0
    while after == DOUBT and field < OTHER:
        place, end, shift = key_starts[field], key_starts[field + 1], at + 1 - key_starts[field]
        while place < end and text[place + shift] == keys[place]:
            place += 1
        if place == end and text[at] == 34:
            after = place + shift
        else:
            field += 1
    if after == DOUBT:
        after = quoted(text, at)
    if after == DOUBT:
        return DOUBT, OTHER
    after = space(text, after)
    if text[after] != 58:
        return DOUBT, OTHER
    return space(text, after + 1), field


@jit
def passed(text: Bytes, at: int) -> int:
    """Return the place after a value that isn't needed: a plain text or number, else DOUBT."""
    if text[at] == 34:
        return quoted(text, at)
    after: int = time_of(text, at)[0]
    return after


@jit
def ids_of(text: Bytes, at: Any, ids: Ints, count: Any) -> Any:
    """Return the place after a list of ids, and how many are in `ids` by then."""
    if text[at] != 91:
        return DOUBT, count
    at = space(text, at + 1)
    if text[at] == 93:
        return at + 1, count
    one, place, total = np.uint64(1), np.uint64(at), np.uint64(count)
    while True:
        first = place
        place, value = digits(text, first)
        many = place - first
        if many == 0 or (many > one and text[first] == 48) or many > 19 or value > _MOST:
            return DOUBT, count
        ids[total] = value
        total += one
        if text[place] == 44 and text[place + one] == 32:
            place += np.uint64(2)
            continue
        at = space(text, np.int64(place))
        if text[at] == 93:
            return at + 1, np.int64(total)
        if text[at] != 44:
            return DOUBT, count
        place = np.uint64(space(text, at + 1))


@jit
def line_of(
    text: Bytes, at: int, known: Any, row: Ints, time: Floats, ids: Ints, count: int
) -> tuple[int, int, int]:
    """Read one object; return the place after it, the ids so far, and which fields it had."""
    had = 0
    if text[at] != 123:
        return DOUBT, count, 0
    at = space(text, at + 1)
    while True:
        at, field = key_of(text, at, known[0], known[1])
        if at == DOUBT or (field != OTHER and had >> field & 1):
            return DOUBT, count, 0
        had |= 1 << field
        if field == IDS:
            at, count = ids_of(text, at, ids, count)
        elif field == TIME:
            at, time[0] = time_of(text, at)
        elif field == OTHER:
            at = passed(text, at)
        elif text[at] == 45 and field in (CHAT, PARENT):
            at, row[field] = whole(text, at + 1)
            row[field] = -row[field]
        else:
            at, row[field] = whole(text, at)
        if at == DOUBT:
            return DOUBT, count, 0
        at = space(text, at)
        if text[at] == 125:
            return at + 1, count, had
        if text[at] != 44:
            return DOUBT, count, 0
        at = space(text, at + 1)


@jit
def agrees(row: Ints, had: int, needed: int, block: int, ids: int) -> bool:
    """Tell whether a line has what it needs, and its ids are as many as its length takes."""
    if had & needed != needed or (had >> BLOCK & 1 and row[BLOCK] != block):
        return False
    if row[INPUT] > MOST_TOKENS or row[OUTPUT] > MOST_TOKENS:
        return False
    if row[CHAT] < -1 or row[PARENT] < -1:
        return False
    return bool(ids == (row[INPUT] + block - 1) // block)


@jit
def scan(
    text: Bytes,
    end: int,
    known: Any,
    needed: int,
    block: int,
    line: int,
    rows: Ints,
    times: Floats,
    starts: Ints,
    ids: Ints,
) -> tuple[int, int]:
    """Read the lines of `text` up to `end`: its last byte ends a line.

    Fills a row of `rows` a request (its fields by number; its line in the column IDS), `times`
    in the file's unit, `starts` and `ids`; `known` are KEYS and STARTS. Returns how many requests
    and ids, DOUBT and 0 where a line isn't plain.
    """
    at, count, requests = 0, 0, 0
    starts[0] = 0
    while at < end:
        at = space(text, at)
        if text[at] == 10:
            at, line = at + 1, line + 1
            continue
        row = rows[requests]
        row[CHAT], row[PARENT], before = -1, -1, count
        at, count, had = line_of(text, at, known, row, times[requests:], ids, count)
        if at == DOUBT or not agrees(row, had, needed, block, count - before):
            return DOUBT, 0
        at = space(text, at)
        if text[at] != 10:
            return DOUBT, 0
        row[IDS] = line
        at, line, requests = at + 1, line + 1, requests + 1
        starts[requests] = count
    return requests, count
