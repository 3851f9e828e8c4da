"""Assessing beside peers: the exact curve beside libCacheSim, reading beside the json module.

On Mooncake's conversations where KVGATE_TRACES says where they lie, else on generated ones; ids
are shifted from repetition to repetition, so that none is shared. In turns, as timings drift.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kvgate.kv.agreed import generated
from kvgate.kv.reuse import Curve, Tracker
from kvgate.kv.trace import Batch, batches

REFERENCES = int(os.environ.get("KVGATE_ASSESS_REFERENCES", "10000000"))
SIZES = (1_000, 5_000, 20_000, 50_000, 150_000)
ROUNDS = 3
A_SECOND, CURVE_BAR, READ_BAR = 5e6, 8.0, 8.0


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "KVGATE_TRACES" in os.environ:
        return Path(os.environ["KVGATE_TRACES"]) / "mooncake/conversation_trace.jsonl"
    made = tmp_path_factory.mktemp("assess") / "trace.jsonl"
    made.write_bytes(generated(1, requests=12_000, conversations=2_000))
    return made


@pytest.fixture(scope="module")
def repeated(path: Path) -> list[Batch]:
    """The trace again and again, ids shifted, until there are enough references."""
    once = list(batches([path]))
    many = -(-REFERENCES // sum(len(batch.ids) for batch in once))
    return [
        dataclasses.replace(batch, ids=batch.ids + 10**7 * at, times_s=batch.times_s + 10_000 * at)
        for at in range(many)
        for batch in once
    ]


def curve_of(found: list[Batch]) -> Curve:
    """Return the exact curve of every capacity, from ids as they are."""
    tracker = Tracker(found[0].block_tokens)
    for batch in found:
        tracker.feed(batch, batch.ids)
    return tracker.curve()


def taken(act: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - wall, time.process_time() - cpu


def test_exact_curve_beside_libcachesim(
    repeated: list[Batch], tmp_path: Path, told: list[str]
) -> None:
    lcs = pytest.importorskip("libcachesim")
    ids = np.concatenate([batch.ids for batch in repeated])
    record = np.dtype("<u4, <u8, <u4, <i8")
    rows = np.zeros(len(ids), record)
    rows["f1"], rows["f2"], rows["f3"] = ids + 1, 1, -2
    file = tmp_path / "trace.oracleGeneral.bin"
    rows.tofile(file)

    def peer() -> None:
        for size in SIZES:
            reader = lcs.TraceReader(str(file), lcs.TraceType.ORACLE_GENERAL_TRACE)
            lcs.LRU(cache_size=size).process_trace(reader)

    curve_of(repeated[:2])  # compiled, or loaded
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(taken(lambda: curve_of(repeated)))
        theirs.append(taken(peer))
    rate = len(ids) / statistics.median(cpu for _, cpu in ours)
    ratio = statistics.median(t[1] / o[1] for o, t in zip(ours, theirs, strict=True))
    wall, peers = min(wall for wall, _ in ours), min(wall for wall, _ in theirs)
    told.append(
        f"exact curve of all capacities: {rate / 1e6:.1f} M references a CPU second (bar 5 M), "
        f"{ratio:.1f} × libCacheSim at five sizes (bar {CURVE_BAR:.0f} ×; wall {wall:.2f} s, "
        f"theirs {peers:.2f} s)"
    )
    assert rate > A_SECOND
    assert ratio > CURVE_BAR


def test_hits_are_libcachesims_where_the_rules_coincide(
    repeated: list[Batch], tmp_path: Path
) -> None:
    lcs = pytest.importorskip("libcachesim")
    ids = repeated[0].ids[:200_000]
    single = dataclasses.replace(
        repeated[0],
        ids=ids,
        starts=np.arange(len(ids) + 1),
        lines=np.arange(len(ids)),
        times_s=np.zeros(len(ids)),
        input_tokens=np.full(len(ids), repeated[0].block_tokens),
        output_tokens=np.zeros(len(ids), np.int64),
        sessions=np.full(len(ids), -1),
    )
    curve = curve_of([single])
    rows = np.zeros(len(ids), np.dtype("<u4, <u8, <u4, <i8"))
    rows["f1"], rows["f2"], rows["f3"] = ids + 1, 1, -2
    file = tmp_path / "trace.oracleGeneral.bin"
    rows.tofile(file)
    for size in SIZES:
        reader = lcs.TraceReader(str(file), lcs.TraceType.ORACLE_GENERAL_TRACE)
        missed, _ = lcs.LRU(cache_size=size).process_trace(reader)
        assert curve.hits(size)[0] == pytest.approx((1 - missed) * len(ids), abs=0.5)


def test_reading_beside_the_json_module(path: Path, tmp_path: Path, told: list[str]) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    file = tmp_path / "long.jsonl"
    with file.open("w") as out:
        for at in range(20):
            for line in lines:
                later = line["timestamp"] + 10_000_000 * at
                out.write(json.dumps(line | {"timestamp": later}) + "\n")
    size = file.stat().st_size / 1e6

    def ours() -> None:
        assert sum(len(batch) for batch in batches([file])) == 20 * len(lines)

    def peer() -> None:
        with file.open("rb") as opened:
            for line in opened:
                json.loads(line)

    ours()
    times, theirs = [], []
    for _ in range(ROUNDS):
        times.append(taken(ours))
        theirs.append(taken(peer))
    ratio = statistics.median(t[0] / o[0] for o, t in zip(times, theirs, strict=True))
    by_cpu = statistics.median(t[1] / o[1] for o, t in zip(times, theirs, strict=True))
    told.append(
        f"reading a trace: {size / min(wall for wall, _ in times):.0f} MB/s, {ratio:.1f} × json "
        f"({size / min(wall for wall, _ in theirs):.0f} MB/s; bar {READ_BAR:.0f} ×; by CPU time "
        f"{by_cpu:.1f} ×)"
    )
    assert ratio > READ_BAR
