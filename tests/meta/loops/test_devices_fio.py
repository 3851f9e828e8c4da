"""fio on loop devices: what it writes, what it refuses, what it only reads, and whole gates."""

from __future__ import annotations

import dataclasses
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvgate.spec.inventory import Host
from kvgate.spec.workload import FioWorkload
from kvgate.transport.ssh import SshTransport
from kvgate.workloads import fio_device
from kvgate.workloads.devices import Consent, DeviceRefusedError

if TYPE_CHECKING:
    from conftest import Lab, Site  # the loop device of this folder, the small site of meta

pytestmark = [pytest.mark.fio, pytest.mark.whole]

LOAD = FioWorkload.model_validate(
    {
        "rounds": 1,
        "ramp": "0 s",
        "runtime": "1 s",
        "size": "9 MB",
        "token": "4096 B",
        "ranks": 2,
        "jobs": ["kv-restore"],
    }
)


def test_fio_writes_a_cleared_device_and_says_whose_data_is_left(lab: Lab) -> None:
    [disk] = lab.witness.host.declared.disks
    before = lab.digest()
    with fio_device.prepare(lab.witness, disk, LOAD, lab.YES, places=lab.places) as place:
        answer = fio_device.run(lab.witness, "kv-restore", workload=LOAD, place=place, disk=disk)
    told = {reading.name: reading.value for reading in answer.readings}
    assert (told["fio.left_behind"], told["fio.direct"]) == ("ours", True)
    assert told["fio.errors"] == told["fio.errors"].of(0, "")  # type: ignore[union-attr]
    assert lab.digest() != before
    assert not list((lab.folder / "scratch").iterdir())
    lab.clear()  # what fio left has no signature: it may be written again


def test_fio_does_not_start_on_what_came_into_use(lab: Lab) -> None:
    [disk] = lab.witness.host.declared.disks
    with fio_device.prepare(lab.witness, disk, LOAD, lab.YES, places=lab.places) as place:
        lab.run("mkswap", lab.loop)
        before = lab.digest()
        with pytest.raises(DeviceRefusedError, match="swap"):
            fio_device.run(lab.witness, "kv-restore", workload=LOAD, place=place, disk=disk)
        assert lab.digest() == before


def test_fio_reads_a_device_that_is_not_destructive_and_in_use(lab: Lab) -> None:
    lab.declare(destructive=False)
    [disk] = lab.witness.host.declared.disks
    lab.run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", lab.loop)
    (lab.folder / "mnt").mkdir()
    lab.run("mount", "-o", "ro", lab.loop, lab.folder / "mnt")
    try:
        before = lab.digest()
        with fio_device.prepare(lab.witness, disk, LOAD, Consent(), places=lab.places) as place:
            answer = fio_device.run(
                lab.witness, "kv-restore", workload=LOAD, place=place, disk=disk
            )
        assert lab.digest() == before
        told = {reading.name: reading.value for reading in answer.readings}
        assert told["fio.left_behind"] == "as found"
        stores = LOAD.model_copy(update={"jobs": ["kv-store"]})
        with (
            pytest.raises(DeviceRefusedError, match="destructive"),
            fio_device.prepare(lab.witness, disk, stores, Consent(), places=lab.places),
        ):
            pass
        assert lab.digest() == before
    finally:
        lab.run("umount", lab.folder / "mnt")


@pytest.mark.sshd
def test_a_device_is_written_over_ssh_and_let_go_when_fio_is_ended(
    lab: Lab, ssh_host: Host
) -> None:
    here = lab.witness.host
    told = {"tools": here.tools, "declared": here.declared, "scratch": here.scratch}
    over = SshTransport(ssh_host)
    lab.witness = dataclasses.replace(
        lab.witness, transport=over, host=ssh_host.model_copy(update={**told, "name": "box"})
    )
    try:
        before = lab.digest()
        lab.write(lab.clear())
        assert lab.digest() != before
        command = ["sh", "-c", "echo started; exec sleep 300"]
        began = threading.Event()
        process = over.start(
            lab.clear().guarded(command), deadline_s=200, on_stdout=lambda _: began.set()
        )
        assert began.wait(60)
        assert "can't be opened exclusively: EBUSY" in lab.refused()
        process.stop()
        lab.write(lab.clear())
    finally:
        over.close()


PLAN = """\
plan: small
title: A small site
profile: rehearsal
seed: 7
gates: [{gate: G2, suite: suites/g2, give_up_after: 60 s}]
workloads:
  fio_arms:
    arms: [device]
    rounds: 1
    ramp: 0 s
    runtime: 1 s
    size: 9 MB
    token: 4096 B
    ranks: 2
    jobs: [kv-restore, kv-store]
"""
INVENTORY = """\
inventory: small
hosts:
  here:
    roles: [serving]
    transport: local
    scratch: {scratch}
    tools: {{lsblk: {lsblk}, python3: {python}}}
    arms: {{device: {{disk: {serial}}}}}
    declared: {{disks: [{{serial: {serial}, size: {size} B, destructive: true}}]}}
"""
MEASURES = {
    "G2.30": ("arms.errors", "{equals: 0}"),
    "G2.31": ("arms.place", "{equals: disk KVGATE-LOOP-1}"),
    "G2.32": ("arms.left_behind", "{equals: ours}"),
    "G2.33": ("arms.direct", "{equals: true}"),
    "G2.34": ("arms.direct", "{equals: true}"),
}


def test_the_gates_own_suite_writes_a_device_only_with_consent(lab: Lab, site: Site) -> None:
    """The suite as it is shipped; only where it looks for /sys is changed."""
    site.gate("G2", MEASURES, "")
    gate = site.root / "gates/g2-small.yaml"
    gate.write_text(gate.read_text().replace("inspection", "steady_state"))
    shipped = Path(__file__).resolve().parents[3] / "suites/g2_paths/test_fio_arms.py"
    seam = f"devices.Places = functools.partial(devices.Places, sys={lab.places.sys!r})\n"
    suite = shipped.read_text() + f"\n\nfrom kvgate.workloads import devices\n{seam}"
    (site.root / "suites/g2/test_small.py").write_text(suite)
    (site.root / "gates/plans/rehearsal.yaml").write_text(PLAN)
    (site.root / "inventory/local/this-machine.yaml").write_text(
        INVENTORY.format(
            scratch=lab.folder / "scratch",
            lsblk=lab.folder / "lsblk",
            python=sys.executable,
            serial=lab.SERIAL,
            size=lab.SIZE,
        )
    )
    before = lab.digest()
    refused = site.kvgate("run")
    assert refused.returncode == 2, refused.stderr
    assert "--yes-destroy KVGATE-LOOP-1 was not given" in str(site.events("attempt"))
    assert lab.digest() == before
    done = site.kvgate("run", "--yes-destroy", lab.SERIAL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {found["verdict"] for found in site.findings().values()} == {"pass"}
    assert lab.digest() != before
    assert (
        site.kvgate("record", site.newest().name, "--out", "inventory/recorded/x").returncode == 0
    )
    lab.detach()  # what was recorded is replayed without any device
    told = ("--plan", "inventory/recorded/x/plan.yaml")
    told += ("--inventory", "inventory/recorded/x/inventory.yaml")
    replayed = site.kvgate("run", *told, "--yes-destroy", lab.SERIAL)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
