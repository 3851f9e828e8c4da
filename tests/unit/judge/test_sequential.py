from __future__ import annotations

import random

import pytest

from kvgate.judge.sequential import ERROR, levels, spent
from kvgate.judge.student import normal_above


def bounds(looks: tuple[int, ...]) -> list[float]:
    return [round(normal_above(level), 3) for level in levels(looks)]


def test_bounds_are_those_published_for_lan_and_demets() -> None:
    """One-sided 0.025, O'Brien-Fleming type, equal steps: as tables of ldbounds have it."""
    assert bounds((10,)) == [1.96]
    assert bounds((5, 10)) == [2.963, 1.969]
    assert bounds((10, 20, 30, 40, 50)) == [4.877, 3.357, 2.680, 2.290, 2.031]


def test_looks_together_spend_the_whole_error_and_no_more() -> None:
    """By simulation of the normal walk that the bounds are made for."""
    looks, rng, times = (5, 8, 12), random.Random(1), 40_000  # noqa: S311  a simulation
    edges = [normal_above(level) for level in levels(looks)]
    crossed = 0
    for _ in range(times):
        total, done = 0.0, 0
        for look, edge in zip(looks, edges, strict=True):
            total += rng.gauss(0, (look - done) ** 0.5)
            done = look
            if total > edge * look**0.5:
                crossed += 1
                break
    assert crossed / times == pytest.approx(ERROR, abs=4 * (ERROR / times) ** 0.5)


def test_spending_is_slow_at_first_and_ends_at_the_error() -> None:
    assert spent(1.0) == ERROR
    assert spent(0.5) == pytest.approx(0.001525, abs=1e-6)
    assert spent(0.1) < 1e-10


@pytest.mark.parametrize("looks", [(), (4,), (10, 5), (5, 5), (5, 6, 7, 8, 9, 10)])
def test_looks_that_cant_be_planned_are_refused(looks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="look"):
        levels(looks)
