"""G2's path part on real initiators: what is wrong in the lab is found by itself, by a run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from conftest import Findings, Running, Workspace  # of this folder

pytestmark = pytest.mark.timeout(1500)

NQN = "nqn.2026-11.lab:array1"
HOST_NQN = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002"
HOST_ID = "00000000-0000-4000-8000-000000000002"
JUDGED = {f"G2.{n}" for n in (*range(100, 121), 140, 141, 142, 143)}
POLICY = (
    "for s in /sys/class/nvme-subsystem/*; do "
    f'if [[ $(<"$s/subsysnqn") == {NQN} ]]; then echo %s >"$s/iopolicy"; fi; done'
)
Run = Callable[[], "Findings"]


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, workspace: Callable[..., Workspace]
) -> Workspace:
    """Return a workspace with the path part of G2 alone: no perftest, reads of 6 s."""
    reads = {"runtime": "6 s", "block": "4 KiB", "jobs": 4, "least": "32 KiB"}
    root = tmp_path_factory.mktemp("paths")
    return workspace(root, ("test_nvmeof.py", "test_roce.py"), JUDGED, {"paths": reads})


@pytest.fixture
def judged(lab: Running, site: Workspace) -> Iterator[Run]:
    """Yield a function that runs the gate on the lab and returns criterion → finding."""
    lab.sh("ini", "/lab/nvmet.sh rxe")
    told = yaml.safe_load(lab.places.inventory.read_text("utf-8"))
    del told["faults"]  # none is done here
    told["hosts"]["tgt"]["roles"] = ["serving"]  # a second initiator, of its own target
    told["hosts"]["tgt"]["declared"]["nvmeof"] = [
        {
            "name": "own",
            "nqn": NQN,
            "transport": "tcp",
            "paths": [{"name": "a", "target": "10.77.1.1"}],
        }
    ]
    lab.sh("tgt", f"modprobe nvme-tcp; nvme connect -t tcp -a 10.77.1.1 -s 4420 -n {NQN} {OWN}")
    yield functools.partial(site.run, told)
    lab.sh("tgt", f"nvme disconnect -n {NQN}")


OWN = (
    "--hostnqn nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001 "
    "--hostid 00000000-0000-4000-8000-000000000001"
)


def failed(found: Findings, host: str) -> set[str]:
    return {
        key
        for key, finding in found.items()
        for place in finding["hosts"]
        if place["host"] == host and place["verdict"] == "fail"
    }


def test_a_sound_lab_passes(judged: Run) -> None:
    found = judged()
    assert {each["verdict"] for each in found.values()} == {"pass"}, {
        key: each["because"] for key, each in found.items() if each["verdict"] != "pass"
    }


def test_a_wrong_iopolicy_is_found_by_name_and_by_traffic(lab: Running, judged: Run) -> None:
    lab.sh("ini", POLICY % "numa")
    try:
        found = judged()
    finally:
        lab.sh("ini", POLICY % "round-robin")
    assert failed(found, "ini") == {"G2.104", "G2.120"}


def test_a_missing_path_short_frames_and_a_cloned_host(lab: Running, judged: Run) -> None:
    lab.sh(
        "tgt",
        f"nvme disconnect -n {NQN}; "
        f"nvme connect -t tcp -a 10.77.1.1 -s 4420 -n {NQN} "
        f"--hostnqn {HOST_NQN} --hostid {HOST_ID}",
    )
    lab.sh(
        "ini",
        "for c in /sys/class/nvme/nvme*; do if grep -qs 'traddr=10.77.2.1' $c/address; then "
        "nvme disconnect -d ${c##*/}; fi; done; ip link set dataA mtu 1500",
    )
    try:
        found = judged()
    finally:
        lab.sh("ini", f"ip link set dataA mtu 4200; nvme disconnect -n {NQN}; /lab/connect.sh tcp")
    assert {"G2.100", "G2.114", "G2.115", "G2.119", "G2.120", "G2.142"} <= failed(found, "ini")
    assert {"G2.114", "G2.115"} <= failed(found, "tgt")
    assert "absent on ini (array1/b)" in found["G2.100"]["because"]
    assert "1500 B" in found["G2.119"]["because"]
    assert HOST_NQN in found["G2.114"]["because"]
