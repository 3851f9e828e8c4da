"""The inner loops of reuse distances: rows of blocks, and a ranked set of their last uses.

Every touch of a block has a place in time, from 0. The *marks* are the places of the last touch
of each block, as bits, 32 a word, with a Fenwick tree over the words' counts (P. M. Fenwick, "A
new data structure for cumulative frequency tables", 1994), so that the number of blocks touched
since a place is a prefix sum. Where a block's row is, `reuse_pages` knows.

Plain integers only: all runs compiled by Numba, and as it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kvgate.kv.compiled import jit
from kvgate.kv.reuse import A_DECADE, AGAIN, BUCKETS, CLOCK, DONE, LIVE, PAGES, ROWS, SHIFT
from kvgate.kv.reuse_pages import FIRST, PAGE, PLACE, TIME, State, first_row, given_rows, turns
from kvgate.kv.trace import Ints

NEVER = 2**62
"""The distance of a block that was never seen."""


@jit
def ones(word: int) -> int:
    """Return how many of a word's 32 bits are set."""
    word = word - ((word >> 1) & 0x55555555)
    word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F
    return ((word * 0x01010101) & 0xFFFFFFFF) >> 24


@jit
def add(tree: Ints, word: int, by: int) -> None:
    """Add `by` to the count of a word."""
    at = word + 1
    while at < len(tree):
        tree[at] += by
        at += at & -at


@jit
def before(tree: Ints, word: int) -> int:
    """Return the sum of the counts of all words before `word`."""
    total = 0
    at = word
    while at > 0:
        total += tree[at]
        at -= at & -at
    return total


@jit
def bucket_of(micros: int) -> int:
    """Return the bucket of a reuse interval."""
    if micros < 1:
        return 0
    return min(BUCKETS - 1, int(A_DECADE * math.log10(micros)))


@jit
def unmark(words: Ints, tree: Ints, slots: Ints, rows: Ints, count: int) -> None:
    """Take away the marks of the last touches of the blocks at `slots`: of each only once."""
    word, pending = -1, 0
    for i in range(count):
        if slots[i] < 0:
            continue
        place = (rows[slots[i], PLACE] >> 1) - 1
        bit = 1 << (place & 31)
        if place >> 5 != word:
            if pending:
                add(tree, word, -pending)
            word, pending = place >> 5, 0
        if words[word] & bit:
            words[word] -= bit
            pending += 1
    if pending:
        add(tree, word, -pending)


class Sample(NamedTuple):
    """Which keys are looked at: below ``limit``, of ``part`` of ``parts`` (a power of 2)."""

    limit: int
    part: int
    parts: int


@jit
def chosen(key: int, sample: Sample) -> bool:
    """Tell whether a key is in the sample."""
    part = (key >> 54) & (sample.parts - 1)
    return (key >> 20) & 0xFFFFFFFF < sample.limit and part == sample.part


class Sums(NamedTuple):
    """Histograms by distance, of blocks and of tokens (``weights``), and of reuse intervals."""

    blocks: Ints
    weights: Ints
    intervals: Ints


class Scratch(NamedTuple):
    """Of one request: rows (-1: none), distances, and which of its blocks was looked at."""

    slots: Ints
    distances: Ints
    places: Ints


class Requests(NamedTuple):
    """Requests as columns: their blocks' keys, where each begins, times in µs, tokens."""

    keys: Ints
    starts: Ints
    times: Ints
    tokens: Ints


@jit
def look_up(
    state: State, keys: Ints, now: int, sample: Sample, scratch: Scratch, intervals: Ints
) -> int:
    """Find a request's blocks as they are before it, and their distances; return how many.

    A distance is the number of distinct blocks touched since, the block itself among them; the
    largest so far in the request, as a block hits only if all before it do.
    """
    if len(keys) == 0:
        return 0
    rows, words, tree, live = state.rows, state.words, state.tree, state.counters[LIVE]
    slots, distances, places = scratch
    shift = state.counters[SHIFT]
    low = (1 << shift) - 1
    count, worst, word, sums = 0, 0, -1, 0
    interval, bucket = -1, 0
    page, first = keys[0] >> shift, first_row(state.pages, keys[0] >> shift)
    for i in range(len(keys)):
        key = keys[i]
        if not chosen(key, sample):
            continue
        if key >> shift != page:
            page, first = key >> shift, first_row(state.pages, key >> shift)
        row = first + (key & low)
        if first < 0 or rows[row, PLACE] == 0:
            slots[count], worst = -1, NEVER
        else:
            place = (rows[row, PLACE] >> 1) - 1
            if place >> 5 != word:
                word, sums = place >> 5, before(tree, place >> 5)
            rank = sums + ones(words[word] & ((1 << (place & 31)) - 1))
            worst = max(worst, live - rank)
            if now - rows[row, TIME] != interval:
                interval = now - rows[row, TIME]
                bucket = bucket_of(interval)
            intervals[bucket] += 1
            slots[count] = row
        distances[count], places[count] = worst, i
        count += 1
    return count


@jit
def touch(state: State, keys: Ints, now: int, scratch: Scratch, count: int) -> None:
    """Make a request's blocks the last touched, the first of them the very last."""
    if count == 0:
        return
    pages, rows, words, tree, counters = state
    slots, _, places = scratch
    unmark(words, tree, slots, rows, count)
    shift = counters[SHIFT]
    word, pending = counters[CLOCK] >> 5, 0
    page, first = keys[0] >> shift, -1
    for back in range(count):
        at = count - 1 - back
        row, place = slots[at], counters[CLOCK]
        if row < 0:
            key = keys[places[at]]
            if first < 0 or key >> shift != page:
                page = key >> shift
                first = given_rows(pages, counters, page)
            row = first + (key & ((1 << shift) - 1))
        if rows[row, PLACE] == 0:
            rows[row, PLACE] = (place + 1) << 1
            counters[LIVE] += 1
        else:
            old = (rows[row, PLACE] >> 1) - 1
            counters[AGAIN] += 1 - (rows[row, PLACE] & 1)
            rows[row, PLACE] = (place + 1) << 1 | 1
            if words[old >> 5] >> (old & 31) & 1:  # touched before in this very request
                words[old >> 5] -= 1 << (old & 31)
                if old >> 5 == word:
                    pending -= 1
                else:
                    add(tree, old >> 5, -1)
        rows[row, TIME] = now
        counters[CLOCK] += 1
        if place >> 5 != word:
            add(tree, word, pending)
            word, pending = place >> 5, 0
        words[word] |= 1 << (place & 31)
        pending += 1
    add(tree, word, pending)


@jit
def count_hits(
    scratch: Scratch, count: int, tokens: int, block: int, levels: Ints, sums: Sums, served: Ints
) -> None:
    """Add a request's hits to the histograms by distance, and to the levels that serve them."""
    _, distances, places = scratch
    blocks, weights, _ = sums
    for at in range(count):
        size = min(block, tokens - places[at] * block)
        distance = distances[at]
        if distance == NEVER:
            blocks[0] += 1
            weights[0] += size
            continue
        blocks[distance] += 1
        weights[distance] += size
        level = 0
        while level < len(levels) and distance > levels[level]:
            level += 1
        served[level] += size


@jit
def fits(state: State, keys: Ints) -> bool:
    """Tell whether a request of `keys` fits in as it is: its pages, their rows, its places."""
    more, counters = turns(keys, state.counters[SHIFT]), state.counters
    full = 10 * (counters[PAGES] + more) > 7 * len(state.pages)
    full |= counters[ROWS] + (more << counters[SHIFT]) > len(state.rows)
    return not full and counters[CLOCK] + len(keys) <= 32 * len(state.words)


@jit
def run(
    state: State, asked: Requests, block: int, sample: Sample, levels: Ints, sums: Sums,
    served: Ints, scratch: Scratch,
) -> int:  # fmt: skip
    """Look at requests from counters[DONE] on; return 1 where room has to be made first, else 0.

    Index 0 of the histograms counts what was never seen before, index d what is at distance d.
    `served[i, k]` are tokens of request i at level k: the first whose size is at least the
    distance, or, as the last, beyond all.
    """
    counters = state.counters
    for i in range(counters[DONE], len(asked.times)):
        wanted = asked.keys[asked.starts[i] : asked.starts[i + 1]]
        many = len(wanted)
        if not fits(state, wanted) or many > len(scratch.slots):
            counters[DONE] = i
            return 1
        now = asked.times[i]
        count = look_up(state, wanted, now, sample, scratch, sums.intervals)
        count_hits(scratch, count, asked.tokens[i], block, levels, sums, served[i])
        touch(state, wanted, now, scratch, count)
    counters[DONE] = len(asked.times)
    return 0


@jit
def drop(pages: Ints, rows: Ints, words: Ints, limit: int) -> None:
    """Take away the marks of the blocks whose keys are at `limit` or above; pages of one id."""
    for slot in range(len(pages)):
        if pages[slot, FIRST] != 0 and (pages[slot, PAGE] >> 20) & 0xFFFFFFFF >= limit:
            place = (rows[pages[slot, FIRST] - 1, PLACE] >> 1) - 1
            words[place >> 5] &= ~(1 << (place & 31))


@jit
def sums_of(words: Ints, sums: Ints) -> int:
    """Fill `sums` with how many marks are before each word; return how many there are."""
    total = 0
    for word in range(len(words)):
        sums[word] = total
        total += ones(words[word])
    return total


@jit
def renumber(rows: Ints, count: int, words: Ints, sums: Ints) -> None:
    """Close up the places of the first `count` rows; those that have no mark are emptied."""
    for row in range(count):
        place = (rows[row, PLACE] >> 1) - 1
        if place < 0:
            continue
        if not words[place >> 5] >> (place & 31) & 1:
            rows[row, PLACE] = 0
            continue
        rank = sums[place >> 5] + ones(words[place >> 5] & ((1 << (place & 31)) - 1))
        rows[row, PLACE] = (rank + 1) << 1 | (rows[row, PLACE] & 1)


@jit
def mark_first(words: Ints, tree: Ints, live: int) -> None:
    """Mark the first `live` places of empty marks, and fill their tree, in linear time."""
    for word in range(len(words)):
        left = live - 32 * word
        words[word] = 0xFFFFFFFF if left >= 32 else (1 << max(left, 0)) - 1
        tree[word + 1] += min(max(left, 0), 32)
        up = word + 1 + ((word + 1) & -(word + 1))
        if up < len(tree):
            tree[up] += tree[word + 1]
