"""Several clients: shares merged on one time line, what is lost told; for real by two workers."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.engine.load_several import Clients, Share, _awaited, merged, share
from kvgate.errors import UsageError
from kvgate.load.endpoint import Endpoint
from kvgate.load.parts import Done, Part, levels
from kvgate.load.prompts import Ids
from kvgate.load.rows import LoadResult, Row
from kvgate.load.sessions import Sessions
from kvgate.load.shape import Closed

NOW = datetime.datetime(2026, 5, 12, tzinfo=datetime.UTC)
WHAT = Sessions(seed=1, input_tokens=64, output_tokens=4)
ENDPOINT = Endpoint(base_url="http://127.0.0.1:1", model="m", timeout_s=5)


def part_of(users: int = 4, requests: int = 20) -> Part:
    (part,) = levels(WHAT, [users], requests=lambda _: requests)
    return part


def row(session: int, sent_s: float) -> Row:
    return Row(
        session=f"session-{session:06d}",
        sent_at=NOW,
        sent_s=sent_s,
        ttft_s=0.1,
        token_times_s=(0.1, 0.2),
        end_s=0.2,
        asked_tokens=4,
        prompt_tokens=64,
        output_tokens=4,
        cached_tokens=None,
        output_sha256=None,
        logits_sha256=None,
    )


def done_of(part: Part, rows: list[Row], **more: Any) -> Done:
    source = part.source()
    while source.next() is not None:
        pass
    result = LoadResult(
        base_url="http://127.0.0.1:1",
        model="m",
        concurrency=part.shape.concurrency if isinstance(part.shape, Closed) else 1,
        started_at=NOW,
        elapsed_s=2.0,
        lag_max_s=0.001,
        rows=tuple(rows),
    )
    return Done(part=part, result=result, issued=source.issued, **more)


def test_shares_lie_on_one_time_line() -> None:
    part = part_of()
    first = done_of(part.of(0, 2), [row(0, 0.0), row(2, 1.0)])
    second = done_of(part.of(1, 2), [row(1, 0.0)], notes=("a note",))
    found = merged(part, ENDPOINT, [Share("a", 100.0, first), Share("b", 100.1, second)])
    assert [round(each.sent_s, 3) for each in found.result.rows] == [0.0, 0.1, 1.0]
    assert found.result.concurrency == 4
    assert found.result.elapsed_s == pytest.approx(2.1)
    assert (found.untold, found.notes) == ((), ("client b: a note",))
    assert found.issued.lengths(found.result.rows) == (3, 0)


def test_a_lost_client_and_one_that_begins_late_are_told() -> None:
    part = part_of()
    one = done_of(part.of(0, 3), [row(0, 0.0)], untold=("the client was the bottleneck: x",))
    two = done_of(part.of(1, 3), [row(1, 0.0)])
    lost = Share("c", 0.0, None, "client c was lost: KilledWorker")
    found = merged(part, ENDPOINT, [Share("a", 1.0, one), Share("b", 3.0, two), lost])
    assert found.untold == (
        "client c was lost: KilledWorker",
        "the clients began 2.00 s apart",
        "client a: the client was the bottleneck: x",
    )
    none = merged(part, ENDPOINT, [lost])
    assert (none.result.rows, none.untold) == ((), ("client c was lost: KilledWorker",))


def test_a_share_that_is_asked_too_late_sends_nothing() -> None:
    began, told = share(ENDPOINT, part_of(), time.time() - 5)
    assert isinstance(told, str)
    assert "too late to begin with the others" in told
    assert began < time.time()


class Fetched:
    """A future of Dask's that is done, and whose rows take 3 s of looks to arrive."""

    status = "finished"

    def done(self) -> bool:
        return True

    def result(self, timeout: float) -> tuple[float, str]:
        if timeout < 3:
            raise TimeoutError(f"timed out after {timeout:g} s")
        return 0.0, "the rows"


def test_rows_that_take_long_to_arrive_are_no_lost_client() -> None:
    there = types.SimpleNamespace(scheduler_info=lambda **_: {"workers": {"one": {}}})
    assert _awaited(there, Fetched(), "one", None) == (0.0, "the rows")
    failed = Fetched()
    failed.status = "error"
    with pytest.raises(TimeoutError):
        _awaited(there, failed, "one", None)


@contextlib.contextmanager
def cluster(workers: int, folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Yield a scheduler's address on loopback and the processes of its workers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    quiet: dict[str, Any] = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "cwd": folder,
    }
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
    worker += ["--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
    started = [subprocess.Popen([*scheduler, "--host", "127.0.0.1", "--port", str(port)], **quiet)]
    try:
        started += [subprocess.Popen(worker, **quiet) for _ in range(workers)]
        _wait_for(address, workers)
        yield address, started[1:]
    finally:
        for each in started:
            each.kill()
            each.wait()


def _wait_for(address: str, workers: int) -> None:
    import distributed

    with distributed.Client(address, timeout=60) as client:  # type: ignore[no-untyped-call]
        client.wait_for_workers(workers, timeout=60)  # type: ignore[no-untyped-call]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[str]:
    """Run the smallest embedded engine; yields its address."""
    words = ["-m", "kvgate.serving", "--model", "pico", "--seed", "1", "--no-tier"]
    child = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, cwd=tmp_path, text=True
    )
    assert child.stdout is not None
    try:
        port = json.loads(child.stdout.readline())["port"]
        yield f"http://127.0.0.1:{port}"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def kill_once_busy(engine: str, worker: subprocess.Popen[bytes]) -> None:
    """SIGKILL `worker` once the engine has answered more than it had by now."""
    before, ends = answered(engine), time.monotonic() + 60
    while answered(engine) < before + 4 and time.monotonic() < ends:
        time.sleep(0.05)
    os.kill(worker.pid, signal.SIGKILL)


def answered(engine: str) -> float:
    """Return how many tokens the engine has answered."""
    connection = http.client.HTTPConnection(engine.removeprefix("http://"), timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        told = connection.getresponse().read().decode()
    lines = [line for line in told.splitlines() if line.startswith("vllm:generation_tokens_total")]
    return sum(float(line.split()[-1]) for line in lines)


@pytest.mark.whole
def test_two_workers_share_a_load_and_a_killed_one_is_named(tmp_path: Path, engine: str) -> None:
    endpoint = Endpoint(base_url=engine, model="pico", timeout_s=60)
    what = Sessions(seed=3, input_tokens=64, output_tokens=4, ids=Ids(0, 512))
    (part,) = levels(what, [4], requests=lambda _: 16)
    (endless,) = levels(what, [2], requests=None, duration_s=4)
    with cluster(2, tmp_path) as (address, workers), Clients(address) as clients:
        assert len(clients.names) == 2
        done = clients.run(endpoint, part)
        assert len({each.session for each in done.result.rows}) == 16
        assert not done.result.failed
        assert not [each for each in done.untold if "bottleneck" not in each]
        assert done.issued.lengths(done.result.rows) == (16, 0)
        with pytest.raises(UsageError, match="1 users can't be shared by 2 clients"):
            clients.run(endpoint, levels(what, [1], requests=lambda _: 1)[0])
        killer = threading.Thread(target=kill_once_busy, args=(engine, workers[0]))
        killer.start()
        lost = clients.run(endpoint, endless)
        killer.join()
    assert any("was lost" in each for each in lost.untold)
