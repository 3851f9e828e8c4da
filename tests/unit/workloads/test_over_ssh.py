"""fio over real SSH: the same readings, and a cancel that ends fio on the host."""

from __future__ import annotations

import hashlib
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import fiopy
from kvgate.errors import HarnessError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence
from kvgate.spec.inventory import Host
from kvgate.spec.workload import FioWorkload
from kvgate.transport.ssh import SshTransport
from kvgate.witness import Witness
from kvgate.workloads import fio
from kvgate.workloads.host_runner import HostRunner
from kvgate.workloads.shapes import CHUNK_BYTES, RANKS

pytestmark = [pytest.mark.fio, pytest.mark.sshd]


@pytest.fixture
def witness(tmp_path: Path, ssh_host: Host) -> Iterator[Witness]:
    """Yield a witness that reaches this machine by the tests' own sshd."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    host = ssh_host.model_copy(update={"scratch": str(scratch)})
    transport = SshTransport(host)
    yield Witness(host, transport, lambda e: hashlib.sha256(_all(e)).hexdigest())
    transport.close()
    assert list(scratch.iterdir()) == []


def _all(piece: Evidence) -> bytes:
    return repr(piece).encode()


def workload(runtime: str) -> FioWorkload:
    return FioWorkload(
        rounds=1,
        ramp=Quantity.parse("0 s"),
        runtime=Quantity.parse(runtime),
        size=Quantity.of(RANKS * CHUNK_BYTES, "B"),
        jobs=["kv-restore"],
    )


def test_progress_and_readings_come_over_ssh(witness: Witness) -> None:
    said: list[tuple[float, str]] = []
    begun = time.monotonic()
    answer = fio.run(
        witness,
        "kv-restore",
        workload=workload("2500 ms"),
        on_progress=lambda text: said.append((time.monotonic() - begun, text)),
    )
    took = time.monotonic() - begun
    assert {r.name: r.value for r in answer.readings}["fio.errors"] == Quantity.of(0, "")
    restoring = [at for at, text in said if text.startswith("kv-restore")]
    assert len(restoring) >= 2
    assert restoring[0] < took - 1, "progress came while fio ran"


def test_a_cancel_ends_fio_on_the_host(witness: Witness, tmp_path: Path) -> None:
    cancel = threading.Event()
    said: list[str] = []

    def running(text: str) -> None:
        said.append(text)
        if text.startswith("kv-restore"):
            cancel.set()

    with pytest.raises(HarnessError, match="cancelled"):
        fio.run(
            witness, "kv-restore", workload=workload("60 s"), on_progress=running, cancel=cancel
        )
    until = time.monotonic() + 20  # the folder's guard says that it is gone, then ends itself
    while left_in(tmp_path / "scratch") and time.monotonic() < until:
        time.sleep(0.05)
    assert left_in(tmp_path / "scratch") == []


def left_in(scratch: Path) -> list[str]:
    """Return the processes that work in `scratch`."""
    listed = subprocess.run(
        ["ps", "-wweo", "stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    return [
        line for line in listed.splitlines() if str(scratch) in line and not line.startswith("Z")
    ]


@pytest.mark.parametrize("threads", [True, False])
def test_a_deadline_ends_fio_and_its_jobs_on_the_host(
    witness: Witness, tmp_path: Path, threads: bool
) -> None:
    scratch = tmp_path / "scratch"
    job = fiopy.Job(
        name="endless",
        pattern=fiopy.Pattern.READ,
        filename=str(scratch / "f"),
        size_bytes=2**20,
        jobs=3,
        threads=threads,
        runtime_s=600,
        time_based=True,
    )
    seen: list[list[str]] = []
    with pytest.raises(fiopy.FioTimeout) as err:
        fiopy.run(
            [job],
            HostRunner(witness),
            folder=str(scratch),
            deadline_s=5,
            on_progress=lambda _: seen.append(left_in(scratch)),
        )
    assert seen
    assert len(seen[0]) >= (1 if threads else 4), "fio and its jobs were at work"
    assert err.value.run is not None
    assert left_in(scratch) == []
    assert [each.name for each in scratch.iterdir()] == ["f"], "the job file is gone"
    (scratch / "f").unlink()
