"""Where the row of a block is: a directory of pages of neighbouring ids, and rows by the page.

Ids are numbered by those who write traces, so that a request's are near each other: a page is the
ids that differ in their last bits only, and one look into the directory finds all of them. Pages
of one id (``counters[SHIFT]`` 0) serve ids that are scattered. The directory is open addressing,
linear probing: (page, its first row + 1), 0 is an empty slot; pages are given rows as they come.

Plain integers only: all runs compiled by Numba, and as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from kvgate.kv.compiled import jit
from kvgate.kv.reuse import PAGES, ROWS, SHIFT
from kvgate.kv.trace import Ints

PAGE, FIRST = 0, 1
"""Columns of the directory."""

PLACE, TIME = 0, 1
"""Columns of the rows: (place + 1) × 2, + 1 where used more than once; last time in µs."""


class State(NamedTuple):
    """The blocks: directory and rows, the marks of their last uses, the tree over these, counts."""

    pages: Ints
    rows: Ints
    words: Ints
    tree: Ints
    counters: Ints


@jit
def slot_of(pages: Ints, page: int) -> int:
    """Return the slot of `page` in the directory: its own, or the empty one where it belongs.

    Multilinear hashing of both halves; no product reaches 2⁶³, in Python's integers or NumPy's.
    """
    mask = len(pages) - 1
    low, high = page & 0x7FFFFFFF, (page >> 31) & 0xFFFFFFFF
    slot = ((low * 0x5851F42D + high * 0x27D4EB2F) >> 20) & mask
    while pages[slot, FIRST] != 0 and pages[slot, PAGE] != page:
        slot = (slot + 1) & mask
    return slot


@jit
def first_row(pages: Ints, page: int) -> int:
    """Return the first row of `page`, -1 for a page that has none."""
    row: int = pages[slot_of(pages, page), FIRST] - 1
    return row


@jit
def given_rows(pages: Ints, counters: Ints, page: int) -> int:
    """Return the first row of `page`, which is given rows where it has none."""
    slot = slot_of(pages, page)
    if pages[slot, FIRST] == 0:
        pages[slot, PAGE], pages[slot, FIRST] = page, counters[ROWS] + 1
        counters[PAGES] += 1
        counters[ROWS] += 1 << counters[SHIFT]
    row: int = pages[slot, FIRST] - 1
    return row


@jit
def turns(keys: Ints, shift: int) -> int:
    """Return how often the next key is of another page: at least the pages of `keys`."""
    count = 1
    for i in range(1, len(keys)):
        if keys[i] >> shift != keys[i - 1] >> shift:
            count += 1
    return count


@jit
def rehash(pages: Ints, bigger: Ints) -> None:
    """Copy the directory into the empty `bigger`."""
    for slot in range(len(pages)):
        if pages[slot, FIRST] != 0:
            bigger[slot_of(bigger, pages[slot, PAGE])] = pages[slot]


@jit
def compact(rows: Ints, count: int, kept: Ints, into: Ints) -> None:
    """Copy those of the first `count` rows that are in use to `kept`; `into` is where, + 1."""
    many = 0
    for row in range(count):
        into[row] = 0
        if rows[row, PLACE] != 0:
            kept[many] = rows[row]
            many += 1
            into[row] = many


@jit
def singly(pages: Ints, shift: int, into: Ints, single: Ints) -> None:
    """Fill the empty directory `single`, of pages of one id, with all whose row went `into` one."""
    for slot in range(len(pages)):
        if pages[slot, FIRST] == 0:
            continue
        for at in range(1 << shift):
            row = into[pages[slot, FIRST] - 1 + at]
            if row != 0:
                key = pages[slot, PAGE] << shift | at
                new = slot_of(single, key)
                single[new, PAGE], single[new, FIRST] = key, row
