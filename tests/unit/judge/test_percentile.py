from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.judge.percentile import SampleTooSmallError, least_sample, percentile


@pytest.mark.parametrize(
    ("p", "least"), [(50, 2), (90, 10), (95, 20), (99, 100), (99.9, 1000), (99.99, 10000), (1, 100)]
)
def test_how_many_values_a_percentile_takes(p: float, least: int) -> None:
    assert least_sample(p) == least
    assert percentile([1.0] * least, p) == 1.0
    with pytest.raises(
        SampleTooSmallError, match=f"p{p:g} takes {least} values; there are {least - 1}"
    ):
        percentile([1.0] * (least - 1), p)


def test_nearest_rank() -> None:
    """The example everywhere given for nearest rank: 15 20 35 40 50; p40 is 20, p50 is 35."""
    values = [35.0, 20.0, 50.0, 15.0, 40.0]
    assert percentile(values, 40) == 20
    assert percentile(values, 50) == 35
    assert percentile(values, 30) == 20
    assert percentile([float(i) for i in range(1, 101)], 99) == 99
    assert percentile([float(i) for i in range(1, 1001)], 99.9) == 999
    assert percentile([1.0, 2.0], 50) == 1


@pytest.mark.parametrize("p", [0, 100, -1, 101])
def test_only_between_0_and_100(p: float) -> None:
    with pytest.raises(ValueError, match="not a percentile"):
        percentile([1.0] * 10, p)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(SampleTooSmallError, match="not a number"):
        percentile([1.0, math.nan, 2.0], 50)


@given(st.lists(st.integers(-1000, 1000).map(float), min_size=20, max_size=60), st.integers(5, 95))
def test_it_is_the_smallest_measured_value_that_p_percent_do_not_exceed(
    values: list[float], p: int
) -> None:
    found = percentile(values, p)
    assert found in values
    assert sum(each <= found for each in values) * 100 >= p * len(values)
    assert sum(each < found for each in values) * 100 < p * len(values)
