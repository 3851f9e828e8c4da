from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from kvgate.lab import vm

IMAGE = Path("/image")


def words_of(each: vm.Vm, accel: str = "tcg") -> list[str]:
    return vm.command(each, IMAGE, port=4711, accel=accel)


@pytest.mark.parametrize("each", vm.VMS.values(), ids=vm.VMS)
def test_nothing_leads_in_but_ssh_on_loopback_and_nothing_out(each: vm.Vm) -> None:
    words = words_of(each)
    nets = [word for before, word in itertools.pairwise(words) if before == "-netdev"]
    assert len(nets) == 3
    [user] = [word for word in nets if word.startswith("user,")]
    assert "restrict=on" in user
    assert "hostfwd=tcp:127.0.0.1:4711-:22" in user
    for word in nets:
        assert word is user or word.startswith("dgram,")
        assert "0.0.0.0" not in word  # noqa: S104  that it is not there is the point


@pytest.mark.parametrize("each", vm.VMS.values(), ids=vm.VMS)
def test_sockets_are_named_from_the_state_folder(each: vm.Vm) -> None:
    sockets = [word for word in words_of(each) if "unix" in word]
    assert len(sockets) == 3
    assert not [word for word in sockets if "=/" in word or ":/" in word]


def test_the_two_ends_of_a_cable_fit() -> None:
    def ends(each: vm.Vm) -> set[tuple[str, str]]:
        fields = [
            dict(part.split("=", 1) for part in word.split(",")[1:])
            for word in words_of(each)
            if word.startswith("dgram,")
        ]
        return {(told["local.path"], told["remote.path"]) for told in fields}

    assert {(theirs, ours) for ours, theirs in ends(vm.TGT)} == ends(vm.INI)
    assert len(ends(vm.TGT)) == len(vm.NETWORKS)


def test_serial_numbers_slots_and_addresses_are_each_there_once() -> None:
    serials = [drive.serial for each in vm.VMS.values() for drive in each.drives]
    assert len(serials) == len(set(serials))
    for each in vm.VMS.values():
        words = words_of(each)
        for kind in ("chassis=", "mac="):
            told = [part for word in words for part in word.split(",") if part.startswith(kind)]
            assert len(told) == len(set(told)) > 0
    macs = {w for each in vm.VMS.values() for w in words_of(each) if ",mac=" in w}
    assert len(macs) == 6


def test_a_dual_drive_has_two_controllers_and_one_namespace() -> None:
    words = [word for word in words_of(vm.INI) if "LAB-INI-DUAL" in word or "n-dual" in word]
    assert sum(word.startswith("nvme,") for word in words) == 2
    assert sum(word.startswith("nvme-ns,") for word in words) == 1


def test_a_pulled_drive_comes_back_as_it_was() -> None:
    raid = next(drive for drive in vm.TGT.drives if drive.name == "raid0")
    device = ",".join(f"{key}={value}" for key, value in vm.device(raid).items())
    assert device in words_of(vm.TGT)


def test_only_kvm_takes_the_machines_own_cpu() -> None:
    assert "host" in words_of(vm.TGT, "kvm")
    assert "host" not in words_of(vm.TGT, "tcg")
    assert "kvm" not in words_of(vm.TGT, "tcg")
