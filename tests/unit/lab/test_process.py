"""Machines as processes, with `sleep` in the place of QEMU."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvgate.errors import HarnessError
from kvgate.lab import process

SLEEP = ["sleep", "600"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    process.end(tmp_path)


def gone(pid: int) -> bool:
    return process.start_time(pid) is None


def until_gone(pid: int) -> None:
    end = time.monotonic() + 60
    while not gone(pid):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_machine_is_known_by_pid_and_start_time_and_ended(folder: Path) -> None:
    pid = process.start(SLEEP, folder)
    assert process.running(folder) == pid
    assert (folder / "pid").read_text().split() == [str(pid), process.start_time(pid)]
    assert Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
    assert Path(f"/proc/{pid}/cwd").readlink() == folder
    assert process.end(folder)
    assert gone(pid)
    assert process.running(folder) is None
    assert not process.end(folder)


def test_it_has_a_session_of_its_own_and_is_no_child_of_ours(folder: Path) -> None:
    pid = process.start(SLEEP, folder)
    assert os.getsid(pid) != os.getsid(0)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def test_a_killed_machine_is_down(folder: Path) -> None:
    pid = process.start(SLEEP, folder)
    os.kill(pid, signal.SIGKILL)
    until_gone(pid)
    assert process.running(folder) is None
    assert not process.end(folder)
    assert not (folder / "pid").exists()
    assert process.start(SLEEP, folder) != pid


def test_a_process_that_got_the_same_pid_later_is_left_alone(folder: Path) -> None:
    with subprocess.Popen(SLEEP) as other:
        began = process.start_time(other.pid)
        (folder / "pid").write_text(f"{other.pid} {int(began or 0) - 1}\n")
        assert process.running(folder) is None
        assert not process.end(folder)
        assert other.poll() is None
        other.kill()


def test_what_had_not_yet_written_its_pid_is_ended_too(folder: Path) -> None:
    words = ["sh", "-c", "read -r word", process.MARK]
    with (
        subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE) as ours,
        subprocess.Popen([*words[:3], "a-person"], cwd=folder, stdin=subprocess.PIPE) as other,
    ):
        assert not process.end(folder)
        assert ours.wait(60) == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


def test_what_ends_at_once_is_told_with_its_last_words(folder: Path) -> None:
    with pytest.raises(HarnessError, match="sh ended at once: no such drive"):
        process.start(["sh", "-c", "echo no such drive >&2; exit 1"], folder)
    assert process.running(folder) is None


def test_what_ignores_term_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_TERM_S", 0.5)
    pid = process.start(["sh", "-c", 'trap "" TERM; while :; do sleep 0.2; done'], folder)
    assert process.end(folder)
    assert gone(pid)


@given(text=st.binary(max_size=40))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_pid_file_of_anything_ends_no_process(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "pid").write_bytes(text)
    assert process.running(tmp_path) is None


@pytest.mark.parametrize("text", ["1 1", "0 0", "-1 5", "1", ""])
def test_process_1_and_groups_are_never_meant(tmp_path: Path, text: str) -> None:
    (tmp_path / "pid").write_text(text)
    assert process.running(tmp_path) is None
