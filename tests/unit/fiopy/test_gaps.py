"""The longest gaps are those that a plain list of times has."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from fiopy.gaps import Gap, Occupied


def plainly(times: list[int], most: int) -> list[int]:
    ordered = sorted(set(times))
    lengths = [b - a for a, b in itertools.pairwise(ordered)]
    return sorted((each for each in lengths if each > 1), reverse=True)[:most]


@given(
    st.lists(st.lists(st.integers(0, 30_000) | st.integers(0, 300), max_size=60), min_size=1),
    st.integers(1, 5),
)
@settings(max_examples=100, deadline=None)
def test_the_longest_gaps_of_several_logs(logs: list[list[int]], most: int) -> None:
    occupied = Occupied()
    for times in logs:
        occupied.add(times)
    found = occupied.longest(most)
    every = [time for times in logs for time in times]
    assert [gap.length_ms for gap in found] == plainly(every, most)
    for gap in found:
        assert {gap.begin_ms, gap.end_ms} <= set(every)
        assert not any(gap.begin_ms < time < gap.end_ms for time in every)


@given(st.integers(1, 40), st.integers(1, 9000), st.integers(0, 2**41))
@settings(max_examples=60, deadline=None)
def test_a_gap_in_a_dense_log_is_found_at_any_time(at: int, length: int, base: int) -> None:
    occupied = Occupied()
    occupied.add(range(base, base + at))
    occupied.add(range(base + at + length, base + at + length + 40))
    (gap,) = occupied.longest(1)
    assert gap == Gap(length + 1, base + at - 1)


def test_silence_at_the_ends_counts_where_they_are_known() -> None:
    occupied = Occupied()
    occupied.add([5000, 5001, 5002])
    assert occupied.longest(3) == ()
    assert occupied.longest(3, begin_ms=0, end_ms=9000) == (Gap(5000, 0), Gap(3998, 5002))
    one, other = Occupied(), Occupied()
    one.add([1, 9000])
    other.add([4000])
    one.merge(other)
    assert [gap.length_ms for gap in one.longest(9)] == [5000, 3999]
