"""The embedded engine: restore against recompute. The load client: its error in TTFT."""

import contextlib
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from kvgate.load import client
from kvgate.load.client import Endpoint
from kvgate.load.loop import closed_loop
from kvgate.load.rows import LoadResult
from kvgate.load.stream import Answer
from kvgate.load.workload import sessions
from kvgate.serving.arms import ArmSetup, start_engine
from kvgate.spec.inventory import Host, Role
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness


@pytest.fixture
def witness() -> Iterator[Witness]:
    transport = LocalTransport("here")
    host = Host(
        roles=[Role.SERVING], transport="local", tools={"python": sys.executable}, name="here"
    )
    yield Witness(host, transport, lambda _: "0" * 64)
    transport.close()


def ask_all(engine, requests) -> LoadResult:
    endpoint = Endpoint(base_url=engine.base_url, model=engine.model, timeout_s=120)
    result = closed_loop(endpoint, requests, concurrency=1)
    assert not result.failed
    return result


@pytest.mark.parametrize("tokens", [1024, 4096])
def test_restore_against_recompute(benchmark, witness, tmp_path: pathlib.Path, tokens: int) -> None:
    """Median TTFT at concurrency 1, cold from disk, against that of computing it."""
    requests = sessions(3, 5, prompt_tokens=tokens, output_tokens=2)
    setup = ArmSetup(arm="local", seed=1, kv_path=str(tmp_path))
    with start_engine(witness, setup) as engine:
        computed = ask_all(engine, requests)
        engine.wait_stored(30)
    begun = time.monotonic()
    with start_engine(witness, setup) as engine:
        ready_s = time.monotonic() - begun
        before = engine.metrics()
        restored = benchmark.pedantic(ask_all, (engine, requests), rounds=1)
        after = engine.metrics()
    assert {row.cached_tokens for row in restored.rows} == {tokens - 1}
    one, other = (
        statistics.median(row.ttft_s for row in each.rows) for each in (computed, restored)
    )
    device = after["kvgate:device_read_bytes_total"] - before["kvgate:device_read_bytes_total"]
    delivered = after["kvgate:tier_read_bytes_total"] - before["kvgate:tier_read_bytes_total"]
    benchmark.extra_info |= {
        "recompute_ttft_s": round(one, 4),
        "restore_ttft_s": round(other, 4),
        "ratio": round(one / other, 1),
        "ready_s": round(ready_s, 2),
        "device_bytes_per_delivered": round(device / delivered, 3),
    }
    print(f"\n{tokens} tokens: {benchmark.extra_info}")
    assert other <= 0.1 * one


@contextlib.contextmanager
def known_ttft() -> Iterator[str]:
    script = pathlib.Path(__file__).with_name("known_ttft.py")
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate(timeout=10)


@pytest.mark.parametrize("concurrency", [1, 8, 32, 128])
def test_the_clients_error_in_ttft(benchmark, monkeypatch, concurrency: int) -> None:
    """TTFT as the client saw it less the time the server really took, on shared cores."""
    answers: list[Answer] = []

    class Kept(Answer):
        def __init__(self) -> None:
            super().__init__()
            answers.append(self)

    monkeypatch.setattr(client, "Answer", Kept)
    requests = sessions(1, 20 * concurrency, prompt_tokens=100, output_tokens=8)
    with known_ttft() as url:
        endpoint = Endpoint(base_url=url, model="m", timeout_s=30)
        result = benchmark.pedantic(
            closed_loop, (endpoint, requests), {"concurrency": concurrency}, rounds=1
        )
    assert not result.failed
    errors = sorted(each.times_s[0] - float(each.texts[0]) for each in answers)
    benchmark.extra_info |= {
        "requests_a_second": round(len(result.rows) / result.elapsed_s),
        "error_p50_ms": round(1000 * statistics.median(errors), 2),
        "error_p90_ms": round(1000 * errors[int(0.9 * len(errors))], 2),
        "lag_max_ms": round(1000 * result.lag_max_s, 1),
    }
    print(f"\nconcurrency {concurrency}: {benchmark.extra_info}")
    assert errors[0] >= 0  # never sooner than it was sent
