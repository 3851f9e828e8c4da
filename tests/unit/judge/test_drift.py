from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.judge import drift

HAND = [10.0, 15.0, 14.0, 20.0]
"""Five pairs rise and one (15, 14) falls: S = 4."""


def brute_p(s: int, n: int) -> float:
    values = list(itertools.permutations(range(n)))
    return sum(abs(drift.mann_kendall_s(order)) >= abs(s) for order in values) / len(values)


def test_s_by_hand() -> None:
    assert drift.mann_kendall_s(HAND) == 4
    assert drift.mann_kendall_s(HAND[::-1]) == -4
    assert drift.mann_kendall_s([3.0, 3.0, 3.0]) == 0


def test_kendalls_table_for_five_and_ten() -> None:
    """Kendall (1975), table of upper tail probabilities: n=5 S=8: 0.042; n=10 S=21: 0.036."""
    assert round(drift._exact_p(8, 5) / 2, 3) == 0.042
    assert round(drift._exact_p(10, 5) / 2, 4) == 0.0083
    assert round(drift._exact_p(21, 10) / 2, 3) == 0.036
    assert round(drift._exact_p(29, 10) / 2, 4) == 0.0046
    assert drift._exact_p(0, 5) == 1.0


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_exact_p_counts_all_orders(n: int) -> None:
    for s in range(n * (n - 1) // 2 + 1):
        assert drift._exact_p(s, n) == pytest.approx(brute_p(s, n))


def test_variance_with_ties() -> None:
    assert drift.variance_of_s(22, []) == pytest.approx(22 * 21 * 49 / 18)
    assert drift.variance_of_s(22, [2, 3]) == pytest.approx((22 * 21 * 49 - 18 - 66) / 18)
    assert drift.variance_of_s(4, [4]) == 0


def test_sens_slope_by_hand() -> None:
    """Slopes 5, 2, 10/3, -1, 2.5, 6; in order -1, 2, 2.5, 10/3, 5, 6."""
    assert drift.sen_slope([1, 2, 3, 4], HAND) == pytest.approx((2.5 + 10 / 3) / 2)
    assert drift.sen_slope([1, 3, 5], [1, 5, 7]) == pytest.approx(1.5)


def test_normal_p_above_ten_points() -> None:
    rising = [float(i) for i in range(12)]
    found = drift.trend(range(12), rising)
    z = (66 - 1) / math.sqrt(12 * 11 * 29 / 18)
    assert found.s == 66
    assert found.p == round(math.erfc(z / math.sqrt(2)), 6)
    assert found.significant()
    assert not found.significant(level=1e-9)


def test_ten_points_are_counted_out_and_eleven_approximated() -> None:
    """Both ways differ in the third decimal: the exact p of a strict rise is 2/n!."""
    assert drift.trend(range(10), [float(i) for i in range(10)]).p == round(2 / 3628800, 6)
    z = (55 - 1) / math.sqrt(11 * 10 * 27 / 18)
    eleven = drift.trend(range(11), [float(i) for i in range(11)])
    assert eleven.p == round(math.erfc(z / math.sqrt(2)), 6) > 0


def test_significant_is_below_the_level_not_at_it() -> None:
    found = drift.trend(range(5), [1.0, 2.0, 3.0, 4.0, 5.0])
    assert not found.significant(level=found.p)
    assert found.significant(level=found.p + 1e-6)


def test_ties_take_the_normal_even_when_short() -> None:
    found = drift.trend(range(6), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0])
    z = (12 - 1) / math.sqrt((6 * 5 * 17 - 3 * 18) / 18)
    assert (found.s, found.p) == (12, round(math.erfc(z / math.sqrt(2)), 6))


def test_a_constant_series_does_not_drift() -> None:
    found = drift.trend(range(6), [3.0] * 6)
    assert (found.s, found.p, found.slope, found.rise) == (0, 1.0, 0.0, 0.0)


def test_rise_is_relative_to_the_median_over_the_whole_series() -> None:
    found = drift.trend([0, 10, 20, 30, 40], [100.0, 105.0, 110.0, 115.0, 120.0])
    assert found.slope == pytest.approx(0.5)
    assert found.rise == pytest.approx(20 / 110)
    assert found.p == round(2 / 120, 6)
    falling = drift.trend([0, 10, 20, 30, 40], [120.0, 115.0, 110.0, 105.0, 100.0])
    assert falling.rise == pytest.approx(-20 / 110)


def test_one_outlier_does_not_make_a_trend() -> None:
    assert abs(drift.trend(range(7), [10.0, 10.1, 9.9, 500.0, 10.05, 9.95, 10.02]).rise) < 0.02


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], "4 points"),
        ([1, 2, 3], [1, 2, 3, 4, 5], "not one series"),
        ([1, 2, 3, 4, 5], [1, 2, math.nan, 4, 5], "not finite"),
        ([1, 2, 3, 4, math.inf], [1, 2, 3, 4, 5], "not finite"),
        ([1, 2, 2, 4, 5], [1, 2, 3, 4, 5], "do not rise"),
        ([5, 4, 3, 2, 1], [1, 2, 3, 4, 5], "do not rise"),
        ([1, 2, 3, 4, 5], [0, 0, 0, 4, 5], "not positive"),
    ],
)
def test_series_that_cannot_carry_a_trend(x: list[float], y: list[float], why: str) -> None:
    with pytest.raises(drift.SeriesError, match=why):
        drift.trend(x, y)


series = st.lists(st.integers(1, 1000).map(float), min_size=5, max_size=14)


@given(series)
def test_turned_round_the_trend_turns_round(y: list[float]) -> None:
    x = list(range(len(y)))
    there, back = drift.trend(x, y), drift.trend(x, y[::-1])
    assert there.s == -back.s
    assert there.p == back.p
    assert 0 < there.p <= 1
    assert there.rise == pytest.approx(-back.rise)


@given(series, st.integers(1, 50))
def test_scale_does_not_matter(y: list[float], factor: int) -> None:
    x = list(range(len(y)))
    plain, scaled = (
        drift.trend(x, y),
        drift.trend([each * 7 for each in x], [v * factor for v in y]),
    )
    assert (plain.s, plain.p) == (scaled.s, scaled.p)
    assert plain.rise == pytest.approx(scaled.rise)


def test_against_scipy_where_it_is_installed() -> None:
    stats = pytest.importorskip("scipy.stats")
    y = [10.0, 12.0, 11.0, 15.0, 14.0, 18.0, 16.0, 20.0]
    found = drift.trend(range(8), y)
    assert found.p == pytest.approx(stats.kendalltau(range(8), y, method="exact").pvalue, abs=1e-6)
    assert found.slope == pytest.approx(stats.theilslopes(y, range(8))[0])
