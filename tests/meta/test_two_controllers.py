"""Two controllers at once on the same hosts: the second is told who has them, and runs nothing."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvgate.engine.holding import HERE, hold, places
from kvgate.errors import HostsInUseError
from kvgate.spec import yamlfile
from kvgate.spec.load import inventory_of

pytestmark = pytest.mark.whole

SLOW = """
import time


@settles("G1.1")
def test_slowly(bench):
    say(bench, "a", True)
    for _ in range(4000):
        time.sleep(0.05)
"""

QUICK = """
@settles("G1.1")
def test_quickly(bench):
    say(bench, "a", True)
"""


@contextlib.contextmanager
def running(site) -> Iterator[object]:
    """Run a gate that takes long; ended with the block."""
    site.gate("G1", {"G1.1": ("a", "{equals: true}")}, SLOW)
    started = site.start("run")
    deadline = time.monotonic() + 60
    while not (site.runs() and site.events("block_end")):
        assert started.poll() is None, started.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    try:
        yield started
    finally:
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=60)


def test_the_second_run_is_refused_by_name_however_it_is_begun(site) -> None:
    with running(site) as first:
        runs = site.runs()
        again = site.kvgate("run")
        assert again.returncode == 2
        assert "here: in use by" in again.stderr
        assert f"process {first.pid}, run {runs[0].name}, since" in again.stderr
        direct = site.pytest("suites/g1", "--inventory", "inventory/local/this-machine.yaml")
        assert direct.returncode == 2
        assert runs[0].name in direct.stdout + direct.stderr
        rehearsed = site.kvgate("rehearse")
        assert rehearsed.returncode == 2
        assert "this machine: in use by" in rehearsed.stderr
        assert site.runs() == runs, "a refused controller leaves no run"
    site.gate("G1", {"G1.1": ("a", "{equals: true}")}, QUICK)
    assert site.kvgate("run").returncode == 0, "the lock ended with its holder"


def test_other_hosts_may_be_run_beside(site) -> None:
    with hold(site.root / "runs", {"192.0.2.7:22": "node7"}):
        site.gate("G1", {"G1.1": ("a", "{equals: true}")}, QUICK)
        done = site.kvgate("run")
    assert done.returncode == 0, done.stderr


def test_another_workspace_of_this_machine_is_told_too(tmp_path: Path) -> None:
    """Hosts beyond this machine are held for all users; this machine itself by workspace only."""
    shared = tmp_path / "machine"
    shared.mkdir()
    node, here = {"192.0.2.7:22": "node7"}, {HERE: HERE, "127.0.0.1:2222": "me"}
    with hold(tmp_path / "a/runs", node | here, machine=shared) as first:
        first.name_run("run-a")
        with pytest.raises(HostsInUseError, match=r"node7: in use by .*, run run-a, since"):
            hold(tmp_path / "b/runs", node, machine=shared)
        with hold(tmp_path / "b/runs", here, machine=shared):
            pass
    with hold(tmp_path / "b/runs", node | here, machine=shared):
        pass
    assert [path.name for path in shared.iterdir()] == ["mutex"]


def test_a_host_is_where_it_is_whatever_it_is_called() -> None:
    text = b"""\
inventory: a
hosts:
  gw: {roles: [client], address: GW.example.com}
  n1: {roles: [serving], address: 10.0.0.1, port: 2222, jump: gw}
  n2: {roles: [serving], address: 10.0.0.1}
  me: {roles: [client], transport: local}
"""
    found = places(inventory_of(yamlfile.parse(text, "x")).value)
    assert found == {
        "gw.example.com:22": "gw",
        "gw.example.com:22>10.0.0.1:2222": "n1",
        "10.0.0.1:22": "n2",
        HERE: "me",
    }
