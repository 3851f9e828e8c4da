"""The model: bounds that no restore beats, what more of anything may not do, that bench's rules."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.kv import predict_sim
from kvgate.kv.geometry import Geometry
from kvgate.kv.predict import (
    MOST_CONCURRENCY,
    SATURATED,
    Parameters,
    Work,
    most_within,
    percentile,
    predict,
    saturation,
)
from kvgate.kv.predict_sim import Job, Server

GEOMETRY = Geometry(name="m", layers=62, source="test", kv_heads=8, head_dim=128)
WORK = Work(geometry=GEOMETRY, dtype="bf16", tokens=30208, output_tokens=64)
PARAMETERS = Parameters(
    prefill=1890.0, overhead_s=1.4, decode_base_s=0.02, decode_each_s=0.0005, interference=0.0
)

concurrencies = st.integers(1, 24)
rates = st.floats(1e8, 1e12)
figures = st.sampled_from(["ttft_p50", "ttft_p90", "ttft_p99"])
parameters = st.builds(
    Parameters,
    prefill=st.floats(10, 1e5),
    overhead_s=st.floats(0, 5),
    decode_base_s=st.floats(0.001, 0.1),
    decode_each_s=st.floats(0, 0.01),
    interference=st.floats(0, 0.2),
)
works = st.builds(
    Work,
    geometry=st.just(GEOMETRY),
    dtype=st.sampled_from(["bf16", "fp8"]),
    tokens=st.integers(256, 60_000),
    output_tokens=st.integers(1, 80),
    instances=st.integers(1, 3),
)


def test_session_bytes_are_the_published_ones() -> None:
    assert WORK.session_bytes == 30_208 * 253_952 == 7_671_382_016


def test_restore_alone_is_bytes_over_bandwidth_and_the_constant() -> None:
    outcome = predict(WORK, PARAMETERS, 16, 10.65e9)
    expected = 16 * 7_671_382_016 / 10.65e9 + 1.4
    assert outcome.ttft_s == pytest.approx([expected] * 16)
    assert outcome.batch_s == pytest.approx(expected + 63 * (0.02 + 16 * 0.0005))
    assert outcome.tokens_per_s == pytest.approx(16 * 64 / outcome.batch_s)


def test_recompute_is_first_come_first_served() -> None:
    outcome = predict(WORK, PARAMETERS, 16, None)
    each_s = 30208 / 1890
    assert outcome.ttft_s == pytest.approx([k * each_s for k in range(1, 17)])
    assert outcome.value("ttft_p50") == pytest.approx(9 * each_s)
    assert outcome.value("ttft_p90") == pytest.approx(15 * each_s)


def test_requests_on_two_instances_are_computed_side_by_side() -> None:
    two = predict(dataclasses.replace(WORK, instances=2), PARAMETERS, 16, None)
    assert max(two.ttft_s) == pytest.approx(8 * 30208 / 1890)


def test_interference_lets_decodes_in_and_delays_prefills() -> None:
    some = dataclasses.replace(PARAMETERS, interference=0.05)
    alone, beside = (predict(WORK, each, 8, None) for each in (PARAMETERS, some))
    assert max(beside.ttft_s) > max(alone.ttft_s)
    assert beside.value("tpot_p50") < alone.value("tpot_p50")
    # work is conserved: what decodes get beside a prefill is what it gets later
    delay_s = max(beside.ttft_s) - max(alone.ttft_s)
    assert 0 < delay_s <= 8 * 63 * (0.02 + 8 * 0.0005)


@pytest.mark.parametrize(("percent", "expected"), [(50, 9), (90, 15), (99, 16), (0, 1), (100, 16)])
def test_percentile_is_the_sorted_value_at_int_n_q(percent: int, expected: int) -> None:
    assert percentile(range(1, 17), percent) == expected


@given(works, parameters, concurrencies, rates, st.floats(1, 100), figures)
@settings(max_examples=60, deadline=None)
def test_more_bandwidth_never_raises_ttft(
    work: Work, given: Parameters, concurrency: int, rate: float, times: float, figure: str
) -> None:
    slow, fast = (predict(work, given, concurrency, each) for each in (rate, rate * times))
    assert fast.value(figure) <= slow.value(figure) * (1 + 1e-9)
    assert fast.tokens_per_s >= slow.tokens_per_s * (1 - 1e-9)


@given(works, parameters, concurrencies, rates)
@settings(max_examples=60, deadline=None)
def test_no_restore_beats_bytes_over_bandwidth(
    work: Work, given: Parameters, concurrency: int, rate: float
) -> None:
    outcome = predict(work, given, concurrency, rate)
    assert max(outcome.ttft_s) >= concurrency * work.session_bytes / rate * (1 - 1e-9)
    assert min(outcome.ttft_s) >= work.session_bytes / rate * (1 - 1e-9)
    assert outcome.batch_s >= max(outcome.ttft_s)


@given(works, parameters, concurrencies, st.one_of(st.none(), rates))
@settings(max_examples=60, deadline=None)
def test_percentiles_rise_and_every_request_is_answered(
    work: Work, given: Parameters, concurrency: int, rate: float | None
) -> None:
    outcome = predict(work, given, concurrency, rate)
    p50, p90, p99 = (outcome.value(f"ttft_p{percent}") for percent in (50, 90, 99))
    assert 0 < p50 <= p90 <= p99 <= outcome.batch_s
    assert len(outcome.ttft_s) == len(outcome.tpot_s) == concurrency
    assert all(value < float("inf") for value in (*outcome.ttft_s, *outcome.tpot_s))


@given(works, parameters, concurrencies)
@settings(max_examples=40, deadline=None)
def test_recompute_takes_the_prefills_of_the_fullest_instance(
    work: Work, given: Parameters, concurrency: int
) -> None:
    outcome = predict(work, given, concurrency, None)
    queue = -(-concurrency // work.instances)
    assert max(outcome.ttft_s) >= queue * work.tokens / given.prefill * (1 - 1e-9)


@given(st.permutations(list(range(8))), st.lists(st.floats(1e6, 1e9), min_size=8, max_size=8))
def test_the_order_of_sessions_changes_nothing_of_a_restore(
    order: list[int], sizes: list[float]
) -> None:
    server = Server(bandwidth=1e9, decode_base_s=0.02, decode_each_s=0.001, interference=0.0)
    jobs = [
        Job(instance=0, restore_bytes=size, prefill_s=0.0, overhead_s=0.5, output_tokens=4)
        for size in sizes
    ]
    straight = predict_sim.run(jobs, server)
    mixed = predict_sim.run([jobs[at] for at in order], server)
    for place, at in enumerate(order):
        assert mixed[place].first_s == pytest.approx(straight[at].first_s)
        assert mixed[place].last_s == pytest.approx(straight[at].last_s)


def test_restores_of_unequal_sizes_share_the_bandwidth() -> None:
    server = Server(bandwidth=100.0, decode_base_s=1.0, decode_each_s=0.0, interference=0.0)
    jobs = [
        Job(instance=0, restore_bytes=size, prefill_s=0.0, overhead_s=0.0, output_tokens=1)
        for size in (100.0, 300.0)
    ]
    assert [each.first_s for each in predict_sim.run(jobs, server)] == pytest.approx([2.0, 4.0])


@pytest.mark.parametrize(("concurrency", "rate"), [(0, 1e9), (1, 0.0), (1, -1.0)])
def test_nothing_to_reckon_with_is_refused(concurrency: int, rate: float) -> None:
    with pytest.raises(ValueError, match="can't be reckoned"):
        predict(WORK, PARAMETERS, concurrency, rate)


def test_the_limit_is_kept_up_to_the_concurrency_told_and_no_further() -> None:
    found = most_within(WORK, PARAMETERS, 10e9, limit_s=15.0, figure="ttft_p90")
    assert found == 17
    assert predict(WORK, PARAMETERS, found, 10e9).value("ttft_p90") <= 15.0
    assert predict(WORK, PARAMETERS, found + 1, 10e9).value("ttft_p90") > 15.0
    assert most_within(WORK, PARAMETERS, 1e9, limit_s=5.0, figure="ttft_p90") == 0
    assert most_within(WORK, PARAMETERS, 1e15, limit_s=5.0, figure="ttft_p90") == MOST_CONCURRENCY


@pytest.mark.parametrize("rate", [5e9, 20e9, None])
def test_saturation_is_the_least_concurrency_that_brings_the_share(rate: float | None) -> None:
    found = saturation(WORK, PARAMETERS, rate)
    target = SATURATED * predict(WORK, PARAMETERS, MOST_CONCURRENCY, rate).tokens_per_s
    assert predict(WORK, PARAMETERS, found, rate).tokens_per_s >= target
    assert found == 1 or predict(WORK, PARAMETERS, found - 1, rate).tokens_per_s < target
