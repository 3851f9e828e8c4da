"""The ways to a host that the contract tests run against, and how they see what is left there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvgate.spec.inventory import Host
from kvgate.transport.leashed import Leashed
from kvgate.transport.local import LocalTransport
from kvgate.transport.ssh import SshTransport
from kvgate.transport.sshd import PrivateSshd


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.sshd)])
def way(request: pytest.FixtureRequest) -> Iterator[Leashed]:
    """Return a transport to this machine, each way in turn; closed after the test."""
    if request.param == "local":
        transport: Leashed = LocalTransport("here")
    else:
        transport = SshTransport(request.getfixturevalue("ssh_host"))
    yield transport
    transport.close()


@pytest.fixture
def other(sshd: PrivateSshd) -> Callable[..., Host]:
    """Return a function that gives the private sshd's host with some fields changed."""

    def change(**fields: object) -> Host:
        return Host.model_validate(
            {"roles": ["client"], "name": "here", **sshd.host_entry(), **fields}
        )

    return change


def alive(pid: int) -> bool:
    """Tell whether `pid` runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


@pytest.fixture
def gone() -> Callable[..., bool]:
    """Return a function that waits for processes to end and tells whether they did."""

    def wait(*pids: int, within_s: float = 15) -> bool:
        until = time.monotonic() + within_s
        while any(alive(pid) for pid in pids):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    return wait


@pytest.fixture
def running() -> Callable[[int], bool]:
    """Return a function that tells whether a process runs (a zombie does not)."""
    return alive
