"""Workers that ask hosts for a controller: over a real sshd, and what is left when they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvgate.errors import AskerLostError, CommandError, HostKeyError, HostUnreachableError
from kvgate.spec.inventory import Host, Inventory
from kvgate.transport import connect
from kvgate.transport.connect import Connections
from kvgate.transport.fleet import FleetTransport
from kvgate.transport.sshd import PrivateSshd

pytestmark = pytest.mark.sshd

NAMES = ("node-1", "node-2", "node-3")


def inventory_of(sshd: PrivateSshd, **changes: object) -> Inventory:
    entry = {"roles": ["serving"], **sshd.host_entry()}
    hosts: dict[str, object] = dict.fromkeys(NAMES, entry)
    hosts |= {
        "behind": {**entry, "jump": "node-1"},
        "closed": {**entry, "port": 1, "connect_timeout": "5 s"},
        **changes,
    }
    return Inventory.model_validate({"inventory": "fleet", "hosts": hosts})


@pytest.fixture
def fleet(sshd: PrivateSshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connections]:
    monkeypatch.setattr(connect, "_processes", lambda _: 2)
    inventory = inventory_of(sshd)
    with Connections(inventory, shared=True) as connections:
        yield connections


def host(connections: Connections, name: str) -> Host:
    return connections._inventory.hosts[name]


def ended(pid: int) -> bool:
    """Tell whether the process is no more, or a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until, "it did not happen within 60 s"
        time.sleep(0.05)


def test_a_command_is_answered_as_by_the_controller_itself(
    fleet: Connections, sshd: PrivateSshd
) -> None:
    argv = ["sh", "-c", 'cat; echo "$X" >&2; printf "\\377\\0"; exit 3']
    asked = {"stdin": b"in \xff\n" * 1000, "env": {"X": "ü"}, "timeout_s": 30.0}
    with Connections(inventory_of(sshd)) as alone:
        ours = alone.to(host(fleet, "node-1")).run(argv, **asked)  # type: ignore[arg-type]
    theirs = fleet.to(host(fleet, "node-1")).run(argv, **asked)  # type: ignore[arg-type]
    assert isinstance(fleet.to(host(fleet, "node-1")), FleetTransport)
    for field in ("host", "argv", "exit_status", "stdout", "stderr", "timed_out", "masked"):
        assert getattr(theirs, field) == getattr(ours, field)
    assert theirs.stdout.endswith(b"\xff\0")
    assert theirs.started_at.utcoffset() == ours.started_at.utcoffset()
    assert 0 < theirs.elapsed_s < 30


def test_secrets_are_masked_where_they_are_captured(fleet: Connections) -> None:
    way = fleet.to(host(fleet, "node-2"))
    result = way.run(["echo", "password=correct-horse-battery"], timeout_s=30)
    assert result.stdout == b"password=[masked]\n"
    assert result.argv == ("echo", "password=[masked]")
    assert result.masked == 2


def test_deadlines_caps_and_files_hold(fleet: Connections, tmp_path: Path) -> None:
    way = fleet.to(host(fleet, "node-3"))
    late = way.run(["sleep", "60"], timeout_s=0.5)
    assert late.timed_out
    assert late.exit_status is None
    cut = way.run(["printf", "0123456789"], timeout_s=30, cap_bytes=4)
    assert (cut.stdout, cut.stdout_dropped) == (b"0123", 6)
    way.write_file(str(tmp_path / "file"), b"\0data")
    assert way.read_file(str(tmp_path / "file")) == b"\0data"


def test_errors_are_of_their_own_kind_and_name_the_host(
    fleet: Connections, sshd: PrivateSshd, tmp_path: Path
) -> None:
    with pytest.raises(HostUnreachableError, match=r"closed: .* port 1: ") as refused:
        fleet.to(host(fleet, "closed")).run(["true"], timeout_s=5)
    assert not isinstance(refused.value, AskerLostError)
    assert "sshd runs there" in refused.value.hint
    with pytest.raises(CommandError, match="holds a NUL byte"):
        fleet.to(host(fleet, "node-1")).run(["echo", "\0"], timeout_s=5)
    (tmp_path / "none").touch()
    entry = {"roles": ["serving"], **sshd.host_entry(), "known_hosts": str(tmp_path / "none")}
    with (
        Connections(inventory_of(sshd, **{"node-1": entry}), shared=True) as other,
        pytest.raises(HostKeyError, match="node-1: the host key is not known"),
    ):
        other.to(host(other, "node-1")).run(["true"], timeout_s=5)


def test_a_jump_host_is_gone_through(fleet: Connections) -> None:
    assert fleet.to(host(fleet, "behind")).run(["echo", "far"], timeout_s=60).stdout == b"far\n"


def test_a_worker_that_was_lost_is_named_and_replaced(fleet: Connections) -> None:
    way = fleet.to(host(fleet, "node-1"))
    first = way.run(["sh", "-c", 'echo "$PPID"'], timeout_s=30)
    assert first.ok
    before = fleet.workers
    failures: list[Exception] = []

    def ask() -> None:
        try:
            way.run(["sleep", "61.5"], timeout_s=90)
        except HostUnreachableError as err:
            failures.append(err)

    asking = threading.Thread(target=ask)
    asking.start()
    wait_for(lambda: bool(_sleeping("61.5")))
    sleeping = _sleeping("61.5")
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    asking.join(60)
    assert isinstance(failures[0], AskerLostError)
    assert "node-1: the process of kvgate that asked it" in str(failures[0])
    assert "was ended by signal 9" in str(failures[0])
    assert way.run(["true"], timeout_s=30).ok
    assert set(fleet.workers) != set(before)
    wait_for(lambda: all(ended(pid) for pid in sleeping))  # the leash ended what it had begun


def _sleeping(seconds: str) -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if each.read_bytes() == b"sleep\0" + seconds.encode() + b"\0":
                found.append(int(each.parent.name))
        except OSError:
            continue
    return found


def test_workers_end_with_their_controller(sshd: PrivateSshd, tmp_path: Path) -> None:
    """Kill a controller with SIGKILL in mid-command: its workers and the command end."""
    program = tmp_path / "controller.py"
    program.write_text(CONTROLLER)
    entry = sshd.host_entry()
    with subprocess.Popen(
        [sys.executable, str(program), repr(entry)], stdout=subprocess.PIPE, text=True
    ) as controller:
        assert controller.stdout
        workers = [int(word) for word in controller.stdout.readline().split()]
        assert len(workers) == 2
        wait_for(lambda: bool(_sleeping("62.5")))
        sleeping = _sleeping("62.5")
        controller.kill()
        controller.wait(30)
    wait_for(lambda: all(ended(pid) for pid in workers + sleeping))


CONTROLLER = """\
import ast, sys, threading
from kvgate.spec.inventory import Inventory
from kvgate.transport import connect
from kvgate.transport.connect import Connections

connect._processes = lambda _: 2
entry = {"roles": ["serving"], **ast.literal_eval(sys.argv[1])}
inventory = Inventory.model_validate({"inventory": "x", "hosts": {"a": entry, "b": entry}})
connections = Connections(inventory, shared=True)
print(*connections.workers, flush=True)
connections.to(inventory.hosts["a"]).run(["sleep", "62.5"], timeout_s=90)
"""


def test_closing_ends_the_workers(sshd: PrivateSshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_processes", lambda _: 2)
    connections = Connections(inventory_of(sshd), shared=True)
    workers = connections.workers
    assert len(workers) == 2
    connections.close()
    assert all(ended(pid) for pid in workers)
    with pytest.raises(HostUnreachableError):
        connections.to(host(connections, "node-1")).run(["true"], timeout_s=5)


@pytest.mark.parametrize(
    ("hosts", "cores", "processes"),
    [
        (1, 8, 0),
        (255, 8, 0),
        (256, 1, 0),
        (256, 8, 2),
        (1000, 2, 2),
        (1000, 64, 7),
        (9000, 64, 16),
    ],
)
def test_how_many_processes_share_the_work(
    monkeypatch: pytest.MonkeyPatch, hosts: int, cores: int, processes: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    entry = Host.model_validate({"roles": ["serving"], "address": "127.0.0.1"})
    inventory = Inventory.model_construct(
        inventory="x", hosts={f"n{number}": entry for number in range(hosts)}
    )
    assert connect._processes(inventory) == processes


def test_connections_that_rest_are_closed_but_for_some(
    sshd: PrivateSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Connections(inventory_of(sshd), kept_open=2) as connections:
        ways = {name: connections.to(host(connections, name)) for name in NAMES}
        for name, way in ways.items():
            assert way.run(["true"], timeout_s=30).ok
            connections.rest(host(connections, name))
        opened = {name: way.connected for name, way in ways.items()}
        assert opened == {"node-1": False, "node-2": True, "node-3": True}
        assert ways["node-1"].run(["true"], timeout_s=30).ok  # opened again
        process = ways["node-1"].start(["sleep", "30"], deadline_s=60)
        for name in ("node-1", "node-2", "node-3"):
            connections.rest(host(connections, name))
        assert not process.poll()  # what runs is not disturbed
        process.stop()
