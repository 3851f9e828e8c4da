from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.telemetry.block import Block, Group, bins_of, encode, head_of, samples_of
from kvgate.telemetry.pyramid import Bins

GROUP = Group("ini1", "fast", 3, 1000, (("a", "c"), ("b", "l100"), ("c", "l")))


def block(values: list[list[int]]) -> Block:
    n = len(values[0])
    t = 1_796_083_200_000 + 1000 * np.arange(n, dtype=np.int64)
    return Block(t, np.full(n, 1000, np.int64), np.array(values, np.int64))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n),
            min_size=3,
            max_size=3,
        )
    )
)
def test_any_numbers_come_back_as_they_were(values: list[list[int]]) -> None:
    made = block(values)
    payload = encode(GROUP, made)
    read = samples_of(payload, GROUP)
    assert np.array_equal(read.values, made.values)
    assert np.array_equal(read.t, made.t)
    assert np.array_equal(read.span, made.span)
    bins, wanted = bins_of(payload), Bins.of(10_000, made.t, made.values)
    for name in ("t", "low", "high", "total", "count"):
        assert np.array_equal(getattr(bins, name), getattr(wanted, name)), name


def test_the_head_tells_what_is_in_it_and_the_names_come_back() -> None:
    head = head_of(encode(GROUP, block([[1, 2], [3, 4], [5, 6]])))
    assert (head.host, head.group, head.number, head.samples, head.series) == (
        "ini1",
        "fast",
        3,
        2,
        3,
    )
    assert Group.of(GROUP.payload()) == GROUP


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_bytes_of_a_stranger_are_an_error_of_ours(data: st.DataObject) -> None:
    payload = bytearray(encode(GROUP, block([[1, 2], [3, 4], [5, 6]])))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(payload[: data.draw(st.integers(0, len(payload)))])
    for read in (lambda: samples_of(cut, GROUP), lambda: bins_of(cut), lambda: Group.of(cut)):
        with contextlib.suppress(ParseError):  # no other error comes out, whatever went in
            read()


def test_a_block_of_other_series_is_refused() -> None:
    other = Group("ini1", "fast", 4, 1000, GROUP.series[:2])
    with pytest.raises(ParseError, match="3 series in a group of 2"):
        samples_of(encode(GROUP, block([[1], [2], [3]])), other)
