"""Trends of long series, steps, discoveries and the daily cycle: against brute force and scipy."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.judge.soaks import TIMES, noise, seeded

from kvgate.judge import drift
from kvgate.judge.cycle import DAY, without_day
from kvgate.judge.discovery import adjusted
from kvgate.judge.shift import LEAST_SIDE, bridge_tail, step, steps
from kvgate.judge.trend import count_s, course, likeness, ranks, thinned

few = st.lists(st.integers(-5, 5).map(float), min_size=5, max_size=40)


@given(few)
def test_s_counts_as_all_pairs_do(values: list[float]) -> None:
    assert count_s(values) == drift.mann_kendall_s(values)


@given(few)
def test_ranks_are_twice_the_shared_rank_around_0(values: list[float]) -> None:
    def doubled(value: float) -> int:
        smaller = sum(each < value for each in values)
        upto = sum(each <= value for each in values)
        return smaller + upto - len(values)

    assert ranks(values) == [doubled(value) for value in values]


@given(few)
def test_the_slope_is_sens_and_lies_in_its_interval(values: list[float]) -> None:
    times = [3.0 * place for place in range(len(values))]
    found = course(times, values)
    assert found.slope == pytest.approx(drift.sen_slope(times, values))
    assert found.low <= found.slope <= found.high
    assert 0 < found.p <= 1
    assert 1 <= found.likeness <= len(values)


def test_p_and_slope_are_scipys_where_neighbours_are_not_alike() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = [10.0, 3.0, 12.0, 4.0, 13.0, 5.0, 15.0, 6.0, 16.0, 7.0, 18.0, 8.0]
    found = course(list(range(12)), values)
    assert found.likeness == 1
    ours = drift.trend(range(12), values)
    assert found.p == pytest.approx(ours.p, abs=1e-6)
    sen = stats.theilslopes(values, range(12))
    assert found.slope == pytest.approx(sen.slope)
    assert found.low <= sen.low_slope <= sen.high_slope <= found.high
    pairs = itertools.combinations(enumerate(values), 2)
    slopes = sorted((b - a) / (j - i) for (i, a), (j, b) in pairs)
    reach = 1.959964 * math.sqrt(drift.variance_of_s(12, []))
    first, last = math.floor((66 - reach) / 2), math.ceil((66 + reach) / 2) + 1
    assert (found.low, found.high) == (slopes[first - 1], slopes[last - 1])  # Gilbert 16.5.2


def test_likeness_of_an_ar1_is_what_theory_says() -> None:
    """(1 + φ) / (1 - φ): 1.9 at 0.3, 4 at 0.6, 9 at 0.8; of medians over 60 series."""
    for phi in (0.3, 0.6, 0.8):
        found = statistics.median(likeness(noise(seeded(f"{phi}/{n}"), phi=phi)) for n in range(60))
        assert found == pytest.approx((1 + phi) / (1 - phi), rel=0.3)


def test_thinning_keeps_every_point_in_one_run() -> None:
    times = [float(each) for each in range(1000)]
    x, y = thinned(times, [7.0 * each for each in times], 96)
    assert len(x) == len(y) == 96
    assert all(b == pytest.approx(7 * a) for a, b in zip(x, y, strict=True))
    assert thinned(times, times, 1000) == (times, times)


@pytest.mark.parametrize(
    ("times", "values"),
    [
        ([0, 1, 2, 3], [1, 2, 3, 4]),
        ([0, 1, 2, 3, 4], [1, 2, 3, 4]),
        ([0, 1, 1, 3, 4], [1, 2, 3, 4, 5]),
        ([0, 1, 2, 3, 4], [1, 2, math.nan, 4, 5]),
        ([0, 1, 2, 3, math.inf], [1, 2, 3, 4, 5]),
    ],
)
def test_what_is_no_series_is_refused(times: list[float], values: list[float]) -> None:
    for test in (course, step, steps):
        with pytest.raises(drift.SeriesError):
            test(times, values)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.booleans())
def test_adjusted_is_the_step_up_procedure(ps: list[float], any_dependence: bool) -> None:
    """Straight from the papers: reject the k smallest, k the largest with p(k) ≤ k·q/(n·c)."""
    n = len(ps)
    factor = sum(1 / k for k in range(1, n + 1)) if any_dependence else 1
    found = adjusted(ps, any_dependence=any_dependence)
    for q in (0.013, 0.05, 0.21, 0.6):
        order = sorted(ps)
        k = max((k for k in range(1, n + 1) if order[k - 1] * factor * n / k <= q), default=0)
        assert sum(each <= q for each in found) == k


@pytest.mark.parametrize(("any_dependence", "method"), [(False, "bh"), (True, "by")])
def test_adjusted_is_scipys(any_dependence: bool, method: str) -> None:
    stats = pytest.importorskip("scipy.stats")
    ps = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.5, 0.9]
    expected = stats.false_discovery_control(ps, method=method)
    assert adjusted(ps, any_dependence=any_dependence) == pytest.approx(list(expected))


def test_adjusted_refuses_what_is_no_probability() -> None:
    assert adjusted([]) == ()
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="probability"):
            adjusted([0.5, bad])


def test_the_bridge_is_kolmogorovs() -> None:
    stats = pytest.importorskip("scipy.stats")
    for reach in (0.3, 0.5, 1.0, 1.36, 2.0):
        assert bridge_tail(reach) == pytest.approx(stats.kstwobign.sf(reach), abs=1e-5)
    assert bridge_tail(0.0) == 1


@given(st.integers(LEAST_SIDE, 40), st.integers(LEAST_SIDE, 40), st.sampled_from([-9.0, 9.0]))
def test_a_clean_step_is_found_where_it_is(before: int, after: int, by: float) -> None:
    values = [100 + (by if at >= before else 0) for at in range(before + after)]
    found = step([float(at) for at in range(len(values))], values)
    assert found is not None
    assert found.at == found.time == before
    assert found.share == pytest.approx(by / 100)
    assert found.p == 0


def test_outliers_are_no_step_and_a_constant_has_none() -> None:
    values = [100.0 + (at % 3) for at in range(100)]
    values[40:44] = [1e6] * 4
    found = step(TIMES[:100], values)
    assert found is None or found.p > 0.05
    assert step(TIMES[:100], [5.0] * 100) is None
    assert steps(TIMES[:100], [5.0] * 100) == ()


def test_several_steps_are_found_in_order() -> None:
    shares = noise(seeded("steps"), 0.02, 0.3)
    values = [
        100 * (1 + share) + 30 * (at >= 100) - 50 * (at >= 300) for at, share in enumerate(shares)
    ]
    found = steps(TIMES, values)
    assert [abs(a.at - b) <= 2 for a, b in zip(found, (100, 300), strict=True)] == [True, True]
    assert found[0].share == pytest.approx(0.30, abs=0.03)
    assert found[1].share == pytest.approx(-50 / 130, abs=0.03)


def test_the_day_goes_and_the_line_stays() -> None:
    day = [
        5 * math.sin(2 * math.pi * at / DAY + 1) + 2 * math.cos(4 * math.pi * at / DAY)
        for at in TIMES
    ]
    line = [100 + at / 10_000 for at in TIMES]
    left = without_day(TIMES, [a + b for a, b in zip(day, line, strict=True)])
    level = left[0] - line[0]
    assert left == pytest.approx([each + level for each in line], abs=0.2)


def test_less_than_two_days_are_left_as_they_are() -> None:
    values = [math.sin(at) for at in TIMES[:200]]
    assert without_day(TIMES[:200], values) == values
