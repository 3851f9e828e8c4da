"""fio's bins and the percentiles that a sample carries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fiopy import FioOutputError
from fiopy.bins import Layout, Percentile, index, least_sample, percentiles, upper


def percentile(counts: dict[int, int], percent: float) -> Percentile:
    (found,) = percentiles(counts, [percent])
    return found


@given(st.integers(0, 2**40))
def test_a_bin_holds_its_values_within_a_64th(value: int) -> None:
    at = index(value)
    assert upper(at) >= value
    assert at == 0 or upper(at - 1) < value
    assert upper(at) - value <= value / 64


@pytest.mark.parametrize(
    ("columns", "stride", "unit_ns"),
    [(1856, 1, 1), (116, 16, 1), (29, 64, 1), (1216, 1, 1000), (19, 64, 1000)],
)
def test_the_layout_is_told_by_its_columns(columns: int, stride: int, unit_ns: int) -> None:
    layout = Layout.of(columns)
    assert (layout.stride, layout.unit_ns) == (stride, unit_ns)
    bounds = [layout.upper_ns(at) for at in range(columns)]
    assert bounds == sorted(set(bounds))
    assert bounds[0] == (stride - 1) * unit_ns


def test_a_layout_that_is_none_of_fios_is_refused() -> None:
    with pytest.raises(FioOutputError, match="100 bins is none of fio's"):
        Layout.of(100)


@pytest.mark.parametrize(("percent", "least"), [(50, 2), (99, 100), (99.9, 1000), (1, 100)])
def test_percentiles_only_where_the_sample_carries_them(percent: float, least: int) -> None:
    assert least_sample(percent) == least
    assert percentile({7: least}, percent).ns == 7
    told = percentile({7: least - 1}, percent)
    assert told.ns is None
    assert told.because == f"p{percent:g} takes {least} latencies; there are {least - 1}"


def test_nearest_rank() -> None:
    counts = {15: 1, 20: 1, 35: 1, 40: 1, 50: 1}
    assert [percentile(counts, p).ns for p in (40, 50)] == [20, 35]
    assert percentile(dict.fromkeys(range(1, 101), 1), 99).ns == 99


@pytest.mark.parametrize("percent", [0, 100, -1, 101])
def test_only_between_0_and_100(percent: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        least_sample(percent)
