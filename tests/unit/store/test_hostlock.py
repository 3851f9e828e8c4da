"""Two controllers never hold the same host, whoever dies when."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvgate.errors import HostsInUseError, StoreError
from kvgate.store import hostlock
from kvgate.store.hostlock import HostLock

A, B, C = ({f"192.0.2.{n}:22": f"node{n}"} for n in (1, 2, 3))

HOLD = """\
import subprocess, sys, time
from pathlib import Path
from kvgate.store import hostlock
lock = hostlock.HostLock(Path(sys.argv[1]), {"192.0.2.1:22": "node1"}, user="anna", run="run-1")
if len(sys.argv) > 2:
    sleep = [sys.executable, "-c", f"import time; time.sleep({sys.argv[2]})"]
    subprocess.Popen(sleep, pass_fds=hostlock.inherited())
print("held", flush=True)
time.sleep(60)
"""


def hold(folder: Path, hosts: dict[str, str], **more: str) -> HostLock:
    return HostLock(folder, hosts, user="berta", **more)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return a process that holds node1."""
    yield from _holder(tmp_path)


def _holder(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.wait(10)


def test_who_holds_a_host_is_named(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    with pytest.raises(HostsInUseError) as caught:
        hold(tmp_path, A | B)
    told = caught.value.message
    assert told.startswith("node1: in use by anna on ")
    assert f"process {other.pid}, run run-1, since 20" in told
    assert caught.value.exit_code == 2


def test_others_hosts_may_be_held_beside(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    assert other.poll() is None
    with hold(tmp_path, B | C), pytest.raises(HostsInUseError, match="node2, node3: in use"):
        hold(tmp_path, B | C | {"x": "x"})
    with hold(tmp_path, B):
        pass
    assert len(list(tmp_path.glob("*.lock"))) == 1


def test_a_killed_holder_holds_nothing(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    os.kill(other.pid, signal.SIGKILL)
    other.wait(10)
    with hold(tmp_path, A) as lock:
        assert [path.name for path in tmp_path.glob("*.lock")] == [lock._path.name]
    assert not list(tmp_path.glob("*.lock"))


def test_children_of_a_killed_holder_are_waited_for(tmp_path: Path) -> None:
    for child in _holder(tmp_path, "1.5"):
        begun = time.monotonic()
        os.kill(child.pid, signal.SIGKILL)
        child.wait(10)
        with hold(tmp_path, A):
            assert 0.3 < time.monotonic() - begun < 30


def test_children_that_do_not_end_are_named_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostlock, "ENDING_S", 0.2)
    for child in _holder(tmp_path, "3"):
        os.kill(child.pid, signal.SIGKILL)
        child.wait(10)
        with pytest.raises(HostsInUseError, match="node1"):
            hold(tmp_path, A)
        with hold(tmp_path, B):
            pass


def test_a_second_release_does_nothing_and_a_run_can_be_named(tmp_path: Path) -> None:
    lock = hold(tmp_path, A)
    lock.name_run("20270101T000000Z-x-0001")
    with pytest.raises(HostsInUseError, match="run 20270101T000000Z-x-0001, since"):
        hold(tmp_path, A)
    lock.release()
    lock.release()
    assert hostlock.inherited() == ()
    hold(tmp_path, A).release()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"hosts": 7}', b"\xff" * 99])
def test_a_holder_that_says_nothing_readable_holds_everything(
    tmp_path: Path, content: bytes
) -> None:
    with hold(tmp_path, A) as lock:
        os.ftruncate(lock._fd, 0)
        os.pwrite(lock._fd, content, 0)
        with pytest.raises(HostsInUseError, match="node2: in use by somebody"):
            hold(tmp_path, B)


def test_a_stopped_process_inside_is_told_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostlock, "MUTEX_S", 0.2)
    with hold(tmp_path, A) as lock, lock._alone(), pytest.raises(StoreError, match="let go"):
        hold(tmp_path, B)


def test_of_many_at_once_exactly_one_gets_a_host(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    children = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    try:
        deadline = time.monotonic() + 60
        while sum(child.poll() is None for child in children) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (winner,) = [child for child in children if child.poll() is None]
        for child in children:
            if child is not winner:
                assert child.stderr is not None
                assert f"process {winner.pid}, run run-1" in child.stderr.read()
    finally:
        for child in children:
            child.kill()
            child.communicate(timeout=10)


def test_the_machines_folder_is_one_that_everybody_may_write_to(tmp_path: Path) -> None:
    mine, everybodys, link = (tmp_path / name for name in ("mine", "everybodys", "link"))
    mine.mkdir(mode=0o755)
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    link.symlink_to(everybodys)
    assert hostlock.machine_folder([tmp_path / "none", mine, link]) is None
    found = hostlock.machine_folder([mine, everybodys])
    assert found == everybodys / "kvgate"
    assert found.stat().st_mode & 0o7777 == 0o1777
    assert hostlock.machine_folder([everybodys]) == found
    found.chmod(0o755)
    assert hostlock.machine_folder([everybodys]) is None, "made by one who keeps others out"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_users_lock_holds_and_its_stale_file_is_left() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own can't be reached by others
        _held_against_nobody(Path(folder))


def _held_against_nobody(folder: Path) -> None:
    folder.chmod(0o1777)
    (folder / "gone.lock").write_text("{}")
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from kvgate.errors import HostsInUseError\n"
        "from kvgate.store.hostlock import HostLock\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try: HostLock(Path(sys.argv[1]), {'192.0.2.1:22': 'node1'}, user='nobody')\n"
        "except HostsInUseError as err: print(err.message)\n"
    )
    ask = [sys.executable, "-c", code, str(folder)]
    with hold(folder, A, run="run-9"):
        told = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "node1: in use by berta" in told
    assert "run run-9" in told


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="making the folder of locks"):
        hold(tmp_path / "file" / "locks", A)
