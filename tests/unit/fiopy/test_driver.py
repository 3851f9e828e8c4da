"""Driving a real fio: results, progress, cancel, deadline, and each way it can go wrong."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fiopy import (
    Finished,
    FioCancelled,
    FioEngineMissing,
    FioError,
    FioFailed,
    FioJobError,
    FioKilled,
    FioMissing,
    FioNoSpace,
    FioOutputError,
    FioTimeout,
    FioUnfit,
    FioVerifyFailed,
    Found,
    Job,
    LocalRunner,
    Pattern,
    Progress,
    Version,
    engines,
    find,
    parse_engines,
    run,
    version,
)

pytestmark = pytest.mark.fio


def job(folder: Path, **options: object) -> Job:
    given: dict[str, object] = {
        "name": "a job",
        "pattern": Pattern.READ,
        "filename": str(folder / "f"),
        "block_bytes": 65536,
        "size_bytes": 2**20,
        "engine": "psync",
        "threads": True,
    }
    return Job(**(given | options))  # type: ignore[arg-type]


def fio_runs_in(folder: Path) -> bool:
    """Tell whether a fio that was given a job file of `folder` still runs."""
    listed = subprocess.run(
        ["ps", "-wweo", "stat=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return any(str(folder) in line and "fio" in line and line[0] != "Z" for line in listed)


def test_a_file_ends_a_run_early_and_well(tmp_path: Path, fio: str) -> None:
    stop = tmp_path / "enough"
    endless = job(tmp_path, runtime_s=600.0, time_based=True)

    def enough(progress: Progress) -> None:  # fio ends itself by a signal before its jobs move
        if progress.iops:
            stop.touch()

    done = run(
        [endless], LocalRunner(), folder=str(tmp_path), deadline_s=120, fio=fio,
        on_progress=enough, stop_file=str(stop),
    )  # fmt: skip
    assert done.output is not None
    assert not done.output.failed
    assert done.output.jobs[0].read is not None
    assert done.output.jobs[0].read.total_ios > 0
    assert done.finished.elapsed_s < 60


def test_a_run_measures_and_leaves_no_job_file(tmp_path: Path, fio: str) -> None:
    done = run([job(tmp_path)], LocalRunner(), folder=str(tmp_path), deadline_s=30, fio=fio)
    assert done.output is not None
    (result,) = done.output.jobs
    assert result.read is not None
    assert result.read.total_bytes == 2**20
    assert result.read.total_ios == 16
    assert [each.name for each in tmp_path.iterdir()] == ["f"]
    assert "[a job]" in done.job_text


def test_progress_comes_while_fio_runs(tmp_path: Path) -> None:
    said: list[tuple[float, Progress]] = []
    begun = time.monotonic()
    run(
        [job(tmp_path, time_based=True, runtime_s=2.5)],
        LocalRunner(),
        folder=str(tmp_path),
        deadline_s=30,
        on_progress=lambda word: said.append((time.monotonic() - begun, word)),
    )
    assert len(said) >= 2
    assert said[0][0] < 2.3, "the first word came before the end"
    assert said[0][1].read_bytes_per_s > 0
    assert said[0][1].job == "a job"


def test_cancel_really_ends_fio(tmp_path: Path) -> None:
    cancel = threading.Event()
    threading.Timer(1.0, cancel.set).start()
    begun = time.monotonic()
    with pytest.raises(FioCancelled) as err:
        run(
            [job(tmp_path, time_based=True, runtime_s=60)],
            LocalRunner(),
            folder=str(tmp_path),
            deadline_s=90,
            cancel=cancel,
        )
    assert time.monotonic() - begun < 10
    assert err.value.run is not None
    assert not fio_runs_in(tmp_path)
    assert not list(tmp_path.glob("*.fio"))


def test_the_deadline_really_ends_fio(tmp_path: Path) -> None:
    with pytest.raises(FioTimeout) as err:
        run(
            [job(tmp_path, time_based=True, runtime_s=60)],
            LocalRunner(),
            folder=str(tmp_path),
            deadline_s=1,
        )
    assert err.value.run is not None
    assert err.value.run.finished.elapsed_s < 9
    assert not fio_runs_in(tmp_path)


def test_a_failed_verification_carries_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    runner = LocalRunner()
    write = job(
        tmp_path, pattern=Pattern.WRITE, verify="crc32c", do_verify=False, save_verify_state=False
    )
    run([write], runner, folder=str(tmp_path), deadline_s=30)
    with (tmp_path / "f").open("r+b") as file:
        file.seek(3 * 65536 + 5000)
        file.write(b"flip")
    with pytest.raises(FioVerifyFailed, match=f"at byte {3 * 65536}") as err:
        run([job(tmp_path, verify="crc32c")], runner, folder=str(tmp_path), deadline_s=30)
    assert err.value.run is not None
    assert err.value.run.output is not None
    assert err.value.run.output.error == 84
    assert list(here.iterdir()) == [], "fio left nothing where it was started"


def test_an_engine_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FioEngineMissing, match="not loadable"):
        run([job(tmp_path, engine="nosuch")], LocalRunner(), folder=str(tmp_path), deadline_s=30)


def test_no_fio_is_said(tmp_path: Path) -> None:
    with pytest.raises(FioMissing, match="no fio at '/nonexistent/fio'"):
        run(
            [job(tmp_path)],
            LocalRunner(),
            folder=str(tmp_path),
            deadline_s=30,
            fio="/nonexistent/fio",
        )
    with pytest.raises(FioMissing):
        version(LocalRunner(), fio="/nonexistent/fio")


def test_the_version_and_engines_of_this_fio(fio: str) -> None:
    assert version(LocalRunner(), fio=fio).major >= 3
    assert "psync" in engines(LocalRunner(), fio=fio)


def test_engines_of_a_recorded_fio(recorded: Callable[[str], bytes]) -> None:
    names = parse_engines(recorded("fio-3.33_enghelp.stdout").decode())
    assert {"libaio", "io_uring", "psync"} <= set(names)
    with pytest.raises(FioOutputError):
        parse_engines("command not found")


def test_a_command_that_is_not_fio_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FioError):
        version(LocalRunner(), fio="false")
    with pytest.raises(FioOutputError):
        run([job(tmp_path)], LocalRunner(), folder=str(tmp_path), deadline_s=30, fio="true")


def test_progress_needs_whole_seconds(tmp_path: Path) -> None:
    with pytest.raises(FioJobError):
        run([job(tmp_path)], LocalRunner(), folder=str(tmp_path), deadline_s=30, progress_every_s=0)


def test_an_engine_is_looked_for_before_anything_is_sent(tmp_path: Path, fio: str) -> None:
    found = find(LocalRunner(), fio=fio)
    assert found.version.major >= 3
    with pytest.raises(FioUnfit, match=r"has no ioengine 'libhipfile'; it has: .*psync"):
        run(
            [job(tmp_path, engine="libhipfile", direct=True)],
            LocalRunner(),
            folder=str(tmp_path),
            deadline_s=30,
            found=found,
        )
    assert list(tmp_path.iterdir()) == []
    run([job(tmp_path)], LocalRunner(), folder=str(tmp_path), deadline_s=30, found=found)


def test_a_fio_that_is_too_old_is_said(tmp_path: Path) -> None:
    old = Found(Version.parse("fio-2.21"), ("psync",))
    with pytest.raises(FioUnfit, match=r"fio-2\.21 is too old: fio 3\.0 or newer"):
        old.check([job(tmp_path)])


def test_no_room_is_said(tmp_path: Path) -> None:
    """Write to the device that is always full."""
    with pytest.raises(FioNoSpace, match="No space left") as err:
        run(
            [job(tmp_path, pattern=Pattern.WRITE, filename="/dev/full")],
            LocalRunner(),
            folder=str(tmp_path),
            deadline_s=30,
        )
    assert "smaller size" in err.value.hint


def kill_the_job_of(folder: Path) -> None:
    """Kill the process of a job, not fio itself: as the kernel does for want of memory."""
    listed = subprocess.run(
        ["ps", "-wweo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for line in listed:
        if f"{folder}/" in line:
            pid, parent, _ = line.split(None, 2)
            if int(parent) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)


def test_a_job_that_is_killed_is_no_result_though_fio_exits_0(tmp_path: Path) -> None:
    with pytest.raises(FioKilled, match=r"a job of fio was killed .* by SIGKILL") as err:
        run(
            [job(tmp_path, threads=False, time_based=True, runtime_s=60)],
            LocalRunner(),
            folder=str(tmp_path),
            deadline_s=90,
            on_progress=lambda _word: kill_the_job_of(tmp_path),
        )
    assert err.value.signal == signal.SIGKILL
    assert err.value.run is not None
    assert err.value.run.finished.exit_status == 0, "fio itself says that all is well"
    assert not fio_runs_in(tmp_path)


class Scripted:
    """A runner whose one command ends as the test says."""

    def __init__(self, finished: Finished) -> None:
        self.finished = finished
        self.files: list[str] = []

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        return self.finished

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        on_stdout: Callable[[bytes], None] | None = None,
    ) -> Scripted:
        return self

    def wait(self, timeout_s: float) -> Finished | None:
        return self.finished

    def stop(self) -> Finished:
        return self.finished

    def write_file(self, path: str, data: bytes) -> None:
        self.files.append(path)

    def remove_file(self, path: str) -> bool:
        self.files.remove(path)
        return True


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"exit_status": None}, FioFailed, "without an exit status"),
        ({"dropped_bytes": 5}, FioOutputError, "over the cap"),
        ({"timed_out": True, "exit_status": None}, FioTimeout, "deadline"),
        ({"exit_status": 137}, FioKilled, "killed after .* by SIGKILL\n.*Out of memory"),
        ({"exit_status": 137, "stdout": b""}, FioKilled, "by SIGKILL"),
        ({"exit_status": None, "signal": 9}, FioKilled, "by SIGKILL"),
        ({"exit_status": 1, "stdout": b""}, FioFailed, "exited 1"),
        ({"exit_status": 143, "stdout": b""}, FioKilled, "by SIGTERM"),
        (
            {"stderr": b"fio: pid=9645, got signal=9\n"},
            FioKilled,
            "a job of fio was killed .* by SIGKILL",
        ),
        ({"stdout": b'{\n "fio version" : "fio-3'}, FioOutputError, "cut or damaged"),
        ({"stdout": b"note: only a note\n"}, FioOutputError, "no result"),
    ],
)
def test_what_is_not_a_measurement_is_never_returned(
    tmp_path: Path,
    recorded: Callable[[str], bytes],
    changes: dict[str, object],
    error: type[FioError],
    says: str,
) -> None:
    real = LocalRunner().run(["true"], timeout_s=10)
    whole = dataclasses.replace(real, stdout=recorded("fio-3.33_verify_ok.json"))
    runner = Scripted(whole)
    assert run([job(tmp_path)], runner, folder="/s", deadline_s=1).output is not None
    runner.finished = dataclasses.replace(whole, **changes)  # type: ignore[arg-type]
    with pytest.raises(error, match=says) as err:
        run([job(tmp_path)], runner, folder="/s", deadline_s=1)
    assert err.value.run is not None, "the bytes are never lost"
    assert runner.files == []
