import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.serving.hot import HotTier

BLOCK = np.zeros(256, np.float32)


def test_the_least_recently_used_goes_first() -> None:
    hot = HotTier(3 * BLOCK.nbytes)
    for name in "abc":
        hot.put(name, BLOCK)
    hot.get("a")
    hot.put("d", BLOCK)
    assert [name for name in "abcd" if hot.get(name) is not None] == ["a", "c", "d"]


def test_what_is_kept_is_a_copy() -> None:
    hot, block = HotTier(BLOCK.nbytes), BLOCK.copy()
    hot.put("a", block)
    block[:] = 1
    kept = hot.get("a")
    assert kept is not None
    assert not kept.any()


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5))), st.integers(0, 12))
def test_the_bound_always_holds(puts: list[tuple[int, int]], limit: int) -> None:
    hot = HotTier(limit * 4)
    for name, size in puts:
        hot.put(str(name), np.zeros(size, np.float32))
        assert 0 <= hot.used_bytes <= limit * 4
