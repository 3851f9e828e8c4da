"""Faults under verified load on real paths: each happens, is proven, and what is planted is found.

Times of an emulated CPU say nothing: the order of events and the absence of errors are asserted.
"""

import contextlib
import dataclasses
import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvgate.engine import failover
from kvgate.engine.failover import Under
from kvgate.model.quantity import Quantity
from kvgate.spec.failover import FailoverWorkload
from kvgate.spec.faults import FaultTemplate, PathTaken, filled
from kvgate.telemetry.paths import PathWatch
from kvgate.transport.connect import Connections
from kvgate.witness import Answer, Witness
from kvgate.workloads import acknowledged
from kvgate.workloads import failover as load
from kvgate.workloads.devices import Consent

NQN = "nqn.2026-11.lab:array1"
SERIAL = "LAB0000000000001"
TOLD = (contextlib.nullcontext, None, None)
NONE = Quantity.of(0, "")


class Bench:
    """The lab's initiator under load, and its faults by name."""

    def __init__(self, lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.inventory = lab.inventory
        self.connections = Connections(self.inventory)
        self.events: list[str] = []

    def witness(self, name: str) -> Witness:
        host = self.inventory.hosts[name]
        return Witness(host, self.connections.to(host), lambda _: os.urandom(32).hex())

    def template(self, name: str, **fields: object) -> FaultTemplate:
        [found] = [each for each in self.inventory.faults if each.fault == name]
        return filled(found.model_copy(update=fields), None)

    @contextlib.contextmanager
    def load(self, size_bytes: int | None = None, **fields: object) -> Iterator[Under]:
        """Give a load on the multipath device (of another size than declared), written whole."""
        workload = FailoverWorkload.model_validate(
            {"nqn": NQN, "serial": SERIAL, "faults": ["x"], "size": "2 MiB", "block": "16 KiB",
             "rate": 60, "quiet": "3 s", "lead": "2 s", "hold": "3 s", "after": "4 s", **fields}
        )  # fmt: skip
        ini = self.witness("ini")
        [disk] = [each for each in ini.host.declared.disks if each.serial == SERIAL]
        if size_bytes is not None:
            disk = disk.model_copy(update={"size": Quantity.of(size_bytes, "B")})
            declared = ini.host.declared.model_copy(update={"disks": [disk]})
            host = ini.host.model_copy(update={"declared": declared})
            ini = dataclasses.replace(ini, host=host)
        consent = Consent(frozenset({SERIAL}), frozenset({disk.id}))
        self.events.clear()
        with load.prepare(ini, workload, disk, consent, seed=7, told=TOLD) as place:
            yield Under(
                witness=ini,
                workload=workload,
                place=place,
                watching=functools.partial(PathWatch, ini, NQN, every_s=0.25),
                told=TOLD,
                folder=self.folder / "standing",
                run="lab",
                journal=lambda kind, *_: self.events.append(kind),
            )

    def suffer(self, name: str, **fields: object) -> dict[str, object]:
        """Do a fault under fio and return what it came to; also that its events were in order."""
        template = self.template(name, **fields)
        with self.load() as under:
            found = values(failover.under_fio(under, template, self.witness(template.on)))
        assert self.events == ["fault_begin", "fault_proven", "fault_undone", "fault_repaired"]
        return found

    def written(self, name: str) -> dict[str, object]:
        """Do a fault under acknowledged writes and return what became of them."""
        template = self.template(name)
        with (
            self.load() as under,
            acknowledged.writer(
                under.witness, look=under.place.look, path=lambda _: under.place.data.path,
                block_bytes=16384, size_bytes=2**21, seed=11,
            ) as writer,
        ):  # fmt: skip
            on = self.witness(template.on)
            return values(failover.under_writer(under, template, on, writer))


def values(answer: Answer) -> dict[str, object]:
    return {
        each.name.removeprefix("failover."): each.problem or each.value for each in answer.readings
    }


@pytest.fixture
def bench(lab, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(lab, tmp_path)
    yield made
    made.connections.close()


def connect(lab, transport: str, **environment: str) -> None:
    words = " ".join(f"{name}={value}" for name, value in environment.items())
    lab.sh(
        "ini", f"/lab/connect.sh off >/dev/null 2>&1 || true; {words} /lab/connect.sh {transport}"
    )


def unharmed(found: dict[str, object]) -> bool:
    wanted = {"proven": True, "repaired": True, "io_errors": NONE, "verify_errors": NONE}
    return {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("fault", ["cable-a", "port-a", "ana-a", "flap-b"])
def test_a_path_of_tcp_is_lost_and_comes_back_without_an_error(bench: Bench, fault: str) -> None:
    found = bench.suffer(fault)
    assert unharmed(found), found
    assert found["left_after"].base > 0
    assert found["flaps"] == NONE


@pytest.mark.parametrize("fault", ["cable-a", "port-rdma-a", "ana-rdma-a"])
def test_a_path_of_rdma_is_lost_and_comes_back_without_an_error(bench: Bench, fault: str) -> None:
    connect(bench.lab, "rdma")
    try:
        takes = [PathTaken(address="10.77.1.1", transport="rdma")]
        base = bench.template("ana-a" if fault.startswith("ana") else "cable-a")
        words = [word.replace("cable-a", fault).replace("ana-tcp-a", fault) for word in base.do]
        changed = {"do": words, "undo": [*words, "--undo"], "takes": takes}
        template = base.model_copy(update=changed)
        with bench.load() as under:
            found = values(failover.under_fio(under, template, bench.witness("labhost")))
        assert unharmed(found), found
    finally:
        connect(bench.lab, "tcp")


def test_io_goes_on_by_itself_after_all_paths_were_lost_for_a_short_time(bench: Bench) -> None:
    found = bench.suffer("both-within")
    assert unharmed(found), found
    assert found["resumed"] is True


def test_a_target_that_restarts_holds_io_until_it_serves_again(bench: Bench) -> None:
    connect(bench.lab, "tcp", FAST="300")  # I/O waits so long: a restart takes its time
    try:
        takes = [PathTaken(address=each, transport="tcp") for each in ("10.77.1.1", "10.77.2.1")]
        template = bench.template("power", kind="target_restart", takes=takes)
        with bench.load() as under:
            found = values(failover.under_fio(under, template, bench.witness("labhost")))
        assert unharmed(found), found
        assert found["flaps"] == NONE
    finally:
        connect(bench.lab, "tcp")


def test_all_paths_lost_for_too_long_end_in_a_clear_error_and_no_wrong_data(bench: Bench) -> None:
    found = bench.written("both-beyond")
    assert (found["clear_error"], found["lost_writes"], found["wrong_data"]) == (True, NONE, NONE)
    assert found["io_errors"] > NONE


def test_every_acknowledged_write_outlives_a_loss_of_power(bench: Bench) -> None:
    found = bench.written("power")
    assert (found["proven"], found["lost_writes"], found["wrong_data"]) == (True, NONE, NONE)
    assert found["acknowledged"] > NONE


def test_one_path_used_of_two_is_found(bench: Bench) -> None:
    connect(bench.lab, "tcp", POLICY="numa")
    try:
        with bench.load() as under:
            found = values(failover.quiet(under))
        assert found["least_share"].to("%") < 20
    finally:
        connect(bench.lab, "tcp")


RAID = r"""#!/bin/bash
set -eu
node() { for c in /sys/class/nvme/nvme*; do
  if [ "$(tr -d ' ' <$c/serial)" = "$1" ]; then echo /dev/${c##*/}n1; fi; done; }
case $1 in
make) yes | mdadm --create /dev/md/lab --run --assume-clean --level=1 --raid-devices=2 \
    --bitmap=none --metadata=1.2 $(node LAB-TGT-RAID0) $(node LAB-TGT-RAID1); /lab/nvmet.sh down
  DEVICE=$(readlink -f /dev/md/lab) /lab/nvmet.sh up both ;;
pull) echo 200000 >/proc/sys/dev/raid/speed_limit_min # else 1 MB/s beside other I/O (md(4))
  mdadm /dev/md/lab --fail $(node LAB-TGT-RAID1) --remove $(node LAB-TGT-RAID1) ;;
push) mdadm --detail /dev/md/lab | grep -q $(node LAB-TGT-RAID1) || {
    wipefs -qa $(node LAB-TGT-RAID1); mdadm /dev/md/lab --add $(node LAB-TGT-RAID1); } ;;
degraded) mdadm --detail /dev/md/lab | grep -q degraded ;;
clean) ! mdadm --detail /dev/md/lab | grep -Eq 'State :.*(degraded|recovering|resync)' ;;
gone) /lab/nvmet.sh down; mdadm --stop /dev/md/lab; /lab/nvmet.sh up both ;;
esac
"""


def test_a_drive_is_pulled_and_rebuilt_under_load(bench: Bench) -> None:
    lab, script = bench.lab, "/var/tmp/kvgate/raid.sh"
    lab.sh("ini", "/lab/connect.sh off >/dev/null 2>&1 || true")
    lab.sh("tgt", f"mkdir -p /var/tmp/kvgate; cat >{script} <<'END'\n{RAID}END\nchmod +x {script}")
    lab.sh("tgt", f"modprobe raid1; {script} make")
    connect(lab, "tcp")
    template = FaultTemplate.model_validate(
        {"fault": "drive", "kind": "drive_pulled", "on": "tgt", "do": [script, "pull"],
         "undo": [script, "push"], "prove": [script, "degraded"], "proved_back": [script, "clean"],
         "within": "60 s", "back_within": "10 min"}
    )  # fmt: skip
    sizes = "for s in /sys/class/nvme-subsystem/*; do grep -q array1 $s/subsysnqn && "
    size = int(lab.sh("ini", sizes + "cat $s/nvme*n1/size; done; true").split()[0]) * 512
    try:
        with bench.load(size_bytes=size) as under:
            found = values(failover.under_fio(under, template, bench.witness("tgt")))
        assert unharmed(found), found
        assert bench.events[-1] == "fault_repaired"
    finally:
        lab.sh("ini", "/lab/connect.sh off >/dev/null 2>&1 || true")
        lab.sh("tgt", f"{script} gone")
        connect(lab, "tcp")


KILLED = """
import os, sys
from pathlib import Path
from kvgate.faults import guard
from kvgate.spec.load import load_inventory
from kvgate.transport.connect import Connections
from kvgate.witness import Witness
inventory = load_inventory(Path(sys.argv[1])).value
host = inventory.hosts["tgt"]
witness = Witness(host, Connections(inventory).to(host), lambda _: "0" * 64)
with guard.armed(
    witness, ["/lab/nvmet.sh", "ana", "1", "optimized"], within_s=60, deadline_s=600
):
    guard.run(witness, ["/lab/nvmet.sh", "ana", "1", "inaccessible"], within_s=60).expect_ok()
    os.kill(os.getpid(), 9)
"""


def test_a_controller_that_was_killed_leaves_no_fault(bench: Bench) -> None:
    inventory = str(bench.lab.places.inventory)
    done = subprocess.run([sys.executable, "-c", KILLED, inventory], timeout=300, check=False)
    assert done.returncode == -9
    state = "cat /sys/kernel/config/nvmet/ports/1/ana_groups/1/ana_state"
    until = time.monotonic() + 120
    while (told := bench.lab.sh("tgt", state).strip()) != "optimized" and time.monotonic() < until:
        time.sleep(0.5)
    assert told == "optimized"
    assert bench.lab.sh("tgt", "ls -d /tmp/kvgate-fault-* 2>/dev/null | wc -l").strip() == "0"
