import math
import random
from collections.abc import Callable

import pytest

from kvgate.load.rows import Failure, LoadResult, Row
from kvgate.load.slo import Slo
from kvgate.load.summary import figures, ranks_around

Rows = Callable[..., Row]
Result = Callable[..., LoadResult]


def test_times_of_whole_answers_with_their_intervals(row_of: Rows, result_of: Result) -> None:
    rows = [row_of(ttft_s=n / 100, sent_s=n / 50) for n in range(1, 101)]
    found = figures(result_of(rows))
    ttft = found.find("TTFT p50")
    assert ttft is not None
    assert ttft.value == pytest.approx(0.5)
    assert ttft.low == pytest.approx(0.40)
    assert ttft.high == pytest.approx(0.61)
    p99 = found.find("TTFT p99")
    assert p99 is not None
    assert (p99.value, p99.low, p99.high) == (pytest.approx(0.99), None, None)
    tpot = found.find("TPOT p50")
    assert tpot is not None
    assert tpot.value == pytest.approx(0.01)
    itl = found.find("ITL p99")
    assert itl is not None
    assert itl.value == pytest.approx(0.01)


def test_failed_requests_are_later_than_any(row_of: Rows, result_of: Result) -> None:
    rows = [row_of(ttft_s=0.2) for _ in range(9)]
    rows += [row_of(failure=Failure.HTTP, error="503 text/plain: full", token_times_s=())]
    rows += [row_of(failure=Failure.HTTP, error="503 again", token_times_s=())]
    found = figures(result_of(rows))
    p50, p90 = found.find("TTFT p50"), found.find("TTFT p90")
    assert p50 is not None
    assert p50.value == pytest.approx(0.2)
    assert p90 is not None
    assert p90.value == math.inf
    assert found.failures == ((Failure.HTTP, 2, "503 text/plain: full"),)
    assert (found.requests, found.good) == (11, 9)


def test_rates_and_goodput_count_within_the_whole_time(row_of: Rows, result_of: Result) -> None:
    rows = [row_of(ttft_s=0.1 if n % 4 else 5.0, sent_s=n / 50) for n in range(100)]
    found = figures(result_of(rows), Slo(ttft_s=1.0))
    requests, tokens = found.find("requests"), found.find("output tokens")
    assert requests is not None
    assert requests.value == 50.0
    assert tokens is not None
    assert tokens.value == 400.0
    assert tokens.low is not None
    assert tokens.low < 400 < (tokens.high or 0)
    assert found.goodput is not None
    assert (found.goodput.value, found.within_slo) == (37.5, 75)


def test_what_was_not_told_is_not_nought(row_of: Rows, result_of: Result) -> None:
    assert figures(result_of([row_of()])).cached_tokens is None
    told = [row_of(cached_tokens=0), row_of(cached_tokens=32)]
    assert figures(result_of(told)).cached_tokens == 32
    nothing = figures(result_of([]))
    assert (nothing.times, nothing.requests) == ((), 0)


def test_intervals_hold_what_they_say() -> None:
    draw = random.Random(7)  # noqa: S311  values, not secrets
    held = 0
    for _ in range(600):
        values = sorted(draw.expovariate(1.0) for _ in range(60))
        ends = ranks_around(60, 90)
        assert ends is not None
        held += values[ends[0] - 1] <= -math.log(0.1) <= values[ends[1] - 1]
    assert held >= 0.93 * 600


@pytest.mark.parametrize(("count", "percent"), [(5, 50), (28, 90), (298, 99)])
def test_a_sample_that_carries_no_interval_has_none(count: int, percent: float) -> None:
    assert ranks_around(count, percent) is None
