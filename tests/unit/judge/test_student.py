from __future__ import annotations

import math

import pytest
from scipy import stats

from kvgate.judge.student import normal_above, normal_tail, t_above, t_tail


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 9, 10, 29, 100, 333])
@pytest.mark.parametrize("t", [-30.0, -2.1, -0.5, 0.0, 0.5, 1.0, 2.1, 8.6, 30.0])
def test_the_tail_of_t_is_scipys(df: int, t: float) -> None:
    assert t_tail(t, df) == pytest.approx(float(stats.t.sf(t, df)), abs=1e-11)


@pytest.mark.parametrize("df", [1, 2, 4, 7, 9, 49, 400])
@pytest.mark.parametrize("tail", [0.5, 0.1, 0.025, 0.0015, 1e-5])
def test_quantiles_of_t_are_scipys(df: int, tail: float) -> None:
    assert t_above(tail, df) == pytest.approx(float(stats.t.isf(tail, df)), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("z", [-3.0, 0.0, 1.96, 5.0])
def test_the_normal_is_scipys(z: float) -> None:
    assert normal_tail(z) == pytest.approx(float(stats.norm.sf(z)), rel=1e-12)
    assert normal_above(normal_tail(z)) == pytest.approx(z, abs=1e-8)


@pytest.mark.parametrize("tail", [0.0, -0.1, 0.6, math.nan])
def test_no_quantile_of_what_is_no_upper_tail(tail: float) -> None:
    with pytest.raises(ValueError, match="no probability"):
        t_above(tail, 4)


def test_no_t_without_degrees_of_freedom() -> None:
    with pytest.raises(ValueError, match="at least one"):
        t_tail(1.0, 0)
