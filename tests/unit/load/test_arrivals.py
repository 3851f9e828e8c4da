import itertools
import statistics

import pytest

from kvgate.load.arrivals import arrivals


def test_random_arrivals_have_the_rate_and_the_scatter_of_independent_users() -> None:
    due = list(itertools.islice(arrivals(5, 200.0), 20_000))
    gaps = [b - a for a, b in itertools.pairwise(due)]
    assert due == sorted(due)
    assert statistics.fmean(gaps) == pytest.approx(1 / 200, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(1 / 200, rel=0.05)


def test_the_same_seed_brings_the_same_users() -> None:
    first, again, other = (list(itertools.islice(arrivals(s, 3.0), 50)) for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_steady_arrivals_are_steady() -> None:
    assert list(itertools.islice(arrivals(1, 4.0, "constant"), 4)) == [0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="requests a second"):
        next(arrivals(1, rate))
