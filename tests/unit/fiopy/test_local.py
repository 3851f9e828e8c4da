"""The local runner: exit status, deadline, stop, caps; nothing is left running."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fiopy import LocalRunner


def gone(pid: int) -> bool:
    """Tell whether the process is gone or a zombie within 5 s."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_output_and_exit_status() -> None:
    done = LocalRunner().run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=10)
    assert (done.exit_status, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert done.started_at.utcoffset() is not None


def test_a_command_that_is_not_there_is_127() -> None:
    done = LocalRunner().run(["/nonexistent/fio"], timeout_s=10)
    assert done.exit_status == 127
    assert b"No such file" in done.stderr


def test_death_by_signal_is_128_and_more() -> None:
    assert LocalRunner().run(["sh", "-c", "kill -9 $$"], timeout_s=10).exit_status == 137


def test_the_deadline_ends_the_command_and_its_children() -> None:
    begun = time.monotonic()
    done = LocalRunner().run(["sh", "-c", "sleep 60 & echo $!; echo $$; wait"], timeout_s=0.4)
    assert (done.timed_out, done.exit_status) == (True, None)
    assert time.monotonic() - begun < 4
    assert all(gone(int(pid)) for pid in done.stdout.split())


def test_a_command_that_closes_its_streams_or_ignores_term_is_ended_too() -> None:
    begun = time.monotonic()
    done = LocalRunner().run(["sh", "-c", "exec >&- 2>&-; sleep 60"], timeout_s=0.4)
    assert done.timed_out
    assert time.monotonic() - begun < 4


def test_stop_ends_it() -> None:
    running = LocalRunner().start(["sh", "-c", "echo $$; sleep 60"], deadline_s=60)
    assert running.wait(0.3) is None
    done = running.stop()
    assert done.exit_status == 128 + 15
    assert gone(int(done.stdout))


def test_both_streams_are_drained_and_capped() -> None:
    script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero"
    done = LocalRunner(cap_bytes=100_000).run(["sh", "-c", script], timeout_s=20)
    assert (len(done.stdout), len(done.stderr)) == (100_000, 100_000)
    assert done.dropped_bytes == 400_000


def test_a_removed_file_is_gone(tmp_path: Path) -> None:
    runner = LocalRunner()
    runner.write_file(str(tmp_path / "x"), b"1")
    assert runner.remove_file(str(tmp_path / "x"))
    assert runner.remove_file(str(tmp_path / "x")), "gone already is gone"
    assert not (tmp_path / "x").exists()
    assert not runner.remove_file(str(tmp_path)), "a folder is not removed"


def test_no_thread_or_descriptor_is_left() -> None:
    runner = LocalRunner()
    runner.run(["true"], timeout_s=10)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  a count, of open descriptors
    for _ in range(20):
        runner.run(["true"], timeout_s=10)
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # noqa: PTH208


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_stdout_arrives_as_it_comes(stream: str) -> None:
    pieces: list[bytes] = []
    runner = LocalRunner()
    running = runner.start(
        ["sh", "-c", f"echo a {stream}; sleep 0.3; echo b {stream}"],
        deadline_s=10,
        on_stdout=pieces.append,
    )
    while running.wait(0.1) is None:
        pass
    assert pieces == ([] if stream else [b"a\n", b"b\n"])
