"""Storage arms: what a folder lies on, found to the serial, and two arms that are one device."""

from __future__ import annotations

import dataclasses
from typing import Any

import pydantic
import pytest

from kvgate.errors import NotRunError
from kvgate.model.record import Reading
from kvgate.parse.storage_way import SCRIPT
from kvgate.spec.declared import Disk
from kvgate.spec.inventory import ArmPlace, Host
from kvgate.spec.workload import FioArms
from kvgate.transport.base import CommandResult
from kvgate.witness import Answer
from kvgate.workloads import fio_arms
from kvgate.workloads.fio_arms import Lies

RAID = b"""device 9:0
over md0 raid0
leaf nvme0n1
serial S1
wwid eui.1
controller nvme0 rdma
port eth2 100000
leaf nvme1n1
serial S2
wwid
controller nvme1 rdma
port eth2 100000
end
"""
LOCAL = b"device 259:1\nleaf nvme9n1\nserial L9\nwwid\ncontroller nvme9 pcie\nend\n"
PARTITION = LOCAL.replace(b"259:1", b"259:2")
NOTHING = b"device 0:42\nend\n"


def host(**fields: object) -> Host:
    entry = {"roles": ["serving"], "address": "192.0.2.1", **fields}
    return Host.model_validate(entry).model_copy(update={"name": "ini1"})


def lying(bench: Any, answers: dict[str, bytes], kind: bytes = b"xfs\n") -> dict[str, Lies]:
    """Return what arms lie on whose folders' ways down are `answers`."""

    def way(real: CommandResult) -> CommandResult:
        if SCRIPT not in real.argv:
            return real
        return dataclasses.replace(real, exit_status=0, stdout=answers[real.argv[-1]])

    bench.transport.answers["sh"] = way
    bench.transport.answers["stat"] = lambda real: dataclasses.replace(
        real, exit_status=0, stdout=kind
    )
    return {name: fio_arms.ask(bench.witness, ArmPlace(scratch=name))[0] for name in answers}


def test_two_devices_are_two_and_told_by_serial(bench: Any) -> None:
    found = lying(bench, {"/local": LOCAL, "/device": RAID})
    assert fio_arms.why_not_two(found) == ""
    assert found["/device"].devices == {"S1", "S2"}
    told = fio_arms.place_reading(found["/device"]).value
    assert told == (
        "nvme0n1 (serial S1, by rdma), nvme1n1 (serial S2, by rdma) under md0 raid0, xfs"
    )


@pytest.mark.parametrize(
    ("local", "device", "because"),
    [
        (LOCAL, PARTITION, "both arms are the same device: L9"),
        (RAID, RAID.replace(b"S1", b"S7").replace(b"eui.1", b""), "the same device: S2"),
        (LOCAL, NOTHING, "/device: /device lies on no block device (tmpfs)"),
        (LOCAL, b"leaf x\nend\n", "/device: "),
    ],
)
def test_arms_that_are_not_surely_two(
    bench: Any, local: bytes, device: bytes, because: str
) -> None:
    found = lying(bench, {"/local": local, "/device": device}, kind=b"tmpfs\n")
    assert because in fio_arms.why_not_two(found)


def test_a_folder_that_is_not_on_the_disk_it_should_be(bench: Any) -> None:
    lying(bench, {"/device": RAID})
    on, _ = fio_arms.ask(bench.witness, ArmPlace(scratch="/device", disk="S2"))
    assert not on.unknown
    off, _ = fio_arms.ask(bench.witness, ArmPlace(scratch="/device", disk="L9"))
    assert "does not lie on L9, but on nvme0n1 (serial S1" in off.unknown
    assert fio_arms.place_reading(off).problem == off.unknown


def test_two_folders_of_this_machine_are_one_device_or_none(bench: Any, tmp_path: Any) -> None:
    """Ask the real file system twice: never two devices."""
    found = {
        name: fio_arms.ask(bench.witness, ArmPlace(scratch=str(tmp_path)))[0] for name in ("a", "b")
    }
    assert fio_arms.why_not_two(found)


def test_where_an_arm_lies_is_in_the_inventory() -> None:
    both = host(arms={"local": {"scratch": "/l"}, "device": {"scratch": "/d"}})
    assert fio_arms.place_of(both, "local-again").scratch == "/l"
    assert fio_arms.place_of(both, "device").scratch == "/d"
    assert fio_arms.place_of(host(scratch="/s"), "local").scratch == "/s"
    for lacking in (host(), host(scratch="/s", arms={"device": {"scratch": "/d"}})):
        with pytest.raises(NotRunError, match="does not say where arm 'local' lies"):
            fio_arms.place_of(lacking, "local")
    with pytest.raises(NotRunError, match="arm 'device'"):
        fio_arms.place_of(host(scratch="/s"), "device")


def test_the_storage_under_test_is_arm_device_where_there_is_one(bench: Any) -> None:
    def folder(**fields: object) -> str | None:
        witness = dataclasses.replace(bench.witness, host=host(**fields))
        return fio_arms.under_test(witness).host.scratch

    assert folder(scratch="/s") == "/s"
    assert folder(scratch="/s", arms={"local": {"scratch": "/l"}}) == "/s"
    assert folder(scratch="/s", arms={"device": {"scratch": "/d"}}) == "/d"
    disks = {"disks": [{"serial": "S1"}]}
    with pytest.raises(NotRunError, match="is disk S1; these jobs take files"):
        folder(scratch="/s", arms={"device": {"disk": "S1"}}, declared=disks)


@pytest.mark.parametrize(
    ("arms", "says"),
    [
        ({"local": {}}, "'scratch' folder, a 'disk', or both"),
        ({"local": {"scratch": "/a"}, "device": {"scratch": "/a"}}, "the same scratch"),
        ({"device": {"disk": "S1"}}, "no declared disk has serial or WWN S1"),
        ({"recompute": {"scratch": "/a"}}, "recompute"),
    ],
)
def test_arms_that_make_no_sense_are_refused(arms: object, says: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=says):
        host(arms=arms)


def test_a_whole_disk_is_declared_and_must_be_there(bench: Any) -> None:
    known = host(arms={"device": {"disk": "S1"}}, declared={"disks": [{"serial": "S1"}]})
    place = fio_arms.place_of(known, "device")
    assert fio_arms.disk_of(known, place) == Disk(serial="S1")
    found, refs = fio_arms.ask(dataclasses.replace(bench.witness, host=known), place)
    assert not found.devices  # this machine has no such disk; loop devices: tests/meta/loops
    assert "S1: no device answers to it" in found.unknown
    assert refs


def test_readings_of_an_arm_are_not_those_of_the_storage_under_test() -> None:
    answer = Answer((Reading(name="fio.direct", value=True),), ("ref",))
    assert fio_arms.of_arm(answer) == Answer((Reading(name="arms.direct", value=True),), ("ref",))
    names = {each.name for each in fio_arms.unfit(("read",), "one device")}
    assert {"arms.read_bw", "arms.errors", "arms.longest_gap"} <= names


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"arms": []}, "is empty"),
        ({"arms": ["local", "local"]}, "each once"),
        ({"again": "device"}, "none of the arms"),
        ({"looks": [2, 6]}, "first is after 5"),
        ({"looks": [5]}, "the last is after all 6 rounds"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(options: dict[str, object], says: str) -> None:
    given: dict[str, object] = {
        "rounds": 6,
        "ramp": "0 s",
        "runtime": "1 s",
        "size": "80 MiB",
        "jobs": ["kv-restore"],
        "arms": ["local"],
        "again": "local",
    }
    assert FioArms.model_validate(given).runs == ("local", "local-again")
    with pytest.raises(pydantic.ValidationError, match=says):
        FioArms.model_validate(given | options)
