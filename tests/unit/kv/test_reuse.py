"""Reuse distances against a cache written out in plain Python, for every capacity."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.kv.reuse import Tracker, keys_of
from kvgate.kv.reuse_sampled import PARTS, Sampler, corrected, middle, sliced
from kvgate.kv.trace import Batch, Ints, batches

Requests = list[tuple[list[int], int]]
BLOCK = 4


def batch_of(requests: Requests, start_s: float = 0.0) -> Batch:
    """Return requests (ids, tokens short of whole blocks), a second apart, as a batch."""
    lengths = [len(ids) for ids, _ in requests]
    tokens = [BLOCK * len(ids) - short for ids, short in requests]
    many = len(requests)
    return Batch(
        file="made",
        block_tokens=BLOCK,
        lines=np.arange(1, many + 1),
        times_s=start_s + np.arange(many, dtype=np.float64),
        input_tokens=np.array(tokens, np.int64),
        output_tokens=np.ones(many, np.int64),
        starts=np.cumsum([0, *lengths], dtype=np.int64),
        ids=np.array([each for ids, _ in requests for each in ids], np.int64),
        sessions=np.full(many, -1),
    )


def simulated(requests: Requests, capacity: int) -> tuple[int, int]:
    """Return the blocks and tokens that one LRU of `capacity` blocks hits: the rule, written out.

    All blocks are looked up first; then the request's blocks are used, the last one first.
    """
    cache: OrderedDict[int, None] = OrderedDict()
    blocks = tokens = 0
    for ids, short in requests:
        hits = 0
        while hits < len(ids) and ids[hits] in cache:
            hits += 1
        blocks += hits
        tokens += min(hits * BLOCK, BLOCK * len(ids) - short)
        for each in reversed(ids):
            cache.pop(each, None)
            cache[each] = None
        while len(cache) > capacity:
            cache.popitem(last=False)
    return blocks, tokens


REQUESTS = st.lists(
    st.tuples(st.lists(st.integers(0, 25), min_size=1, max_size=9), st.integers(0, BLOCK - 1)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(
    requests=REQUESTS,
    cut=st.integers(0, 40),
    levels=st.lists(st.integers(0, 30), max_size=3).map(sorted),
)
def test_every_capacity_hits_what_a_cache_of_that_size_hits(
    requests: Requests, cut: int, levels: list[int]
) -> None:
    tracker = Tracker(BLOCK, levels)
    served = np.zeros(len(levels) + 1)
    for piece in (requests[:cut], requests[cut:]):
        if piece:
            batch = batch_of(piece)
            served += tracker.feed(batch, batch.ids).sum(axis=0)
    curve = tracker.curve()
    for capacity in range(28):
        assert curve.hits(capacity) == simulated(requests, capacity)
    distinct = {each for ids, _ in requests for each in ids}
    assert tracker.distinct == len(distinct)
    flat = [each for ids, _ in requests for each in ids]
    assert tracker.used_again == sum(flat.count(each) > 1 for each in distinct)
    assert served.sum() == simulated(requests, 10**6)[1]
    for at, level in enumerate(levels):
        assert served[: at + 1].sum() == simulated(requests, level)[1]


def classic(references: Sequence[int], capacity: int) -> int:
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for each in references:
        hits += each in cache
        cache[each] = None
        cache.move_to_end(each)
        if len(cache) > capacity:
            cache.popitem(last=False)
    return hits


@settings(max_examples=30, deadline=None)
@given(references=st.lists(st.integers(0, 30), min_size=1, max_size=200))
def test_requests_of_one_block_are_the_classic_lru(references: list[int]) -> None:
    batch = batch_of([([each], 0) for each in references])
    tracker = Tracker(BLOCK)
    tracker.feed(batch, batch.ids)
    for capacity in (1, 2, 5, 17, 40):
        assert tracker.curve().hits(capacity)[0] == classic(references, capacity)


def test_the_table_grows_and_places_close_up_without_a_difference() -> None:
    chosen = np.random.default_rng(1).zipf(1.2, 30_000) % 9_000
    requests = [(list(map(int, piece)), 1) for piece in np.split(chosen, 3_000)]
    tracker = Tracker(BLOCK)
    for start in range(0, len(requests), 500):
        batch = batch_of(requests[start : start + 500])
        tracker.feed(batch, batch.ids)
    assert len(tracker.rows) > 2**12
    for capacity in (10, 300, 2_500, 10**6):
        assert tracker.curve().hits(capacity) == simulated(requests, capacity)
    assert len(tracker.rows) < 4 * tracker.distinct
    assert 32 * len(tracker.words) < 20 * tracker.distinct


SCATTERINGS: dict[str, Callable[[Ints], Ints]] = {
    "as they are": lambda ids: ids,
    "far apart": lambda ids: ids * 1_000_003,
    "a session in the upper half": lambda ids: (ids % 97) << 32 | ids,
    "hashes": keys_of,
    "below zero": lambda ids: -ids - 2**40,
}


@pytest.mark.parametrize("how", SCATTERINGS)
def test_however_ids_are_spread_the_hits_are_the_same(how: str) -> None:
    chosen = np.random.default_rng(3).zipf(1.3, 12_000) % 5_000
    told = SCATTERINGS[how](chosen)
    found = []
    for ids in (chosen, told):
        tracker = Tracker(BLOCK)
        requests = [(list(map(int, piece)), 1) for piece in np.split(ids, 1_200)]
        for start in (0, 400, 800):
            batch = batch_of(requests[start : start + 400])
            tracker.feed(batch, batch.ids)
        found.append(tracker.curve())
        assert len(tracker.rows) < 8 * tracker.distinct + 2**12
        assert len(tracker.pages) < 8 * tracker.distinct
    for column in ("distances", "blocks", "tokens"):
        assert getattr(found[0], column).tolist() == getattr(found[1], column).tolist()


EDGES = (0, 1, 62, 63, 64, 65, 2**32 - 1, 2**32, 2**62, 2**63 - 1, -1, -63, -64, -65, -(2**63))
IDS = st.one_of(
    st.sampled_from(EDGES),
    st.integers(0, 200),
    st.integers(-(2**63), 2**63 - 1),
    st.builds(lambda session, at: session << 32 | at, st.integers(0, 9), st.integers(0, 70)),
    st.builds(lambda page, at: page * 64 + at, st.integers(-3, 3), st.integers(0, 63)),
)


@settings(max_examples=120, deadline=None)
@given(
    known=st.lists(IDS, min_size=1, max_size=30, unique=True),
    requests=REQUESTS,
    crowd=st.sampled_from([0, 0, 500]),
    cut=st.integers(0, 40),
)
def test_whatever_numbers_ids_are_the_hits_are_those_of_the_cache(
    known: list[int], requests: Requests, crowd: int, cut: int
) -> None:
    """A crowd of ids far apart makes the directory grow, and pages of one id each."""
    named = [([known[each % len(known)] for each in ids], short) for ids, short in requests]
    far = [([(at + 1) * 7_919_000_003], 0) for at in range(crowd)]
    told = [*named[:cut], *far, *named[cut:], *far[::7], *named]
    tracker = Tracker(BLOCK)
    for piece in (told[:cut], told[cut:]):
        if piece:
            batch = batch_of(piece)
            tracker.feed(batch, batch.ids)
    assert tracker.distinct == len({each for ids, _ in told for each in ids})
    for capacity in (1, 3, 20, 300, 10**6):
        assert tracker.curve().hits(capacity) == simulated(told, capacity)


@pytest.mark.parametrize("ids", [[0, -1], [0, 5, -64], [-1, 0], [2**40, ~(2**40)]])
def test_a_page_whose_number_is_the_inverse_of_the_first_ones_is_a_page(ids: list[int]) -> None:
    told = [(ids, 0)] * 3
    tracker = Tracker(BLOCK)
    batch = batch_of(told)
    tracker.feed(batch, batch.ids)
    assert tracker.distinct == len(ids)
    assert tracker.curve().hits(10) == simulated(told, 10)


def test_keys_are_one_to_one() -> None:
    ids = np.concatenate([np.arange(10_000), 2**62 + np.arange(10_000), (1 << np.arange(62))])
    assert len(np.unique(keys_of(ids))) == len(np.unique(ids))


def test_what_compiles_is_imported_only_to_compute() -> None:
    check = "import sys, kvgate.kv.assess, kvgate.report.assessed; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def prefix_requests() -> Requests:
    """Return requests whose ids stand for all before them, of conversations that go on."""
    random = np.random.default_rng(7)
    turns: dict[int, list[int]] = {}
    made, count = [], 1
    for _ in range(1_500):
        chat = int(random.zipf(1.3)) % 300
        ids = turns.setdefault(chat, [0])
        more = int(random.integers(1, 6))
        ids = [*ids, *range(count, count + more)]
        count += more
        turns[chat] = ids if len(ids) < 60 else [0]
        made.append((ids, 2))
    return made


@pytest.mark.parametrize("how", [{"rate": 0.25}, {"size": 2_048}])
def test_a_sample_states_an_error_that_holds(how: dict[str, float]) -> None:
    batch = batch_of(prefix_requests())
    exact = Tracker(BLOCK)
    exact.feed(batch, batch.ids)
    sampler = Sampler(BLOCK, np.array([10, 100, 10**9]), **how)  # type: ignore[arg-type]
    sampler.feed(batch)
    found = sampler.estimates()
    assert found.rate < 0.5
    for capacity in (200, 1_000, 4_000, 10**9):
        share, error = middle(found.curves, capacity)
        true = exact.curve().hits(capacity)[1] / exact.curve().input_tokens
        assert 0 < error < 0.1
        assert abs(share - true) < 2 * error + 0.01
    assert found.distinct == pytest.approx(exact.distinct, rel=0.15)
    raw = exact.intervals.cumsum() / exact.intervals.sum()
    told = found.intervals.cumsum() / found.intervals.sum()
    assert abs(raw - told).max() < 0.1
    assert len(found.intervals_of_parts) == PARTS
    if "size" in how:
        held = sum(part.tracker.distinct for part in sampler.parts)
        assert held <= 2_048


@pytest.mark.parametrize(
    ("expected", "told"),
    [(20, [15, 0, 5]), (10, [5, 0, 5]), (4, [0, 0, 4]), (0, [0, 0, 0]), (-1, [0, 0, 0])],
)
def test_intervals_are_as_many_as_expected(expected: float, told: list[float]) -> None:
    assert corrected(np.array([5.0, 0.0, 5.0]), expected).tolist() == told


def test_a_sample_of_everything_is_exact() -> None:
    batch = batch_of(prefix_requests()[:400])
    exact = Tracker(BLOCK)
    exact.feed(batch, batch.ids)
    sampler = Sampler(BLOCK, np.array([10, 100, 10**9]), rate=1.0)
    sampler.feed(batch)
    found = sampler.estimates()
    assert found.distinct == exact.distinct
    assert found.used_again == exact.used_again / exact.distinct
    assert found.intervals.tolist() == exact.intervals.tolist()
    assert middle(found.curves, 10**9)[0] == pytest.approx(
        exact.curve().most[1] / exact.curve().input_tokens
    )


def test_pieces_of_a_batch_are_the_batch() -> None:
    batch = batch_of([(list(range(40_000)), 0), ([1], 0), (list(range(30_000)), 1), ([2, 3], 3)])
    pieces = list(sliced(batch))
    assert len(pieces) > 1
    assert np.concatenate([piece.ids for piece in pieces]).tolist() == batch.ids.tolist()
    rows = [row.ids.tolist() for piece in pieces for row in piece.requests()]
    assert rows == [row.ids.tolist() for row in batch.requests()]


@pytest.mark.skipif("KVGATE_TRACES" not in os.environ, reason="KVGATE_TRACES: the public traces")
def test_the_known_figures_of_mooncakes_conversations() -> None:
    path = Path(os.environ["KVGATE_TRACES"]) / "mooncake/conversation_trace.jsonl"
    tracker, requests, tokens, with_first = Tracker(512), 0, 0, 0
    for batch in batches([path]):
        tracker.feed(batch, batch.ids)
        requests += len(batch)
        tokens += int(batch.input_tokens.sum())
        with_first += int((batch.ids[batch.starts[:-1]] == 0).sum())
    curve = tracker.curve()
    assert (requests, with_first, curve.references) == (12_031, 12_031, 288_500)
    assert tracker.distinct == 182_790
    assert f"{tracker.distinct / curve.references:.3f}" == "0.634"
    assert f"{tracker.used_again / tracker.distinct:.3f}" == "0.242"
    assert f"{tokens / 1e6:.1f} {curve.most[1] / tokens:.3f}" == "144.8 0.374"
    assert f"{tracker.distinct * 512 * 253_952 / 1e12:.1f}" == "23.8"
