"""What each path carried, by its own counters; and perftest between two hosts that are scripted."""

from __future__ import annotations

import datetime
import hashlib
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kvgate.engine import path_traffic, perftest
from kvgate.engine.perftest import Run, Side
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence
from kvgate.spec.fabric import NvmeSubsystem
from kvgate.spec.fabric_load import PathsWorkload, PerftestWorkload
from kvgate.spec.inventory import Host
from kvgate.transport.base import CommandResult
from kvgate.witness import Witness

RECORDED = Path(__file__).parents[2] / "recorded"
SYSFS = (RECORDED / "sysfs_nvme_subsystem/linux-6.12-lab-rdma.txt").read_bytes()
ARRAY = NvmeSubsystem.model_validate(
    {
        "name": "array1",
        "nqn": "nqn.2026-11.lab:array1",
        "transport": "rdma",
        "paths": [{"name": "a", "target": "10.77.1.1"}, {"name": "b", "target": "10.77.2.1"}],
    }
)
LOAD = PathsWorkload.model_validate({"runtime": "2 s", "least": "64 KiB"})
PERF = PerftestWorkload.model_validate({"runtime": "1 s", "tools": ["ib_write_bw"]})
NOW = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
Say = bytes | tuple[int, bytes, bytes]


class Turns:
    """Answers by the first text that stands in a command; a list of answers one after another."""

    name = "h1"

    def __init__(self, says: Mapping[str, Say | list[Say]]) -> None:
        self.says = says
        self.turn: dict[str, int] = {}
        self.asked: list[str] = []
        self.lock = threading.Lock()

    def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
        line = " ".join(argv)
        with self.lock:
            self.asked.append(line)
            part = next((part for part in self.says if part in line), None)
            say = self.says[part] if part else (127, b"", b"not found")
            if isinstance(say, list):
                at = self.turn.get(part or "", 0)
                self.turn[part or ""] = at + 1
                say = say[min(at, len(say) - 1)]
        status, out, err = say if isinstance(say, tuple) else (0, say, b"")
        return CommandResult(
            host="h1", argv=tuple(argv), exit_status=status, stdout=out, stderr=err,
            started_at=NOW, elapsed_s=0.01,
        )  # fmt: skip


def witness(says: Mapping[str, Any], name: str = "h1") -> Witness:
    host = Host.model_validate({"roles": ["serving"], "transport": "local"})
    turns: Any = Turns(says)
    return Witness(host.model_copy(update={"name": name}), turns, keep)


def keep(piece: Evidence) -> str:
    return hashlib.sha256(repr(piece.command).encode() + piece.stdout).hexdigest()


def after(a: int, b: int) -> bytes:
    """Return sysfs once path a has read so many sectors more, and path b so many."""
    told = SYSFS
    for name, more in ((b"nvme3c3n1", a), (b"nvme3c4n1", b)):
        pattern = re.compile(name + rb"/stat:( +\d+ +\d+ +)(\d+)")
        told = pattern.sub(
            lambda m, name=name, more=more: name + b"/stat:%s%d" % (m[1], int(m[2]) + more), told
        )
    return told


def shares(*sysfs: bytes, fio: Say = b"{}") -> dict[tuple[str, str], Any]:
    asked = witness({"nvme-subsystem": list(sysfs), "fio": fio})
    told = path_traffic.run(asked, ARRAY, LOAD)
    assert told.evidence
    return {(r.name, r.item): r.problem if r.value is None else r.value for r in told.readings}


def test_even_paths_carry_all_of_an_even_share() -> None:
    found = shares(SYSFS, after(1000, 1000))
    assert found["nvmeof.least_path_share", "array1"] == Quantity.of(100, "%")
    assert found["nvmeof.path_share", "array1/a"] == Quantity.of(50, "%")
    assert found["nvmeof.read_bw", "array1"] == Quantity.of(512_000, "B/s")


def test_one_path_used_while_two_exist() -> None:
    found = shares(SYSFS, after(2000, 0))
    assert found["nvmeof.least_path_share", "array1"] == Quantity.of(0, "%")
    assert found["nvmeof.path_share", "array1/b"] == Quantity.of(0, "%")


def test_an_absent_path_carried_nothing() -> None:
    def without(told: bytes) -> bytes:
        return b"".join(line for line in told.splitlines(True) if b"nvme4" not in line)

    found = shares(without(SYSFS), without(after(2000, 0)))
    assert found["nvmeof.least_path_share", "array1"] == Quantity.of(0, "%")


def test_a_standby_path_need_not_carry() -> None:
    def standby(told: bytes) -> bytes:
        return told.replace(b"nvme3c4n1/ana_state:optimized", b"nvme3c4n1/ana_state:non-optimized")

    found = shares(standby(SYSFS), standby(after(2000, 0)))
    assert found["nvmeof.least_path_share", "array1"] == Quantity.of(100, "%")


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (after(1000, 1000).replace(b"nvme4", b"nvme9"), "was nvme4 and is nvme9 now"),
        (after(1000, 0), "went back"),
        (after(10, 10), "tells nothing"),
    ],
)
def test_what_proves_nothing_is_no_share(then: bytes, why: str) -> None:
    first = after(0, 5)
    found = shares(first, then)
    assert re.search(why, str(found["nvmeof.least_path_share", "array1"]))


def test_a_fio_that_failed_is_told_with_what_to_look_at() -> None:
    found = shares(SYSFS, after(9, 9), fio=(1, b"", b"fio: /dev/nvme3n1: Input/output error"))
    assert "list-subsys" in found["nvmeof.least_path_share", "array1"]
    assert "list-subsys" in found["nvmeof.path_share", "array1/a"]


def test_a_host_without_the_device() -> None:
    found = shares(b"nvme-subsys0/subsysnqn:other\n")
    assert "no multipath device" in found["nvmeof.least_path_share", "array1"]


def test_fio_can_not_write() -> None:
    words = path_traffic.argv(witness({}), ("nvme3n1",), LOAD)
    assert {"--readonly", "--rw=randread", "--filename=/dev/nvme3n1"} <= set(words)


def sides(client: Mapping[str, Any], server: Mapping[str, Any]) -> Run:
    here = Side(witness=witness(client, "h1"), device="rxeA", gid_index=1, address="10.77.1.2")
    there = Side(witness=witness(server, "h2"), device="rxeA", gid_index=1, address="10.77.1.1")
    return Run(
        link="a", tool="ib_write_bw", sender=here, receiver=there, port=18515,
        line_rate=Quantity.parse("100 Mbit/s"),
    )  # fmt: skip


TABLE = (RECORDED / "ib_write_bw/25.01-lab.txt").read_bytes()
REFUSED = (1, b"", b"Couldn't connect to 10.77.1.1:18515\n")


def carried(run: Run) -> dict[str, Any]:
    (told,) = perftest.together([run], PERF)
    return {r.name: r.problem if r.value is None else r.value for r in told.readings}


def test_a_pair_is_held_against_its_line_rate() -> None:
    run = sides({"10.77.1.1": TABLE}, {"ib_write_bw": TABLE})
    found = carried(run)
    assert found["perftest.rate"].base == 79_032_000
    assert found["perftest.of_line_rate"] == Quantity.of("79.032", "%")
    words = perftest.argv(run.client, run, PERF)
    assert words[-1] == "10.77.1.1"
    assert perftest.argv(run.server, run, PERF)[-1] == "-F"


def test_the_client_waits_for_the_server() -> None:
    run = sides({"10.77.1.1": [REFUSED, REFUSED, TABLE]}, {"ib_write_bw": TABLE})
    assert carried(run)["perftest.rate"].base == 79_032_000


def test_a_missing_tool_is_named_with_its_package() -> None:
    found = carried(sides({"10.77.1.1": TABLE}, {}))
    assert "install the package 'perftest'" in found["perftest.rate"]


def test_a_run_in_which_nothing_ended_is_no_rate() -> None:
    nothing = re.sub(
        rb"302 .*", b"0           0.000000            0.000000            0.000000", TABLE
    )
    found = carried(sides({"10.77.1.1": nothing}, {"ib_write_bw": nothing}))
    assert "not one message ended" in found["perftest.rate"]


def test_reads_are_asked_for_by_the_receiver() -> None:
    run = sides({}, {})
    reading = Run(
        link="a", tool="ib_read_bw", sender=run.sender, receiver=run.receiver, port=1,
        line_rate=None,
    )  # fmt: skip
    assert reading.client is run.receiver
    assert reading.server is run.sender
