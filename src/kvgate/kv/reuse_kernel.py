"""The inner loops of reuse distances: a hash table of blocks, and a ranked set of their last uses.

Every touch of a block has a place in time, from 0. The *marks* are the places of the last touch
of each block, as bits, 32 a word, with a Fenwick tree over the words' counts (P. M. Fenwick, "A
new data structure for cumulative frequency tables", 1994), so that the number of blocks touched
since a place is a prefix sum. The table is open addressing, linear probing: a row a slot,
(key, (place + 1) × 2, + 1 where used more than once, last time in µs); 0 is an empty slot.

Plain integers only: all runs compiled by Numba, and as it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kvgate.kv.compiled import jit
from kvgate.kv.reuse import A_DECADE, BUCKETS
from kvgate.kv.trace import Ints

KEY, PLACE, TIME = 0, 1, 2
"""Columns of the table."""

LIVE, CLOCK, DONE, AGAIN = 0, 1, 2, 3
"""Entries of the counters: blocks, the next place, requests done, blocks used again."""

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
def find(table: Ints, key: int) -> int:
    """Return the slot of `key`: its own, or the empty one where it belongs."""
    mask = len(table) - 1
    slot = key & mask
    while table[slot, PLACE] != 0 and table[slot, KEY] != key:
        slot = (slot + 1) & mask
    return slot


@jit
def bucket_of(micros: int) -> int:
    """Return the bucket of a reuse interval."""
    if micros < 1:
        return 0
    return min(BUCKETS - 1, int(A_DECADE * math.log10(micros)))


@jit
def unmark(words: Ints, tree: Ints, slots: Ints, table: Ints, count: int) -> None:
    """Take away the marks of the last touches of the blocks at `slots`: of each only once."""
    word, pending = -1, 0
    for i in range(count):
        if slots[i] < 0:
            continue
        place = (table[slots[i], PLACE] >> 1) - 1
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


class State(NamedTuple):
    """The blocks: their table, the marks of their last uses, the tree over these, counters."""

    table: Ints
    words: Ints
    tree: Ints
    counters: Ints


class Sample(NamedTuple):
    """Which keys are looked at: below ``limit``, of ``part`` of ``parts`` (a power of 2)."""

    limit: int
    part: int
    parts: int


class Sums(NamedTuple):
    """Histograms by distance, of blocks and of tokens (``weights``), and of reuse intervals."""

    blocks: Ints
    weights: Ints
    intervals: Ints


class Scratch(NamedTuple):
    """Of one request: slots (-1: none), distances, and which of its blocks was looked at."""

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
    table, words, tree, live = state.table, state.words, state.tree, state.counters[LIVE]
    limit, part, parts = sample
    slots, distances, places = scratch
    count, worst, word, sums = 0, 0, -1, 0
    interval, bucket = -1, 0
    for i in range(len(keys)):
        key = keys[i]
        if (key >> 20) & 0xFFFFFFFF >= limit:
            continue
        if (key >> 54) & (parts - 1) != part:
            continue
        slot = find(table, key)
        if table[slot, PLACE] == 0:
            slots[count], worst = -1, NEVER
        else:
            place = (table[slot, PLACE] >> 1) - 1
            if place >> 5 != word:
                word = place >> 5
                sums = before(tree, word)
            rank = sums + ones(words[word] & ((1 << (place & 31)) - 1))
            worst = max(worst, live - rank)
            if now - table[slot, TIME] != interval:
                interval = now - table[slot, TIME]
                bucket = bucket_of(interval)
            intervals[bucket] += 1
            slots[count] = slot
        distances[count], places[count] = worst, i
        count += 1
    return count


@jit
def touch(state: State, keys: Ints, now: int, scratch: Scratch, count: int) -> None:
    """Make a request's blocks the last touched, the first of them the very last."""
    table, words, tree, counters = state
    slots, _, places = scratch
    unmark(words, tree, slots, table, count)
    word, pending = counters[CLOCK] >> 5, 0
    for back in range(count):
        at = count - 1 - back
        key, slot, place = keys[places[at]], slots[at], counters[CLOCK]
        if slot < 0:
            slot = find(table, key)
        if table[slot, PLACE] == 0:
            table[slot, KEY] = key
            table[slot, PLACE] = (place + 1) << 1
            counters[LIVE] += 1
        else:
            old = (table[slot, PLACE] >> 1) - 1
            counters[AGAIN] += 1 - (table[slot, PLACE] & 1)
            table[slot, PLACE] = (place + 1) << 1 | 1
            if words[old >> 5] >> (old & 31) & 1:  # touched before in this very request
                words[old >> 5] -= 1 << (old & 31)
                if old >> 5 == word:
                    pending -= 1
                else:
                    add(tree, old >> 5, -1)
        table[slot, TIME] = now
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
        full = 10 * (counters[LIVE] + many) > 7 * len(state.table)
        late = counters[CLOCK] + many > 32 * len(state.words)
        if full or late or many > len(scratch.slots):
            counters[DONE] = i
            return 1
        now = asked.times[i]
        count = look_up(state, wanted, now, sample, scratch, sums.intervals)
        count_hits(scratch, count, asked.tokens[i], block, levels, sums, served[i])
        touch(state, wanted, now, scratch, count)
    counters[DONE] = len(asked.times)
    return 0


@jit
def drop(table: Ints, words: Ints, limit: int) -> None:
    """Take away the marks of the blocks whose keys are at `limit` or above."""
    for slot in range(len(table)):
        place = (table[slot, PLACE] >> 1) - 1
        if place >= 0 and (table[slot, KEY] >> 20) & 0xFFFFFFFF >= limit:
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
def rebuild(table: Ints, bigger: Ints, words: Ints, sums: Ints) -> None:
    """Copy the marked blocks into the empty `bigger`, their places closed up."""
    for slot in range(len(table)):
        place = (table[slot, PLACE] >> 1) - 1
        if place < 0 or not words[place >> 5] >> (place & 31) & 1:
            continue
        rank = sums[place >> 5] + ones(words[place >> 5] & ((1 << (place & 31)) - 1))
        new = find(bigger, table[slot, KEY])
        bigger[new, KEY], bigger[new, TIME] = table[slot, KEY], table[slot, TIME]
        bigger[new, PLACE] = (rank + 1) << 1 | (table[slot, PLACE] & 1)


@jit
def renumber(table: Ints, words: Ints, sums: Ints) -> None:
    """Close the places up, where all blocks are marked and stay in their slots."""
    for slot in range(len(table)):
        place = (table[slot, PLACE] >> 1) - 1
        if place >= 0:
            rank = sums[place >> 5] + ones(words[place >> 5] & ((1 << (place & 31)) - 1))
            table[slot, PLACE] = (rank + 1) << 1 | (table[slot, PLACE] & 1)


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
