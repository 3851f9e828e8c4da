"""The lab for tests: built if need be, up for as long as tests run, and gone without a trace."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvgate.errors import CommandError
from kvgate.lab import image
from kvgate.lab.guests import Guests
from kvgate.lab.machines import Lab
from kvgate.lab.places import Places, places
from kvgate.spec.inventory import Inventory
from kvgate.spec.load import load_inventory

ROOT = Path(__file__).resolve().parents[2]
NAME = f"test-{os.getpid()}"
PLANNED = ("--plan", "gates/plans/lab.yaml", "--inventory", "inventory/lab.yaml")
Findings = dict[str, dict[str, Any]]


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


class Workspace:
    """A user's workspace, with G2 as it is, of which some tests and criteria are asked for."""

    def __init__(
        self, root: Path, tests: tuple[str, ...], judged: set[str], workloads: dict[str, Any]
    ) -> None:
        self.root = root
        for folder in ("gates/plans", "suites/g2", "inventory"):
            (root / folder).mkdir(parents=True)
        shutil.copytree(ROOT / "templates", root / "templates")
        for name in tests:
            shutil.copy(ROOT / "suites/g2_paths" / name, root / "suites/g2" / name)
        gate = yaml.safe_load((ROOT / "gates/g2-paths.yaml").read_text("utf-8")) | {"entry": []}
        others = [each["id"] for each in gate["criteria"] if each["id"] not in judged]
        (root / "gates/g2.yaml").write_text(yaml.safe_dump(gate, sort_keys=False), "utf-8")
        plan = {
            "plan": "lab",
            "title": "A part of G2 in the lab",
            "profile": "lab",
            "seed": 7,
            "gates": [{"gate": "G2", "suite": "suites/g2", "give_up_after": "15 min"}],
            "workloads": workloads,
            "scope_out": [{"criteria": others, "reason": "not asked for here"}],
        }
        (root / "gates/plans/lab.yaml").write_text(yaml.safe_dump(plan), "utf-8")

    def run(self, inventory: dict[str, Any], *words: str) -> Findings:
        """Run the gate on `inventory` as a user does, and return criterion → finding."""
        (self.root / "inventory/lab.yaml").write_text(yaml.safe_dump(inventory), "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "kvgate", "run", *PLANNED, *words],
            cwd=self.root, capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        name = re.findall(r"report: runs/([^/\s]+)/report", done.stdout)
        assert name, done.stdout[-3000:] + done.stderr[-2000:]
        gates = json.loads((self.root / f"runs/{name[-1]}/findings.json").read_bytes())["gates"]
        return {each["criterion"]: each for gate in gates for each in gate["findings"]}


@pytest.fixture(scope="session")
def workspace() -> Callable[..., Workspace]:
    """Return what makes a workspace: a folder, tests of G2's, criteria, workloads of the plan."""
    return Workspace
