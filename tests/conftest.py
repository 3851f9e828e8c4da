"""What tests of several packages share: a private sshd, the host it makes of us, one profile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from kvgate.spec.inventory import Host, Role
from kvgate.transport.sshd import PrivateSshd

# A shell's background job ignores SIGINT, and so would all that tests start and then interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("kvgate", deadline=None)  # how long an example takes proves nothing here
settings.load_profile("kvgate")


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSshd]:
    """Return a private sshd on loopback that lasts as long as the tests."""
    if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin:/sbin") is None:
        pytest.skip("needs openssh-server")
    with PrivateSshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def ssh_host(sshd: PrivateSshd) -> Host:
    """Return the inventory entry that reaches this machine through the private sshd."""
    host = Host.model_validate({"roles": [Role.SERVING, Role.CLIENT], **sshd.host_entry()})
    return host.model_copy(update={"name": "here"})


class Hostile:
    """The ports of an SSH server that misbehaves on demand, one a behaviour (tests/hostile)."""

    secret = "open sesame 4711"
    """What its behaviour `secrets` says besides texts that have the form of secrets."""

    def __init__(self, folder: Path, ports: Mapping[str, int]) -> None:
        self.folder = folder
        self.ports = ports

    def entry(self, behaviour: str, **fields: object) -> dict[str, Any]:
        """Return the inventory's entry of the host that behaves so."""
        return {
            "roles": ["serving"],
            "address": "127.0.0.1",
            "port": self.ports[behaviour],
            "user": "kvgate",
            "key": {"file": str(self.folder / "client_key")},
            "known_hosts": str(self.folder / "known_hosts"),
            "connect_timeout": "2 s",
            **fields,
        }

    def host(self, behaviour: str, **fields: object) -> Host:
        """Return the host that behaves so, under the behaviour's name."""
        host = Host.model_validate(self.entry(behaviour, **fields))
        return host.model_copy(update={"name": behaviour})


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    """Start the SSH server that misbehaves, in a process of its own, for as long as tests run."""
    folder = tmp_path_factory.mktemp("hostile")
    program = Path(__file__).parent / "hostile" / "server.py"
    with subprocess.Popen(
        [sys.executable, str(program), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "HOSTILE_SAYS": Hostile.secret},
    ) as server:
        if server.stdin is None or server.stdout is None:
            raise RuntimeError("no pipes")
        yield Hostile(folder, json.loads(server.stdout.readline()))
        server.stdin.close()
        server.wait(30)
