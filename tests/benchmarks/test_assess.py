"""Assessing beside peers: the exact curve beside libCacheSim, reading beside the json module.

On Mooncake's conversations where KVGATE_TRACES says where they lie, else on generated ones; ids
are shifted from repetition to repetition, so that none is shared. In turns, as timings drift.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
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
    repeated: list[Batch], tmp_path: Path, held: Callable[..., None]
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
    seconds = f"by the clock {wall:.2f} s, theirs {peers:.2f} s"
    held("exact curve of all capacities, M references a CPU second", rate / 1e6, 5, seconds)
    held("exact curve, x libCacheSim at five sizes by CPU seconds", ratio, 8, seconds)


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


def test_reading_beside_the_json_module(
    path: Path, tmp_path: Path, held: Callable[..., None]
) -> None:
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
    rates = [size / min(wall for wall, _ in each) for each in (times, theirs)]
    told = f"{rates[0]:.0f} against {rates[1]:.0f} MB/s; by CPU seconds {by_cpu:.1f} x"
    held("reading a trace, x the json module", ratio, 8, told)


ASSESS = """
import sys
from pathlib import Path
from kvgate.kv.assess import Question, assess
from kvgate.kv.trace import batches
found = assess(batches([Path(sys.argv[1])]), Question())
told = Path("/proc/self/status").read_text()  # ru_maxrss would begin at that of our parent
print(1024 * int(told.split("VmHWM:")[1].split()[0]), found.totals.distinct)
"""


def repeat(path: Path, file: Path, size: int, shift: int) -> None:
    """Write the trace again and again up to `size` bytes, ids shifted by `shift` each time.

    With at least 3.4 requests a second, as Mooncake's have: seconds cost memory, too.
    """
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    span = lines[-1]["timestamp"] - lines[0]["timestamp"] + 3_000
    faster = min(1.0, 1e3 * len(lines) / span / 3.4)
    with file.open("w") as out:
        at = 0
        while out.tell() < size:
            for line in lines:
                ids = [each + shift * at for each in line["hash_ids"]]
                later = int((line["timestamp"] + span * at) * faster)
                out.write(json.dumps(line | {"timestamp": later, "hash_ids": ids}) + "\n")
            at += 1


def peak_of(file: Path) -> tuple[int, int]:
    """Return the most memory of a process that assesses `file`, in bytes, and its blocks."""
    done = subprocess.run(
        [sys.executable, "-c", ASSESS, str(file)], capture_output=True, check=True, timeout=170
    )
    memory, distinct = done.stdout.split()
    return int(memory), int(distinct)


@pytest.mark.timeout(900)
def test_memory_of_a_trace_of_ten_gigabytes(
    path: Path, tmp_path: Path, held: Callable[..., None]
) -> None:
    """The slope from 0.1 to 0.5 GB of the same blocks, and from 0.05 to 0.15 GB of new ones."""
    file, sizes = tmp_path / "long.jsonl", {0: (10**8, 5 * 10**8), 10**6: (5 * 10**7, 15 * 10**7)}
    found = {}
    for shift, both in sizes.items():
        for size in both:
            repeat(path, file, size, shift)
            found[shift, size] = (*peak_of(file), file.stat().st_size)
            file.unlink()
    (small, _, one), (large, _, other) = (found[0, size] for size in sizes[0])
    whole = large + max(0.0, (large - small) / (other - one)) * (10**10 - other)
    told = f"{small / 1e6:.0f} MB for {one / 1e9:.2f} GB, {large / 1e6:.0f} for {other / 1e9:.2f}"
    held("memory of a 10 GB trace of the same blocks again, GB", whole / 1e9, 1, told, most=True)
    (small, few, _), (large, many, _) = (found[10**6, size] for size in sizes[10**6])
    each = (large - small) / (many - few)
    told = f"{small / 1e6:.0f} MB for {few:,} blocks, {large / 1e6:.0f} for {many:,}"
    held("memory a distinct block, B", each, 200, told, most=True)
