"""Several initiators at once: results by initiator, when each began, servers that really end."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fiopy import (
    Finished,
    FioApart,
    FioCancelled,
    FioError,
    FioFailed,
    FioJobError,
    FioMissing,
    Initiator,
    Job,
    LocalRunner,
    Pattern,
    listening,
    run,
    run_together,
)

pytestmark = pytest.mark.fio


def free_ports(count: int) -> list[int]:
    """Return ports that were free just now."""
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]


@pytest.fixture
def two(tmp_path: Path) -> list[Initiator]:
    """Return two initiators on this machine, each with its own port, and a file for each."""
    runner = LocalRunner()
    found = [
        Initiator(name=f"ini{n}", runner=runner, address="127.0.0.1", port=port)
        for n, port in enumerate(free_ports(2), 1)
    ]
    for each in found:
        lay = Job(
            name="lay",
            pattern=Pattern.WRITE,
            filename=str(tmp_path / each.name),
            size_bytes=2**20,
            block_bytes=65536,
        )
        run([lay], runner, folder=str(tmp_path), deadline_s=60)
    return found


def jobs(folder: Path, initiators: Sequence[Initiator], **options: object) -> dict[str, list[Job]]:
    given: dict[str, object] = {
        "name": "together",
        "pattern": Pattern.RANDREAD,
        "size_bytes": 2**20,
        "block_bytes": 4096,
        "runtime_s": 1,
        "time_based": True,
        "threads": True,
        "group_reporting": True,
    }
    return {
        each.name: [Job(filename=str(folder / each.name), **(given | options))]  # type: ignore[arg-type]
        for each in initiators
    }


def fio_left(initiators: Sequence[Initiator], folder: Path) -> list[str]:
    """Return the processes that serve on these ports or work in `folder`."""
    listed = subprocess.run(
        ["ps", "-wweo", "stat=,pid=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    marks = [f",{each.port}" for each in initiators] + [str(folder)]
    return [
        line
        for line in listed
        if "fio" in line and line[0] != "Z" and any(mark in line for mark in marks)
    ]


def test_two_initiators_at_once(tmp_path: Path, two: list[Initiator]) -> None:
    found = run_together(
        jobs(tmp_path, two, jobs=2),
        two,
        LocalRunner(),
        folder=str(tmp_path),
        deadline_s=120,
        most_apart_ms=30_000,
    )
    assert set(found.by_initiator) == {"ini1", "ini2"}
    for each in two:
        (result,) = found.by_initiator[each.name]
        assert result.client == each.client
        assert result.read is not None
        assert result.read.total_ios
    assert found.run.output is not None
    assert len(found.run.output.jobs) == 2, "fio's sum over all clients is no job"
    started = found.run.finished.started_at.timestamp() * 1000
    assert all(started - 1000 < at < started + 120_000 for at in found.began_ms.values())
    assert found.apart_ms == abs(found.began_ms["ini1"] - found.began_ms["ini2"])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ini1", "ini2"]
    assert fio_left(two, tmp_path) == []
    assert not any(listening.on(each.runner, each.address, each.port) for each in two)


def test_a_cancel_ends_servers_and_jobs(tmp_path: Path, two: list[Initiator]) -> None:
    cancel = threading.Event()
    threading.Timer(3, cancel.set).start()
    with pytest.raises(FioCancelled):
        run_together(
            jobs(tmp_path, two, runtime_s=120),
            two,
            LocalRunner(),
            folder=str(tmp_path),
            deadline_s=200,
            cancel=cancel,
        )
    assert fio_left(two, tmp_path) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ini1", "ini2"]


def test_a_server_that_is_lost_is_no_result_of_the_others(
    tmp_path: Path, two: list[Initiator]
) -> None:
    def lose() -> None:
        for line in fio_left([two[1]], Path("/nonexistent")):
            _, pid, args = line.split(None, 2)
            if "--server" in args:
                os.kill(int(pid), signal.SIGKILL)

    timer = threading.Timer(3, lose)
    timer.start()
    with pytest.raises(FioFailed, match="no result came from ini2") as err:
        run_together(
            jobs(tmp_path, two, runtime_s=6),
            two,
            LocalRunner(),
            folder=str(tmp_path),
            deadline_s=99,
        )
    timer.join()
    assert err.value.run is not None
    assert err.value.run.output is not None
    assert err.value.run.output.jobs, "of the other one: no result all the same"
    assert fio_left(two, tmp_path) == []


def test_initiators_that_began_apart_are_no_result(tmp_path: Path, two: list[Initiator]) -> None:
    ahead = dataclasses.replace(two[1], clock_ahead_ms=-60_000)
    with pytest.raises(FioApart, match="ms apart, at most 1000 ms") as err:
        run_together(
            jobs(tmp_path, two), [two[0], ahead], LocalRunner(), folder=str(tmp_path), deadline_s=99
        )
    assert err.value.run is not None
    assert err.value.run.output is not None
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ini1", "ini2"]


def test_a_port_that_is_taken_is_said(tmp_path: Path, two: list[Initiator]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", two[1].port))
        taken.listen()
        with pytest.raises(FioFailed, match=r"something listens on 127\.0\.0\.1"):
            run_together(
                jobs(tmp_path, two), two, LocalRunner(), folder=str(tmp_path), deadline_s=99
            )
    assert fio_left(two, tmp_path) == []


def test_an_address_that_is_not_the_hosts_is_said(tmp_path: Path, two: list[Initiator]) -> None:
    away = dataclasses.replace(two[1], address="192.0.2.7")
    with pytest.raises(FioFailed, match="fio's server ended at once"):
        run_together(
            jobs(tmp_path, two), [two[0], away], LocalRunner(), folder=str(tmp_path), deadline_s=99
        )
    assert fio_left(two, tmp_path) == []


def test_no_fio_there_is_said(tmp_path: Path, two: list[Initiator]) -> None:
    with pytest.raises(FioMissing):
        run_together(
            jobs(tmp_path, two),
            two,
            LocalRunner(),
            folder=str(tmp_path),
            deadline_s=99,
            fio="/nonexistent/fio",
        )


EVERYWHERE = "0.0.0.0"  # noqa: S104  to be refused


@pytest.mark.parametrize("address", [EVERYWHERE, "", "localhost", "1.2.3.400", "1.2.3.4,x"])
def test_a_server_listens_on_one_address_only(address: str) -> None:
    with pytest.raises(FioJobError):
        Initiator(name="i", runner=LocalRunner(), address=address)


def test_jobs_and_initiators_must_fit(tmp_path: Path, two: list[Initiator]) -> None:
    whole = jobs(tmp_path, two)

    def refused(given: dict[str, list[Job]], initiators: list[Initiator]) -> None:
        with pytest.raises(FioJobError):
            run_together(given, initiators, LocalRunner(), folder="/s", deadline_s=9)

    refused({"ini1": whole["ini1"]}, two)
    refused(whole, [two[0], two[0]])
    refused(whole, [two[0], dataclasses.replace(two[0], name="ini2")])
    refused({**whole, "ini2": []}, two)
    refused(jobs(tmp_path, two, wait_for_earlier=True), two)
    refused({}, [])


class Told(LocalRunner):
    """A runner whose every command answers the same."""

    def __init__(self, stdout: bytes, exit_status: int = 0) -> None:
        super().__init__()
        self.answer = (stdout, exit_status)

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        real = super().run(["true"], timeout_s=timeout_s)
        return dataclasses.replace(real, stdout=self.answer[0], exit_status=self.answer[1])


TABLE = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:223D 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0
   2: 0100007F:1F90 0100007F:0016 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0
"""


@pytest.mark.parametrize(
    ("address", "port", "there"),
    [
        ("127.0.0.1", 8765, True),
        ("127.0.0.2", 8765, False),
        ("10.1.2.3", 22, True),
        ("127.0.0.1", 8080, False),
    ],
)
def test_what_listens_is_read_from_the_kernel(address: str, port: int, there: bool) -> None:
    ask: Callable[[str, int], bool] = lambda a, p: listening.on(Told(TABLE), a, p)  # noqa: E731
    assert ask(address, port) is there
    with pytest.raises(FioError):
        listening.on(Told(b"", 1), address, port)
