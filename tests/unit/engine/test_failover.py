"""Faults under real fio on a file, with paths in a folder: what each of them must be found by."""

import contextlib
import dataclasses
import functools
import itertools
import os
import re
import stat
import threading
import time
from pathlib import Path

import pytest

from kvgate.engine import failover
from kvgate.engine.failover import Under
from kvgate.errors import NotRunError
from kvgate.model.quantity import Quantity
from kvgate.probes import nvmeof
from kvgate.spec.failover import FailoverWorkload
from kvgate.spec.faults import FaultTemplate
from kvgate.spec.inventory import Host, Role
from kvgate.telemetry.paths import PathWatch
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness
from kvgate.workloads import acknowledged
from kvgate.workloads import failover as load
from kvgate.workloads.devices import Consent

pytestmark = pytest.mark.whole

NQN = "nqn.2026-11.lab:array1"
TOLD = (contextlib.nullcontext, None, None)


class Bench:
    """A host that is this machine, with two paths in a folder and a load on a file."""

    def __init__(self, folder: Path, tools: dict[str, str]) -> None:
        self.folder = folder
        self.sys = folder / "sys"
        self.subsystem = self.sys / "class/nvme-subsystem/nvme-subsys3"
        for number, name in enumerate(("nvme3", "nvme4"), 1):
            path = self.subsystem / name / f"nvme3c{number}n1"
            path.mkdir(parents=True)
            (self.subsystem / name / "transport").write_text("tcp\n")
            self.put(name, "address", f"traddr=10.77.{number}.1,trsvcid=4420")
            self.put(name, "state", "live")
            (path / "ana_state").write_text("optimized\n")
        (self.subsystem / "subsysnqn").write_text(f"{NQN}\n")
        self.ios = {"nvme3": 0, "nvme4": 0}
        self.each = {"nvme3": 20, "nvme4": 20}
        self.tick()
        host = Host(
            roles=[Role.SERVING], transport="local", name="ini", scratch=str(folder), tools=tools
        )
        self.witness = Witness(host, LocalTransport("ini"), lambda _: os.urandom(32).hex())
        self.events: list[str] = []

    def put(self, name: str, attribute: str, text: str) -> None:
        """Set an attribute in one step, as sysfs has it."""
        beside = self.subsystem / name / f".{attribute}"
        beside.write_text(f"{text}\n")
        beside.rename(self.subsystem / name / attribute)

    def tick(self) -> None:
        for name, more in self.each.items():
            self.ios[name] += more
            [path] = (self.subsystem / name).glob("nvme3c*n1")
            beside = path / ".stat"
            beside.write_text(f"{self.ios[name]} 0 0 0 {self.ios[name]} 0 0 0 0 0 0\n")
            beside.rename(path / "stat")

    def script(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def to(self, state: str, *controllers: str) -> str:
        name = f"{state}-{'-'.join(controllers)}"
        return self.script(
            name,
            "\n".join(
                f"echo {state} >{self.folder}/x{each}; mv {self.folder}/x{each} "
                f"{self.subsystem}/{each}/state"
                for each in controllers
            ),
        )

    def template(self, **fields: object) -> FaultTemplate:
        given = {
            "fault": "cable-a",
            "kind": "link_down",
            "on": "ini",
            "do": [self.to("connecting", "nvme3")],
            "undo": [self.to("live", "nvme3")],
            "takes": [{"address": "10.77.1.1"}],
            "hold": "300 ms",
            **fields,
        }
        return FaultTemplate.model_validate({k: v for k, v in given.items() if v is not None})


@pytest.fixture
def bench(tmp_path: Path):
    made = Bench(tmp_path, {})
    over = threading.Event()

    def count() -> None:
        while not over.wait(0.05):
            made.tick()

    ticking = threading.Thread(target=count)
    ticking.start()
    yield made
    over.set()
    ticking.join()
    made.witness.transport.close()


@contextlib.contextmanager
def loaded(bench: Bench, **fields: object):
    workload = FailoverWorkload.model_validate(
        {"nqn": NQN, "file": True, "host": "ini", "faults": ["cable-a"], "size": "1 MiB",
         "rate": 200, "queue_depth": 1, "quiet": "1500 ms", "lead": "200 ms", "hold": "300 ms",
         "after": "1200 ms", **fields}
    )  # fmt: skip
    with load.prepare(bench.witness, workload, None, Consent(), seed=7, told=TOLD) as place:
        yield Under(
            witness=bench.witness,
            workload=workload,
            place=place,
            watching=functools.partial(
                PathWatch, bench.witness, NQN, every_s=0.05, sys=str(bench.sys)
            ),
            told=TOLD,
            folder=bench.folder / "standing",
            run="run-1",
            journal=lambda kind, *_: bench.events.append(kind),
        )


def values(answer) -> dict[str, object]:
    return {each.name.removeprefix("failover."): each.value for each in answer.readings}


def test_a_fault_is_proven_and_measured(bench: Bench) -> None:
    with loaded(bench) as under:
        answer = failover.under_fio(under, bench.template(), bench.witness)
    found = values(answer)
    assert bench.events == ["fault_begin", "fault_proven", "fault_undone", "fault_repaired"]
    assert (found["proven"], found["repaired"]) == (True, True)
    assert (found["io_errors"], found["verify_errors"], found["flaps"]) == (
        Quantity.of(0, ""), Quantity.of(0, ""), Quantity.of(0, "")
    )  # fmt: skip
    assert found["left_after"].to("s") > 0
    assert found["longest_gap"].to("s") > 0
    assert found["least_share"].to("%") > 80
    assert len(answer.evidence) >= 8


def test_the_load_goes_on_until_after_the_repair_however_long_that_takes(bench: Bench) -> None:
    kept = []

    def keep(piece) -> str:
        kept.append(piece)
        return os.urandom(32).hex()

    bench.witness = dataclasses.replace(bench.witness, store=keep)
    undo = bench.script("slow", f"sleep 3; exec {bench.to('live', 'nvme3')}")
    with loaded(bench, after="500 ms") as under:
        answer = failover.under_fio(under, bench.template(undo=[undo]), bench.witness)
        left = sorted(each.name for each in Path(under.place.folder).iterdir())
    found = values(answer)
    assert found["recovery_time"].to("s") >= 3
    assert (found["io_errors"], found["verify_errors"]) == (Quantity.of(0, ""), Quantity.of(0, ""))
    [ran] = [each for each in kept if b'"under-fault"' in each.stdout]
    assert int(re.findall(rb'"job_runtime" : (\d+)', ran.stdout)[-1]) >= 4000  # ms
    assert not [name for name in left if name.endswith((".fio", ".log"))]
    assert not list(Path().glob("*-verify.state"))


def test_what_did_not_happen_measures_nothing(bench: Bench, monkeypatch) -> None:
    monkeypatch.setattr("kvgate.faults.command._LEAST_PROVEN_S", 0.2)
    with loaded(bench) as under:
        answer = failover.under_fio(under, bench.template(do=["true"]), bench.witness)
    assert {each.value for each in answer.readings} == {None}
    assert all("the fault is not proven" in each.problem for each in answer.readings)
    names = {each.name for each in answer.readings}
    assert {"failover.proven", "failover.io_errors", "failover.least_share"} <= names


def test_a_path_that_flaps_meanwhile_and_one_that_carries_nothing_are_found(bench: Bench) -> None:
    bench.each["nvme4"] = 0
    over = threading.Event()

    def flap() -> None:
        for state in itertools.cycle(["connecting", "live"]):
            if over.wait(0.3):
                break
            bench.put("nvme4", "state", state)
        bench.put("nvme4", "state", "live")

    flapping = threading.Thread(target=flap)
    with loaded(bench) as under:
        flapping.start()
        try:
            found = values(failover.quiet(under))
        finally:
            over.set()
            flapping.join()
    assert found["flaps"] >= Quantity.of(1, "")
    assert "10.77.2.1" in found["flapped"]


def test_paths_used_unevenly_are_found(bench: Bench) -> None:
    bench.each["nvme4"] = 0
    with loaded(bench) as under:
        found = values(failover.quiet(under))
    assert found["least_share"] == Quantity.of(0, "%")


FIO_LIES = r"""
import re, subprocess, sys, threading, time
argv = sys.argv[1:]
path = ""
if argv[-1].endswith(".fio") and "under-fault" in open(argv[-1]).read():
    path = re.search(r"filename=(.*)", open(argv[-1]).read()).group(1)
child = subprocess.Popen(["/usr/bin/fio", *argv])
if path:
    def spoil():
        with open(path, "r+b", buffering=0) as file:
            while child.poll() is None:
                file.seek(40)
                file.write(b"wrong")
                file.flush()
                time.sleep(0.005)
    threading.Thread(target=spoil, daemon=True).start()
sys.exit(child.wait())
"""


def test_wrong_data_is_found(tmp_path: Path) -> None:
    (tmp_path / "lies.py").write_text(FIO_LIES)
    bench = Bench(tmp_path, {})
    fio = bench.script("fio", f'exec python3 {tmp_path}/lies.py "$@"')
    host = bench.witness.host.model_copy(update={"tools": {"fio": fio}})
    bench.witness = dataclasses.replace(bench.witness, host=host)
    with loaded(bench) as under:
        found = values(failover.quiet(under))
    assert found["verify_errors"] >= Quantity.of(1, "")
    assert found["io_errors"] == Quantity.of(0, "")


def test_an_io_error_is_found(bench: Bench) -> None:
    with loaded(bench) as under:
        path = Path(under.place.data.path)
        laid_out = path.stat().st_mtime_ns

        def cut() -> None:
            until = time.monotonic() + 60
            while path.stat().st_mtime_ns == laid_out and time.monotonic() < until:
                time.sleep(0.01)  # fio does not write yet
            os.truncate(path, 4096)

        cutting = threading.Thread(target=cut)
        cutting.start()
        broken = dataclasses.replace(under, workload=under.workload.model_copy())
        found = values(failover.quiet(broken))
        cutting.join()
    assert found["io_errors"] >= Quantity.of(1, "") or found["verify_errors"] >= Quantity.of(1, "")


def writer_on(bench: Bench, under: Under, path: Path):
    return acknowledged.writer(
        bench.witness, look=None, path=lambda _: str(path), block_bytes=4096,
        size_bytes=64 * 4096, seed=7,
    )  # fmt: skip


def power(bench: Bench, **fields: object) -> FaultTemplate:
    return bench.template(
        kind="power_loss", takes=None, prove=["true"], proved_back=["true"],
        do=[bench.to("connecting", "nvme3", "nvme4")],
        undo=[bench.to("live", "nvme3", "nvme4")], hold="500 ms", **fields,
    )  # fmt: skip


def test_all_acknowledged_writes_are_there_after_a_loss_of_power(bench: Bench) -> None:
    with loaded(bench) as under, writer_on(bench, under, bench.folder / "ack") as writer:
        found = values(failover.under_writer(under, power(bench), bench.witness, writer))
    assert (found["lost_writes"], found["wrong_data"], found["io_errors"]) == (
        Quantity.of(0, ""), Quantity.of(0, ""), Quantity.of(0, "")
    )  # fmt: skip
    assert found["acknowledged"] >= Quantity.of(10, "")


def test_an_acknowledged_write_that_is_lost_is_found(bench: Bench) -> None:
    file = bench.folder / "ack"
    with loaded(bench) as under, writer_on(bench, under, file) as writer:
        told = writer.verify

        def lose(written):
            with file.open("r+b") as data:
                data.seek(4096 * next(iter(written.last)))
                data.write(bytes(4096))
            return told(written)

        lying = Lying(writer, lose)
        found = values(failover.under_writer(under, power(bench), bench.witness, lying))
    assert found["lost_writes"] == Quantity.of(1, "")


class Lying:
    """A writer on an array that loses something before it is read back."""

    def __init__(self, writer, verify) -> None:
        self.there, self.start, self.verify = writer.there, writer.start, verify


def test_all_paths_lost_for_too_short_or_too_long_a_time_is_no_such_fault(
    bench: Bench, monkeypatch
) -> None:
    both = {
        "kind": "both_paths",
        "takes": [{"address": "10.77.1.1"}, {"address": "10.77.2.1"}],
        "do": [bench.to("connecting", "nvme3", "nvme4")],
        "undo": [bench.to("live", "nvme3", "nvme4")],
    }
    path = nvmeof.Controller(
        name="nvme3", transport="tcp", address="", state="live", cntlid=1, kind="io",
        keep_alive_s=5, ctrl_loss_tmo="600", reconnect_delay="10", fast_io_fail_tmo="off",
        queue_count=2, queue_size=128, hostnqn="", hostid="", paths=(),
    )  # fmt: skip
    found = (nvmeof.Subsystem(
        name="s", nqn=NQN, iopolicy="numa", model="", serial="", controllers=(path,), heads=()
    ),)  # fmt: skip
    monkeypatch.setattr("kvgate.engine.failover.nvmeof.look", lambda _: (found, None))
    with loaded(bench) as under:
        told = values(failover.under_fio(under, bench.template(**both), bench.witness))
        assert told["resumed"] is True
        assert told["io_errors"] == Quantity.of(0, "")
        with pytest.raises(NotRunError, match=r"I/O is held for 600 s, the fault lasts 0\.3 s"):
            failover.under_fio(under, bench.template(beyond=True, **both), bench.witness)
        with pytest.raises(NotRunError, match="I/O is held for 600 s only"):
            failover.under_fio(under, bench.template(**{**both, "hold": "700 s"}), bench.witness)
    assert not list((bench.folder / "standing").glob("*"))
