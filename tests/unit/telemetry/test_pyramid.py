from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.telemetry.pyramid import Bins, joined, sized
from kvgate.telemetry.wire import MISSING

VALUES = st.integers(-(2**40), 2**40) | st.just(0) | st.just(MISSING)


def brute(width: int, t: list[int], values: list[int]) -> list[tuple[int, int, int, float, int]]:
    found: dict[int, list[int]] = {}
    for at, value in zip(t, values, strict=True):
        found.setdefault(at // width * width, [])
        if value != MISSING:
            found[at // width * width].append(value)
    return [
        (at, min(v, default=MISSING), max(v, default=MISSING), float(sum(v)), len(v))
        for at, v in sorted(found.items())
    ]


def told(bins: Bins) -> list[tuple[int, int, int, float, int]]:
    columns = (bins.t, bins.low[0], bins.high[0], bins.total[0], bins.count[0])
    return list(zip(*(each.tolist() for each in columns), strict=True))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40_000), VALUES), min_size=1, max_size=60), st.integers(1, 5)
)
def test_every_level_is_what_a_plain_loop_finds_however_blocks_were_cut(
    steps: list[tuple[int, int]], blocks: int
) -> None:
    t = np.cumsum([step for step, _ in steps]).astype(np.int64) + 1_796_083_200_000
    values = np.array([value for _, value in steps], np.int64)
    cuts = [part for part in np.array_split(np.arange(len(t)), blocks) if len(part)]
    base = joined([Bins.of(10_000, t[cut], values[None, cut]) for cut in cuts])
    whole = base
    for width in (10_000, 60_000, 600_000, 3_600_000):
        whole = whole.wider(width)
        assert told(whole) == brute(width, t.tolist(), values.tolist())


def test_steps_that_took_longer_count_as_much_as_they_were_a_second() -> None:
    values = np.array([[1000, 3000, MISSING], [5, 7, 9]], np.int64)
    span = np.array([1000, 1500, 1200], np.int64)
    seen = sized(values, span, 1000, np.array([True, False]))
    assert seen.tolist() == [[1000, 2000, MISSING], [5, 7, 9]]
    bins = Bins.of(10_000, np.array([0, 1500, 2700], np.int64), values, seen)
    assert (bins.low[0, 0], bins.high[0, 0], bins.total[0, 0]) == (1000, 2000, 4000.0)
