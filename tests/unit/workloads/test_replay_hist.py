"""Times in bins: each known to 0.8 %, however many they are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.judge.percentile import rank
from kvgate.workloads.replay_hist import Histogram, width

TIMES = st.lists(st.integers(0, 10**13), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(TIMES, st.sampled_from([1.0, 50.0, 90.0, 99.9]))
def test_a_percentile_is_within_its_bin(times: list[int], pct: float) -> None:
    kept = Histogram()
    for each in times:
        kept.add(each)
    nearest = next(n for n in range(1, len(times) + 1) if n >= pct / 100 * len(times))
    assert rank(len(times), pct) == nearest
    found, exact = kept.at(nearest), sorted(times)[nearest - 1]
    assert abs(found - exact) <= max(1, exact / 128)
    assert kept.total == len(times)


@settings(max_examples=30, deadline=None)
@given(TIMES, TIMES)
def test_merging_is_counting_together(some: list[int], others: list[int]) -> None:
    both, one, two = Histogram(), Histogram(), Histogram()
    for each in some:
        one.add(each)
        both.add(each)
    for each in others:
        two.add(each)
        both.add(each)
    one.merge(two)
    assert one.pairs() == both.pairs() == Histogram(both.pairs()).pairs()


def test_small_times_are_exact_and_none_has_no_percentile() -> None:
    assert width(255) == 1
    assert width(256) == 2
    with pytest.raises(ValueError, match="of 0 times there is no 1th"):
        Histogram().at(1)
