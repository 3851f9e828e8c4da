"""The lab as such: from nothing to two paths, one lost and found again, and nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from kvgate.lab import process

if TYPE_CHECKING:
    from conftest import Running  # of this folder

NQN = "nqn.2026-11.lab:array1"
PATHS = f"""
for s in /sys/class/nvme-subsystem/nvme-subsys*; do
    [[ $(<$s/subsysnqn) == {NQN} ]] || continue
    for c in $s/nvme*; do
        [[ -e $c/transport ]] || continue
        a=$(<$c/address); a=${{a#traddr=}}
        echo "${{a%%,*}} $(<$c/transport) $(<$c/state)"
    done
done | sort
"""
DEVICE = f"""
for s in /sys/class/nvme-subsystem/nvme-subsys*; do
    [[ $(<$s/subsysnqn) == {NQN} ]] || continue
    for n in $s/nvme*n1; do echo /dev/${{n##*/}}; done
done
"""
BOTH = ["10.77.1.1 tcp live", "10.77.2.1 tcp live"]


def paths(lab: Running) -> list[str]:
    return lab.sh("ini", PATHS).splitlines()


def until(holds: Callable[[], bool], limit_s: float = 300) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.5)


@pytest.fixture
def fresh(lab: Running) -> Iterator[Running]:
    """Return another lab, which is not up; removed afterwards."""
    running = lab.other(f"{lab.places.name}-b")
    yield running
    running.lab.destroy()
    assert running.processes() == []


def test_both_paths_are_live_and_a_lost_one_comes_back(lab: Running) -> None:
    assert paths(lab) == BOTH
    device = lab.sh("ini", DEVICE).strip()
    assert device.startswith("/dev/nvme")
    for fault, lost in (("cable-a", "10.77.1.1"), ("port-tcp-b", "10.77.2.1")):
        done = lab.kvgate("fault", fault)
        assert done.returncode == 0, done.stderr
        until(lambda lost=lost: f"{lost} tcp live" not in paths(lab))
        random = "dd if=/dev/urandom of=/tmp/data bs=64k count=4"
        wrote = f"dd if=/tmp/data of={device} bs=64k oflag=direct"
        lab.sh("ini", f"{random}; {wrote}; cmp -n 262144 /tmp/data {device}")
        assert len([each for each in paths(lab) if each.endswith(" live")]) == 1
        done = lab.kvgate("fault", fault, "--undo")
        assert done.returncode == 0, done.stderr
        until(lambda: paths(lab) == BOTH)


def test_status_names_what_runs_and_what_was_killed_and_up_starts_it_again(lab: Running) -> None:
    told = lab.kvgate("status")
    assert told.returncode == 0
    assert f"inventory: {lab.places.inventory}" in told.stdout
    pid = process.running(lab.places.of("ini"))
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: process.running(lab.places.of("ini")) is None)
    told = lab.kvgate("status")
    assert told.returncode == 2
    assert "ini: down" in told.stdout
    assert "tgt: up" in told.stdout
    up = lab.kvgate("up")
    assert up.returncode == 0, up.stderr
    assert "tgt is up already" in up.stderr
    until(lambda: paths(lab) == BOTH)


def test_a_sigkill_of_up_leaves_what_down_finds(fresh: Running) -> None:
    with subprocess.Popen(fresh.command("up"), stderr=subprocess.DEVNULL) as child:
        until(lambda: process.running(fresh.places.of("tgt")) is not None)
        child.kill()
    assert fresh.processes()
    down = fresh.kvgate("down")
    assert down.returncode == 0, down.stderr
    assert "ended: tgt" in down.stdout
    assert fresh.processes() == []
    assert (fresh.places.of("tgt") / "data.img").exists()
    assert not (fresh.places.of("tgt") / "pid").exists()
