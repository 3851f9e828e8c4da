"""A host that is none: a folder for /sys with the paths of a subsystem, and commands on it."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvgate.spec.inventory import Host, Role
from kvgate.telemetry.paths import PathWatch
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness

NQN = "nqn.2026-11.lab:array1"
ADDRESSES = {"nvme3": "10.77.1.1", "nvme4": "10.77.2.1"}


class FakePaths:
    """Two TCP paths to a subsystem below a folder, and scripts that break and repair them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sys = folder / "sys"
        self.subsystem = self.sys / "class/nvme-subsystem/nvme-subsys3"
        self.subsystem.mkdir(parents=True)
        (self.subsystem / "subsysnqn").write_text(f"{NQN}\n")
        for number, name in enumerate(ADDRESSES, 1):
            self.controller(name, ADDRESSES[name], number)

    def controller(self, name: str, address: str, number: int) -> None:
        """Make a live path."""
        at = self.subsystem / name
        path = at / f"nvme3c{number}n1"
        path.mkdir(parents=True)
        (at / "transport").write_text("tcp\n")
        (at / "address").write_text(f"traddr={address},trsvcid=4420,src_addr=10.77.9.9\n")
        (at / "state").write_text("live\n")
        (path / "ana_state").write_text("optimized\n")
        self.count(name, 0)

    def state(self, name: str, state: str) -> None:
        (self.subsystem / name / "state").write_text(f"{state}\n")

    def count(self, name: str, ios: int) -> None:
        [path] = (self.subsystem / name).glob("nvme3c*n1")
        (path / "stat").write_text(f"{ios} 0 0 0 {ios} 0 0 0 0 0 0\n")

    def script(self, name: str, text: str) -> str:
        """Return the path of a command that does `text`."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def setting(self, name: str, state: str, controller: str = "nvme3") -> str:
        """Return a command that puts a path into `state`."""
        return self.script(name, f"echo {state} >{self.subsystem}/{controller}/state")


@pytest.fixture
def fake(tmp_path: Path) -> FakePaths:
    return FakePaths(tmp_path)


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Witness]:
    transport = LocalTransport("ini")
    host = Host(roles=[Role.SERVING], transport="local", name="ini", scratch=str(tmp_path))
    yield Witness(host, transport, lambda _: os.urandom(32).hex())
    transport.close()


@pytest.fixture
def watching(fake: FakePaths, witness: Witness) -> Callable[[], PathWatch]:
    return lambda: PathWatch(witness, NQN, every_s=0.05, sys=str(fake.sys))
