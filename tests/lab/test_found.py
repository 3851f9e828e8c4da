"""What is wrong behind the paths is found by a run, by itself: flaps, wrong data, lost writes."""

from __future__ import annotations

import contextlib
import shlex
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from conftest import Findings, Running, Workspace  # of this folder

pytestmark = pytest.mark.timeout(1200)

NQN, SERIAL = "nqn.2026-11.lab:array1", "LAB0000000000001"
JUDGED = {f"G2.{n}" for n in range(170, 188)} - {"G2.183", "G2.184"}
EVERY_S = 20.0
Run = Callable[..., "Findings"]


@pytest.fixture
def judged(lab: Running, workspace: Callable[..., Workspace], tmp_path: Path) -> Iterator[Run]:
    """Yield a function that runs G2's faults on the lab, and returns criterion → finding."""

    def run(faults: list[str], quiet: str, **changed: dict[str, object]) -> Findings:
        load = {
            "nqn": NQN, "serial": SERIAL, "size": "2 MiB", "block": "16 KiB", "rate": 60,
            "quiet": quiet, "lead": "2 s", "hold": "2 s", "after": "4 s", "faults": faults,
        }  # fmt: skip
        site = workspace(tmp_path / "site", ("test_failover.py",), JUDGED, {"failover": load})
        told: dict[str, Any] = yaml.safe_load(lab.places.inventory.read_text("utf-8"))
        for fault in told["faults"]:
            fault["on"] = fault.pop(True)  # what PyYAML takes `on` for
            fault.update(changed.get(fault["fault"].replace("-", "_"), {}))
        return site.run(told, "--yes-destroy", SERIAL)

    yield run
    connect(lab)


def connect(lab: Running) -> None:
    lab.sh("ini", "/lab/connect.sh off >/dev/null 2>&1 || true; /lab/connect.sh tcp")


def failed(found: Findings) -> set[str]:
    return {key for key, finding in found.items() if finding["verdict"] == "fail"}


def told(found: Findings) -> dict[str, str]:
    return {key: f"{each['verdict']}: {each['because']}" for key, each in found.items()}


@contextlib.contextmanager
def flapping(lab: Running) -> Iterator[None]:
    """Take port B of the target away every 20 s for the block."""
    over = threading.Event()

    def flap() -> None:
        while not over.is_set():
            began = time.monotonic()
            lab.kvgate("fault", "port-tcp-b")
            lab.kvgate("fault", "port-tcp-b", "--undo")
            over.wait(began + EVERY_S - time.monotonic())

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_path_that_flaps_every_20_s_is_found(lab: Running, judged: Run) -> None:
    with flapping(lab):
        found = judged(["ana-a"], "25 s")
    assert "G2.185" in failed(found), told(found)
    assert found["G2.186"]["verdict"] == "pass", told(found)


LIES = """
/lab/nvmet.sh down
sectors=$(blockdev --getsz $(/lab/nvmet.sh device LAB-TGT-DATA))
dmsetup create lies --table "0 $sectors linear $(/lab/nvmet.sh device LAB-TGT-DATA) 0"
DEVICE=/dev/mapper/lies /lab/nvmet.sh up both
"""
HONEST = "/lab/nvmet.sh down; dmsetup remove lies; /lab/nvmet.sh up both"
TURN = """#!/bin/bash
set -eu
dmsetup suspend lies
dmsetup reload lies --table \
    "0 $(blockdev --getsz /dev/mapper/lies) flakey $(/lab/nvmet.sh device LAB-TGT-DATA) 0 $*"
dmsetup resume lies
"""
TURNED = "/var/tmp/kvgate/turn.sh"
WRONG_BYTE = ("0", "600", "5", "corrupt_bio_byte", "40", "r", "1", "0")
LOST_WRITES = ("0", "600", "1", "drop_writes")


@pytest.fixture
def lying(lab: Running) -> Iterator[Running]:
    """Return the lab with a target whose drive can be made to lie; it begins honest."""
    lab.sh("ini", "/lab/connect.sh off >/dev/null 2>&1 || true")
    lab.sh(
        "tgt", f"cat >{TURNED} <<'END'\n{TURN}END\nchmod +x {TURNED}; modprobe dm-flakey; {LIES}"
    )
    connect(lab)
    yield lab
    lab.sh("ini", "/lab/connect.sh off >/dev/null 2>&1 || true")
    lab.sh("tgt", f"if dmsetup info lies >/dev/null 2>&1; then {HONEST}; fi")
    connect(lab)


def executable(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", "set -eu", *lines, ""]), "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_target_that_returns_wrong_data_is_found(
    lying: Running, judged: Run, tmp_path: Path
) -> None:
    """From the first fault on, reads have a wrong byte: the fault brings it along."""
    turn = shlex.join(lying.command("ssh", "tgt", TURNED, *WRONG_BYTE))
    own = shlex.join(lying.command("fault", "ana-tcp-a"))
    do = executable(tmp_path / "do", turn, own)
    found = judged(["ana-a"], "3 s", ana_a={"do": [do]})
    assert "G2.173" in failed(found), told(found)
    assert found["G2.186"]["verdict"] == "pass", told(found)


def test_a_write_that_is_lost_after_it_was_acknowledged_is_found(
    lying: Running, judged: Run, tmp_path: Path
) -> None:
    """The array's cache acknowledges for 3 s what it then loses with its power."""
    turn = shlex.join(lying.command("ssh", "tgt", TURNED, *LOST_WRITES))
    own = shlex.join(lying.command("fault", "reset-tgt"))
    do = executable(tmp_path / "do", turn, "sleep 3", own)
    found = judged(["power"], "3 s", power={"do": [do]})
    assert "G2.182" in failed(found), told(found)
    assert found["G2.170"]["verdict"] == found["G2.171"]["verdict"] == "pass", told(found)
