"""The embedded engine's bars: a restore beside its recompute, and its disk tier beside replay.

One line a bar. Replay and the engine take turns on the same folder (``ENGINE_BENCH_FOLDER``,
default: pytest's), with as many bytes in chunks of the same size, parallel:4, a session at a time.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kvgate.load.client import Endpoint
from kvgate.load.loop import closed_loop
from kvgate.load.rows import LoadResult, Request
from kvgate.load.workload import sessions
from kvgate.serving.arms import ArmSetup, RunningEngine, start_engine
from kvgate.serving.chunkfile import chunk_keys
from kvgate.serving.config import PAGE_BYTES, model_named
from kvgate.serving.pool import Pool, PoolOptions
from kvgate.serving.weights import fingerprint
from kvgate.spec.inventory import Host, Role
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness
from kvgate.workloads.replay import Reads, Spec, program
from kvgate.workloads.replay_result import parsed

ROUNDS = int(os.environ.get("ENGINE_BENCH_ROUNDS", "4"))
SEED, SESSIONS, TOKENS, READERS = 3, 4, 4096, 4
WIDE = model_named("wide")


@pytest.fixture
def witness() -> Iterator[Witness]:
    transport = LocalTransport("here")
    host = Host(
        roles=[Role.SERVING], transport="local", tools={"python": sys.executable}, name="here"
    )
    yield Witness(host, transport, lambda _: "0" * 64)
    transport.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir=os.environ.get("ENGINE_BENCH_FOLDER", tmp_path)))
    yield path
    shutil.rmtree(path)


def ask_all(engine: RunningEngine, requests: tuple[Request, ...]) -> LoadResult:
    endpoint = Endpoint(base_url=engine.base_url, model=engine.model, timeout_s=120)
    result = closed_loop(endpoint, requests, concurrency=1)
    assert not result.failed
    return result


def bar(told: list[str], what: str, value: float, least: float, detail: str) -> None:
    met = "met" if value >= least else "MISSED"
    told.append(f"{what}: {value:.2f} ({detail}), bar >= {least:g}: {met}")
    assert value >= least, told[-1]


def test_a_restore_beside_its_recompute(told: list[str], witness: Witness, folder: Path) -> None:
    """Median TTFT of 4,096 tokens at concurrency 1: computed and restored in turns, cold."""
    requests = sessions(SEED, 3, prompt_tokens=TOKENS, output_tokens=2)
    stored = ArmSetup(arm="local", seed=1, kv_path=str(folder))
    bare = ArmSetup(arm="recompute", seed=1)
    with start_engine(witness, stored) as engine:
        ask_all(engine, requests)
        engine.wait_stored(60)
    computed, restored = [], []
    with start_engine(witness, stored) as tiered, start_engine(witness, bare) as plain:
        for request in requests:
            one, two = ask_all(plain, (request,)), ask_all(tiered, (request,))
            assert one.rows[0].output_digest == two.rows[0].output_digest
            assert (one.rows[0].cached_tokens, two.rows[0].cached_tokens) == (0, TOKENS - 1)
            computed.append(one.rows[0].ttft_s)
            restored.append(two.rows[0].ttft_s)
    slow, quick = statistics.median(computed), statistics.median(restored)
    detail = f"{1e3 * slow:,.0f} ms recomputed, {1e3 * quick:.1f} ms restored"
    bar(told, f"restore of {TOKENS} tokens, times as fast", slow / quick, 20, detail)


def fill(folder: Path, requests: tuple[Request, ...]) -> None:
    """Store chunks of noise under the keys of all prompts: only reading them is measured."""
    model = fingerprint(WIDE, 1)
    pool = Pool(folder, model, WIDE.block_shape, PoolOptions())
    noise = np.random.default_rng(SEED)
    for request in requests:
        for key in chunk_keys(model, request.prompt, WIDE.block):
            pool.publish(key, memoryview(noise.bytes(WIDE.block_bytes)))


def by_engine(engine: RunningEngine, requests: tuple[Request, ...]) -> float:
    """Return the B/s of all restores, by the engine's own counters of bytes and of time."""
    before = engine.metrics()
    result = ask_all(engine, requests)
    after = engine.metrics()
    assert {row.cached_tokens for row in result.rows} == {TOKENS}

    def rose(name: str) -> float:
        return after[name] - before[name]

    size = PAGE_BYTES + WIDE.block_bytes
    assert rose("kvgate:tier_read_bytes_total") == len(requests) * TOKENS // WIDE.block * size
    assert rose("kvgate:device_read_bytes_total") >= rose("kvgate:tier_read_bytes_total")  # cold
    return rose("kvgate:tier_read_bytes_total") / rose("kvgate:tier_restore_seconds_sum")


def by_replay(folder: Path, seed: int) -> float:
    """Return the B/s at which replay restores as many bytes in chunks of the same size."""
    place = Path(tempfile.mkdtemp(prefix="kvgate-replay-", dir=folder))
    spec = Spec(
        seed=seed,
        sessions=SESSIONS,
        chunks=TOKENS // WIDE.block,
        chunk_bytes=PAGE_BYTES + WIDE.block_bytes,
        store_readers=READERS,
        levels=(Reads(concurrency=1, readers=READERS),),
    )
    sent = folder / "replay.pyz"
    sent.write_bytes(program())
    try:
        words = [sys.executable, str(sent), spec.job(str(place), barrier=False)]
        done = subprocess.run(words, capture_output=True, check=True, timeout=120)
        found = parsed("here", done.stdout)
    finally:
        shutil.rmtree(place)
    assert not found.problems
    assert not found.damaged
    rate = found.levels[-1].rate("read")
    assert rate is not None
    return rate


def test_the_disk_tier_beside_replay(told: list[str], witness: Witness, folder: Path) -> None:
    requests = sessions(SEED, SESSIONS, prompt_tokens=TOKENS + 1, output_tokens=1)
    fill(folder, requests)
    setup = ArmSetup(arm="local", seed=1, kv_path=str(folder), model="wide")
    rates: dict[str, list[float]] = {"engine": [], "replay": []}
    with start_engine(witness, setup) as engine:
        by_engine(engine, requests)  # its threads and buffers are there
        for number in range(ROUNDS):
            turns = list(rates)
            random.Random(number).shuffle(turns)  # noqa: S311  reproducible
            for which in turns:
                rate = (
                    by_engine(engine, requests) if which == "engine" else by_replay(folder, number)
                )
                rates[which].append(rate)
    ratio = statistics.geometric_mean(
        ours / other for ours, other in zip(rates["engine"], rates["replay"], strict=True)
    )
    ours, other = (statistics.median(each) / 1e9 for each in rates.values())
    detail = f"{ours:.2f} GB/s, replay {other:.2f} GB/s, {SESSIONS * TOKENS // 256} chunks of 8 MiB"
    bar(told, "restore from the disk tier / replay", ratio, 0.8, detail)
