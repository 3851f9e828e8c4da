from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.telemetry.counters import MOST, Counters
from kvgate.telemetry.wire import MISSING

NAMES = ("disk.a.reads", "disk.a.writes", "net.b.bytes")


def rows(*values: tuple[int, int, int]) -> np.ndarray:
    return np.array(values, np.int64)


def test_the_first_sample_has_nothing_to_be_compared_with() -> None:
    steps, fell, _ = Counters(NAMES).moved(rows((1, 2, 3), (5, 2, 4)))
    assert steps.tolist() == [[MISSING] * 3, [4, 0, 1]]
    assert fell == []


def test_steps_go_on_from_block_to_block() -> None:
    counters = Counters(NAMES)
    counters.moved(rows((1, 2, 3)))
    steps, _, _ = counters.moved(rows((2, 4, 6)))
    assert steps.tolist() == [[1, 2, 3]]


def test_a_wrap_at_32_bits_that_fits_what_it_did_before_is_told_and_counted() -> None:
    top = 2**32
    steps, fell, _ = Counters(NAMES).moved(
        rows((0, 0, top - 3000), (0, 0, top - 2000), (0, 0, top - 1000), (0, 0, 500))
    )
    assert steps[:, 2].tolist() == [MISSING, 1000, 1000, 1500]
    assert "wrapped at 32 bits, by 1500" in fell[0].text


def test_what_began_again_has_no_rate_not_even_once() -> None:
    steps, fell, _ = Counters(NAMES).moved(rows((50, 0, 10**6), (60, 0, 10**6 + 5), (5, 0, 10)))
    assert steps[2].tolist() == [MISSING, 0, MISSING]
    assert [each.step for each in fell] == [None, None]
    assert "began again, no rate" in fell[0].text


def test_a_near_full_32_bit_counter_that_a_reload_set_to_nought_did_not_wrap() -> None:
    top = 2**32
    steps, fell, _ = Counters(NAMES).moved(
        rows((9, 0, top - 9**8), (12, 0, top - 9**8), (13, 0, 4))
    )
    assert steps[2, 2] == MISSING  # it would have made a step of 43 million, after none
    both = Counters(NAMES)
    steps, fell, _ = both.moved(rows((top - 9, top - 9, 0), (top - 5, top - 5, 0), (3, 3, 0)))
    assert steps[2].tolist() == [MISSING, MISSING, 0]  # two of one device at once
    assert len(fell) == 2


def test_after_a_value_that_was_missing_there_is_no_rate_for_one_sample() -> None:
    counters = Counters(NAMES)
    steps, _, _ = counters.moved(rows((10, 1, 1), (MISSING, 1, 1), (14, 1, 1), (15, 1, 1)))
    assert steps[:, 0].tolist() == [MISSING, MISSING, MISSING, 1]


def test_names_that_stay_go_on_when_others_come_and_go() -> None:
    before, after = Counters(NAMES), Counters(("net.b.bytes", "disk.new.reads"))
    before.moved(rows((10, 20, 30)))
    after.follow(before)
    steps, _, _ = after.moved(np.array([[34, 7]], np.int64))
    assert steps.tolist() == [[4, MISSING]]


def test_a_restart_of_the_host_forgets() -> None:
    counters = Counters(NAMES)
    counters.moved(rows((10, 10, 10)))
    counters.restart()
    steps, fell, _ = counters.moved(rows((3, 3, 3)))
    assert (steps.tolist(), fell) == ([[MISSING] * 3], [])


def test_of_very_many_that_fall_all_are_counted_and_some_told() -> None:
    values = [(10 - n, 10, 10) for n in range(2)] * 200
    steps, fell, more = Counters(NAMES).moved(rows(*values))
    assert (len(fell), more) == (MOST, 200 - MOST)
    assert set(steps[:, 0].tolist()) == {MISSING, 1}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(*[st.integers(0, 2**33) | st.integers(2**32 - 50, 2**32 + 50)] * 3),
        min_size=2,
        max_size=12,
    )
)
def test_no_step_is_ever_negative_or_more_than_a_wrap_explains(
    values: list[tuple[int, int, int]],
) -> None:
    steps, fell, _ = Counters(NAMES).moved(rows(*values))
    known = steps[steps != MISSING]
    assert (known >= 0).all()
    pairs = [(a, b) for x, y in itertools.pairwise(values) for a, b in zip(x, y, strict=True)]
    assert known.max(initial=0) <= 8 * max(0, *(b - a for a, b in pairs))
    assert len(fell) == sum(b < a for a, b in pairs)
