"""The lab for tests: built if need be, up for as long as tests run, and gone without a trace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvgate.errors import CommandError
from kvgate.lab import image
from kvgate.lab.guests import Guests
from kvgate.lab.machines import Lab
from kvgate.lab.places import Places, places
from kvgate.spec.inventory import Inventory
from kvgate.spec.load import load_inventory

ROOT = Path(__file__).resolve().parents[2]
NAME = f"test-{os.getpid()}"


def say(line: str) -> None:
    sys.stderr.write(f"  lab: {line}\n")


class Running:
    """A lab that is up: its command line, and its guests asked by SSH."""

    def __init__(self, where: Places) -> None:
        self.places = where
        self.lab = Lab(where, say)
        self._asked: tuple[dict[str, int], Guests] | None = None

    def command(self, *words: str) -> list[str]:
        """Return the command line of `kvgate lab` for this lab."""
        return [sys.executable, "-m", "kvgate", "lab", "--name", self.places.name, *words]

    def kvgate(self, *words: str, timeout_s: float = 400) -> subprocess.CompletedProcess[str]:
        """Run `kvgate lab` on this lab, and return how it ended."""
        return subprocess.run(
            self.command(*words),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def other(self, name: str) -> Running:
        """Return another lab, of that name."""
        return Running(places(name))

    def processes(self) -> list[str]:
        """Return the command lines of all processes that run in the lab's state folder."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                at, words = (each / "cwd").readlink(), (each / "cmdline").read_bytes()
            except OSError:
                continue
            if at.is_relative_to(self.places.state):
                found.append(words.replace(b"\0", b" ").decode("utf-8", "replace"))
        return found

    def sh(self, vm: str, script: str, timeout_s: float = 240) -> str:
        """Run a shell script in a guest and return what it printed; raises CommandError."""
        told = self.guests.run(vm, ["bash", "-euc", script], timeout_s=timeout_s)
        return told.stdout.decode("utf-8", "replace")

    @property
    def guests(self) -> Guests:
        """Return the guests, whose connections stay open between questions."""
        ports = self.lab.ports()
        if self._asked is None or self._asked[0] != ports:
            self.hang_up()
            self._asked = (ports, self.lab.guests())
        return self._asked[1]

    def hang_up(self) -> None:
        """Close the connections to the guests."""
        if self._asked is not None:
            self._asked[1].__exit__()
            self._asked = None

    def fails(self, vm: str, script: str) -> bool:
        """Tell whether a shell script ends badly in a guest."""
        try:
            self.sh(vm, script)
        except CommandError:
            return True
        return False

    @property
    def inventory(self) -> Inventory:
        """Return the inventory that `up` wrote."""
        return load_inventory(self.places.inventory).value


@pytest.fixture(scope="session")
def built() -> Places:
    """Return the places of this session's lab, whose image is there: nothing is skipped."""
    where = places(NAME)
    image.build(where, say)
    return where


@pytest.fixture(scope="session")
def lab(built: Places) -> Iterator[Running]:
    """Return a lab that is up and connected by TCP; all of it is removed afterwards."""
    running = Running(built)
    try:
        running.lab.up()
        yield running
    finally:
        running.hang_up()
        running.lab.destroy()
    assert running.processes() == []
    assert not built.state.exists()
