import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.load.rows import Failure, LoadResult, Row
from kvgate.load.slo import Found, Level, Slo, level_of, search

Rows = Callable[..., Row]
Result = Callable[..., LoadResult]


def level(concurrency: int, kept: bool | None) -> Level:
    return Level(concurrency=concurrency, kept=kept, told="as planned")


@given(truth=st.integers(0, 600), most=st.integers(1, 600), least=st.integers(1, 600))
@settings(max_examples=150)
def test_the_edge_is_found_whatever_it_is(truth: int, most: int, least: int) -> None:
    least, most = min(least, most), max(least, most)
    asked: list[int] = []

    def measure(concurrency: int) -> Level:
        asked.append(concurrency)
        return level(concurrency, concurrency <= truth)

    found = search(measure, least=least, most=most, tolerance=0.1, repeats=3)
    assert found.problem == ""
    assert all(least <= each <= most for each in asked)
    assert len(asked) <= 40
    if truth < least:
        assert (found.kept, found.missed) == (0, least)
    elif truth >= most:
        assert (found.kept, found.missed) == (most, None)
    else:
        assert found.missed is not None
        assert found.kept <= truth < found.missed
        assert found.missed - found.kept <= max(1, found.kept // 10)
    ends = [each for each in (found.kept, found.missed) if each]
    assert all(asked.count(each) == 3 for each in ends)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60)
def test_an_edge_that_is_noisy_is_found_near_it_or_not_concluded_from(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311  noise, not a secret

    def measure(concurrency: int) -> Level:
        return level(concurrency, concurrency <= 50 + draw.uniform(-4, 4))

    found = search(measure, most=400, repeats=5)
    assert found.problem or 42 <= found.kept <= 54


def test_one_bad_level_does_not_decide() -> None:
    seen: list[int] = []

    def measure(concurrency: int) -> Level:
        seen.append(concurrency)
        return level(concurrency, concurrency <= 100 and not (concurrency == 4 and len(seen) == 3))

    found = search(measure, most=16)
    assert (found.kept, found.missed, found.problem) == (16, None, "")
    assert seen.count(4) == 3


def test_more_load_that_is_better_again_is_no_answer() -> None:
    found = search(lambda c: level(c, c != 8 and c != 9 and c != 10), most=100)
    assert "not monotone" in found.problem
    assert str(found).startswith("inconclusive")


def test_a_level_that_can_not_tell_ends_the_search() -> None:
    found = search(lambda c: level(c, True if c < 8 else None), most=100)
    assert (found.kept, found.missed) == (4, None)
    assert found.problem == "at concurrency 8: as planned"


def test_none_kept_is_told_as_none() -> None:
    found = search(lambda c: level(c, False), most=100)
    assert (found.kept, found.missed) == (0, 1)
    assert str(found) == "none: 1 does not keep it"


def test_the_highest_allowed_is_told_as_a_lower_bound() -> None:
    assert str(search(lambda c: level(c, True), most=16)) == "16 or more"
    assert str(Found(kept=9, missed=10, levels=())) == "9 (10 does not keep it)"


@pytest.mark.parametrize(
    "bounds", [{"least": 0, "most": 4}, {"least": 5, "most": 4}, {"most": 4, "tolerance": 0.0}]
)
def test_bounds_that_are_none_are_refused(bounds: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a search from"):
        search(lambda c: level(c, True), **bounds)  # type: ignore[arg-type]


def test_a_level_goes_by_its_percentile_with_failures_late(row_of: Rows, result_of: Result) -> None:
    slo = Slo(ttft_s=0.5, percent=90)
    rows = [row_of(ttft_s=0.1 if n else 9.0) for n in range(10)]
    assert level_of(result_of(rows), slo, concurrency=1).kept is True
    rows[1] = row_of(ttft_s=0.1, failure=Failure.TIMEOUT)
    found = level_of(result_of(rows), slo, concurrency=1)
    assert (found.kept, found.good, found.requests) == (False, 8, 10)
    assert found.told == "2 late by TTFT, 1 by TPOT, of 10; 1 may be"


def test_limits_are_kept_each_by_itself(row_of: Rows, result_of: Result) -> None:
    slo = Slo(ttft_s=0.5, tpot_s=0.02, percent=90)
    rows = [row_of(ttft_s=0.1, tpot_s=0.01) for _ in range(8)]
    rows += [row_of(ttft_s=9.0, tpot_s=0.01), row_of(ttft_s=0.1, tpot_s=9.0)]
    found = level_of(result_of(rows), slo, concurrency=1)
    assert (found.kept, found.good) == (True, 8)


def test_too_few_or_a_client_that_lies_tell_nothing(row_of: Rows, result_of: Result) -> None:
    slo = Slo(ttft_s=0.5, percent=99)
    few = level_of(result_of([row_of(ttft_s=0.1)] * 99), slo, concurrency=1)
    assert (few.kept, few.told) == (None, "99 requests are too few for p99")
    many = result_of([row_of(ttft_s=0.1)] * 100)
    untold = level_of(many, slo, concurrency=1, untold="the client was the bottleneck")
    assert (untold.kept, untold.told) == (None, "the client was the bottleneck")
    assert level_of(many, slo, concurrency=1).kept is True


def test_hopeless_is_said_as_soon_as_it_is(row_of: Rows) -> None:
    slo = Slo(ttft_s=0.5)
    assert slo.requests_at(64) == 192
    assert slo.requests_at(1) == 10
    seen = slo.hopeless(20)
    told = [seen(row_of(ttft_s=each)) for each in (9.0, 0.1, 9.0, 0.1, 9.0)]
    assert told == [False, False, False, False, True]


@pytest.mark.parametrize(
    "limits",
    [{}, {"ttft_s": 0.0}, {"tpot_s": float("inf")}, {"ttft_s": 1.0, "percent": 10}],
)
def test_a_level_that_everything_keeps_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="service level"):
        Slo(**limits)


def test_a_level_says_itself() -> None:
    assert str(Slo(ttft_s=2, tpot_s=0.05)) == "p90 of TTFT at most 2 s and TPOT at most 0.05 s"
