"""Dask: scans and assessments are those of one machine, also where a worker is killed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from kvgate.errors import UsageError
from kvgate.kv.assess import Question, assess
from kvgate.kv.assess_parts import Gathered, assess_parts, follow_part
from kvgate.kv.reuse_sampled import PARTS
from kvgate.kv.trace import Options, batches
from kvgate.report.assessed import document
from kvgate.transport.sshd import PrivateSshd
from kvgate.workloads import assess_dask, dask_cluster, scan, scan_dask
from kvgate.workloads.scanner.course import Settings
from kvgate.workloads.scanner.engine import Asked, Progress

SBATCH = """#!/bin/sh
sh "$1" >"$JOBS/log" 2>&1 &
: >"$JOBS/job-$!"
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
for job in "$@"; do kill "$job"; done
"""
HOW = ("elapsed_s", "through_cache_bytes")


def content(found: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in found.items() if name not in HOW}


def test_a_cluster_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("node1\n-oProxyCommand=x\n")
    (tmp_path / "empty").write_text("# none\n")
    for named, why in {
        "here": "is no cluster",
        "ssh:/none": "No such file",
        "ssh:{bad}": "bad: line 2: '-oProxyCommand=x' is no host",
        "ssh:{empty}": "names no host",
        "slurm:many": "no number of jobs",
        "slurm:2,queue": "no key=value",
    }.items():
        where = named.format(bad=tmp_path / "bad", empty=tmp_path / "empty")
        with pytest.raises(UsageError, match=why), dask_cluster.connected(where):
            pytest.fail("there is no such cluster")


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(UsageError, match="distributed, which is not installed") as caught,
        dask_cluster.connected("tcp://localhost:1"),
    ):
        pytest.fail("there is no Dask")
    assert "kvgate[dask]" in caught.value.hint


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Yield a scheduler's address on loopback and the processes of its workers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    common = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
    common += ["--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    scheduler += ["--host", "127.0.0.1", "--port", str(port)]
    started = [subprocess.Popen(scheduler, **quiet)]
    try:
        for _ in range(workers):
            started.append(subprocess.Popen(common, **quiet))
        yield address, started[1:]
    finally:
        for each in started:
            each.kill()
            each.wait()


@pytest.mark.whole
def test_dask_gives_the_same_though_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Callable[[Path, int, int], Path]
) -> None:
    monkeypatch.chdir(tmp_path)  # workers make scratch folders
    monkeypatch.setattr("kvgate.workloads.scanner.listing.SEGMENT", 8_000_000 // 4096 * 4096)
    tree = fill(tmp_path / "t", 60, 5_000_000)
    once = content(scan.scan(Asked([str(tree)], jobs=2), lambda _: None))
    with cluster(2) as (address, workers):
        killed = threading.Event()

        def told(progress: Progress) -> None:
            if progress.bytes and not killed.is_set():
                killed.set()
                os.kill(workers[0].pid, signal.SIGKILL)

        monkeypatch.setattr("kvgate.workloads.scanner.engine._TELL_S", 0.0)
        found = scan_dask.scan(Asked([str(tree)]), address, told)
        assert killed.is_set()
    assert content(found) == once


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a trace of sessions that grow, some from a common prompt."""
    draw = np.random.default_rng(2)
    sessions: list[list[int]] = [[0] if n % 3 else [] for n in range(60)]
    fresh, lines = 1, []
    for at in range(900):
        ids = sessions[int(draw.integers(len(sessions)))]
        for _ in range(int(draw.integers(1, 5))):
            ids.append(fresh)
            fresh += 1
        row = {"timestamp": at * 100, "input_length": len(ids) * 512, "output_length": 9}
        lines.append(json.dumps({**row, "hash_ids": ids}))
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


QUESTIONS = [Question(rate=0.5), Question(rate=1.0), Question(size=600)]


@pytest.mark.parametrize("question", QUESTIONS, ids=["half", "all", "at most 600"])
def test_parts_put_together_are_the_whole(trace: Path, question: Question) -> None:
    once = document(assess(batches([trace]), question), ["t"])
    found = assess_parts(
        [str(trace)], Options(), question,
        lambda paths, options, asked: (
            follow_part(paths, options, asked, part) for part in range(PARTS)
        ),
    )  # fmt: skip
    assert document(found, ["t"]) == once


def test_at_rate_1_an_infinite_cache_is_exact(trace: Path) -> None:
    exact = assess(batches([trace]), Question())
    found = assess(batches([trace]), Question(rate=1.0))
    assert found.shared == pytest.approx(exact.shared, rel=1e-12)
    assert found.totals.distinct == exact.totals.distinct
    assert found.share_at(np.inf)[1] == 0 < found.share_at(100)[1]


def test_parts_that_do_not_fit_are_refused(trace: Path) -> None:
    parts = [follow_part([str(trace)], Options(), Question(rate=0.5), n) for n in range(PARTS)]
    with pytest.raises(UsageError, match="7 parts of 8"):
        Gathered(parts[1:])
    shorter = dataclasses.replace(parts[3], served=parts[3].served[1:])
    with pytest.raises(UsageError, match="different length"):
        Gathered([*parts[:3], shorter, *parts[4:]])
    cut = [dataclasses.replace(each, served=each.served[:-1]) for each in parts]
    with pytest.raises(UsageError, match="longer here"):
        assess_parts([str(trace)], Options(), Question(rate=0.5), lambda *_: cut)
    more = [
        dataclasses.replace(each, served=np.concatenate([each.served, each.served[:1]]))
        for each in parts
    ]
    with pytest.raises(UsageError, match="shorter here"):
        assess_parts([str(trace)], Options(), Question(rate=0.5), lambda *_: more)
    with pytest.raises(UsageError, match="parts are of a sample"):
        assess_parts([str(trace)], Options(), Question(), lambda *_: parts)


def kill_worker_of(future: Any) -> None:
    """Kill the worker that computes `future`, or holds it."""
    client = future.client
    while not (holders := [at for at, keys in client.processing().items() if keys]):
        if future.done():
            holders = next(iter(client.who_has([future]).values()))
            break
    first = holders[0]
    os.kill(client.run(os.getpid, workers=[first])[first], signal.SIGKILL)


@pytest.mark.whole
@pytest.mark.parametrize("question", [Question(), Question(rate=1.0)], ids=["exact", "parts"])
def test_dask_assesses_as_one_machine_though_a_worker_is_killed(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: Question
) -> None:
    monkeypatch.chdir(tmp_path)
    once = document(assess(batches([trace]), question), ["t"])
    really, killed = assess_dask._result, []

    def killing(future: Any, what: str, watch: Any) -> Any:
        if not killed:
            killed.append(kill_worker_of(future))
        return really(future, what, watch)

    with cluster(2) as (address, _):
        monkeypatch.setattr(assess_dask, "_result", killing)
        found = assess_dask.assess([str(trace)], Options(), question, address)
    assert killed
    assert document(found, ["t"]) == once


@pytest.mark.whole
def test_a_cluster_over_ssh_assesses_and_scans(
    sshd: PrivateSshd, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's own deployer by a real sshd, found as a user's ssh finds it: by ~/.ssh/config."""
    entry = sshd.host_entry()
    (tmp_path / ".ssh").mkdir()
    known = f"IdentityFile {entry['key']['file']}\nUserKnownHostsFile {entry['known_hosts']}\n"  # type: ignore[index]
    (tmp_path / ".ssh" / "config").write_text(f"Host 127.0.0.1\n{known}")
    hosts = tmp_path / "hosts.txt"
    hosts.write_text(f"# analysis nodes\n\n{entry['user']}@127.0.0.1:{entry['port']}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    once = document(assess(batches([trace]), Question()), ["t"])
    found = assess_dask.assess([str(trace)], Options(), Question(), f"ssh:{hosts}")
    assert document(found, ["t"]) == once


@pytest.mark.whole
def test_a_cluster_under_slurm_is_what_its_jobs_start(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dask-jobqueue's scripts run by an sbatch that starts them at once, here."""
    pytest.importorskip("dask_jobqueue")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {"sbatch": SBATCH, "scancel": SCANCEL}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("JOBS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    once = document(assess(batches([trace]), Question(rate=1.0)), ["t"])
    where = "slurm:2,memory=1GB,interface=lo"
    found = assess_dask.assess([str(trace)], Options(), Question(rate=1.0), where)
    assert document(found, ["t"]) == once
    jobs = [int(each.name.removeprefix("job-")) for each in tmp_path.glob("job-*")]
    assert len(jobs) == 2
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{job}").exists() for job in jobs) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{job}").exists() for job in jobs)  # cancelled with the cluster


def test_without_any_worker_it_ends_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty:
        status = "running"

        def nthreads(self) -> dict[str, int]:
            return {}

        def submit(self, *_: Any, **__: Any) -> Any:
            return Mock(key="1")

    monkeypatch.setattr(dask_cluster, "GONE_S", 0.05)
    monkeypatch.setattr(scan_dask, "LOOK_S", 0.1)
    pool = scan_dask.DaskPool(Empty(), Settings((4096,), False, 1, 0))
    pool.submit([], {})
    with pytest.raises(UsageError, match="no worker has been there"):
        pool.next()
