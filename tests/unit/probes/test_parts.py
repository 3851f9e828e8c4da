"""What a host tells of its parts, and what it says where it can't."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from composing import parts as composed_parts
from kvgate.model.quantity import Quantity
from kvgate.probes import identity, packages, parts, parts_read
from kvgate.witness import Witness

Told = dict[tuple[str, str], Any]


@pytest.fixture(scope="module")
def made() -> Any:
    """Return the answers of the server whose parts are told."""
    return composed_parts


@pytest.fixture
def ask(made: Any, server: Any, told: Any) -> Callable[..., Told]:
    """Return a function (changed answers, **composed) to all that the server tells of parts."""

    def asked(changed: Mapping[tuple[str, ...], Any] | None = None, **composed: Any) -> Told:
        witness = server(made.answers(**composed) | dict(changed or {}), **made.DECLARED)
        found: Told = {}
        for probe in parts.PROBES:
            readings = probe.ask(witness).readings
            assert {each.name for each in readings} <= set(probe.measures)
            found |= told(parts.answer(readings))
        return found

    return asked


def test_all_parts_by_serial_number_model_and_place(ask: Callable[..., Told]) -> None:
    found = ask()
    counts = {item: value for (name, item), value in found.items() if name == "part.count"}
    assert counts == {
        kind: Quantity.of(number, "")
        for kind, number in {
            "server": 1,
            "chassis": 0,
            "board": 1,
            "cpu": 1,
            "dimm": 2,
            "psu": 2,
            "drive": 3,
            "gpu": 2,
            "nic": 1,
            "optic": 1,
        }.items()
    }
    assert {item: value for (name, item), value in found.items() if name == "part.place"} == {
        "server/SN-SRV": "server 1",
        "board/@1": "board 1",
        "cpu/@P0": "P0",
        "dimm/SN-M1": "DIMM 0",
        "dimm/SN-M2": "DIMM 1",
        "psu/SN-P1": "PSU1",
        "psu/SN-P2": "PSU2",
        "drive/SN-D1": "11, 0000:61:00.0, nvme0",
        "drive/SN-D2": "12, 0000:62:00.0, nvme1",
        "drive/@sda": "sda",
        "gpu/SN-G1": "1, 0000:05:00.0",
        "gpu/SN-G2": "0000:15:00.0",
        "nic/SN-N1": "0000:41:00.0, ens1f0np0",
        "optic/SN-O1": "ens1f0np0",
    }
    assert found["part.model", "nic/SN-N1"] == "ConnectX-6 Dx EN adapter card"
    assert found["part.part_number", "nic/SN-N1"] == "MCX623106AN-CDAT"
    assert found["part.model", "server/SN-SRV"] == "Example Server 8"
    firmware = {item: value for (name, item), value in found.items() if name == "part.firmware"}
    assert firmware == {
        "board/@1": "2.7",
        "drive/SN-D1": "FW01",
        "drive/SN-D2": "FW01",
        "gpu/SN-G1": "113-M3080202",
        "gpu/SN-G2": "113-M3080202",
        "nic/SN-N1": "22.35.1012",
    }
    assert not any(name == "part.fault" for name, _ in found)


def test_a_dead_part_is_there_with_its_fault(ask: Callable[..., Told], made: Any) -> None:
    dead = made.DRIVES | {"nvme1": ("SN-D2", "EX-7T68", "0000:62:00.0", "dead")}
    found = ask(
        found=dead,
        undriven=["0000:63:00.0"],
        dead_gpus=["0000:25:00.0"],
        psu_status="Present, Critical",
    )
    assert {item: value for (name, item), value in found.items() if name == "part.fault"} == {
        "drive/SN-D2": "its controller is 'dead'",
        "drive/@0000:63:00.0": "no driver drives it",
        "gpu/@0000:25:00.0": "no driver drives it",
        "psu/SN-P1": "its status is 'Present, Critical'",
    }


DMI = ("dmidecode", "-t", "0,1,2,3,4,16,17,39")
LSPCI = ("lspci", "-D", "-vv", "-d", "::0200")


@pytest.mark.parametrize(
    ("argv", "say", "kind", "why"),
    [
        (DMI, (127, b"", b"not found"), "dimm", "install the package 'dmidecode'"),
        (DMI, (1, b"", b"/dev/mem: Permission denied"), "server", "sudo: passwordless"),
        (DMI, b"SMBIOS 3.5.0 present.\n", "psu", "the firmware lists no power supplies"),
        (DMI, b"garbage\n", "cpu", "dmidecode: it prints neither"),
        (LSPCI, (127, b"", b"not found"), "nic", "install the package 'pciutils'"),
        (
            LSPCI,
            b"41:00.0 Ethernet controller: X\n\tCapabilities: <access denied>\n",
            "nic",
            "lspci may not read the cards' data",
        ),
        (parts_read.AMDGPU, (2, b"", b"cd: can't cd"), "gpu", "amdgpu is not loaded"),
        (parts_read.NVME, b"odd\n", "drive", "is not ITEM/ATTRIBUTE:VALUE"),
        (("ethtool", "-m", "ens1f0np0"), (95, b"", b"Operation not supported"), "optic", "ens1"),
    ],
)
def test_what_can_t_be_told_is_a_problem_of_its_kind_alone(
    ask: Callable[..., Told], argv: tuple[str, ...], say: Any, kind: str, why: str
) -> None:
    found = ask({argv: say})
    assert why in found["part.count", kind]
    assert not any(item.startswith(f"{kind}/") for _, item in found)
    others = [v for (name, item), v in found.items() if name == "part.count" and item != kind]
    assert any(isinstance(value, Quantity) for value in others)


def test_no_nvme_class_and_no_slots_are_no_drives_of_that_sort(ask: Callable[..., Told]) -> None:
    absent = (2, b"", b"sh: 1: cd: can't cd to /sys/class/nvme")
    found = ask({parts_read.NVME: absent, parts_read.SLOTS: absent}, found={})
    assert found["part.count", "drive"] == Quantity.of(1, "")


def test_two_with_one_serial_number_are_told_by_their_places(
    ask: Callable[..., Told], made: Any
) -> None:
    same = {name: ("SN-X", *rest) for name, (_, *rest) in made.DRIVES.items()}
    found = ask(found=same)
    assert found["part.place", "drive/@11"] == "11, 0000:61:00.0, nvme0"
    assert not any(item == "drive/SN-X" for _, item in found)


def test_ordered_kinds_are_part_of_who_a_host_is(server: Any, made: Any) -> None:
    witness: Witness = server(made.answers(), **made.DECLARED, disks=[])
    told = identity.identity(witness, frozenset({"drive", "gpu"}))
    assert {"drive:SN-D1", "drive:SN-D2", "gpu:SN-G1", "gpu:SN-G2"} <= set(told)
    assert not any(each.startswith("dimm:") for each in told)
    swapped = made.DRIVES | {"nvme1": ("SN-D9", *made.DRIVES["nvme1"][1:])}
    other = server(made.answers(found=swapped), **made.DECLARED, disks=[])
    after = identity.identity(other, frozenset({"drive"}))
    assert "drive:SN-D9" in after
    assert "drive:SN-D2" not in after


def test_serving_software_is_read_from_metadata(server: Any, told: Any) -> None:
    command = ("python3", "-c", packages.SCRIPT.format(names=packages.PACKAGES))
    found = told(packages.ask_packages(server({command: b"vllm 0.20.1\nlmcache\n"})))
    assert found["tool.vllm.version", ""] == "0.20.1"
    assert "sees no package 'lmcache'" in found["tool.lmcache.version", ""]
    missing = told(packages.ask_packages(server({command: (127, b"", b"")})))
    assert "name the serving Python under tools" in missing["tool.vllm.version", ""]
    for odd in (b"vllm 0.20.1\n", b"vllm; reboot\nlmcache 1\n"):
        with pytest.raises(parts.ParseError):
            packages.ask_packages(server({command: odd}))


def test_the_script_for_packages_runs(here: Any, told: Any) -> None:
    found = told(packages.ask_packages(here({})))
    assert set(found) == {("tool.vllm.version", ""), ("tool.lmcache.version", "")}


def test_one_optic_that_can_t_be_read_leaves_the_others_known(server: Any, told: Any) -> None:
    text = b"\tIdentifier : 0x11 (QSFP28)\n\tVendor SN : SN-O2\n"
    answers = {
        ("ethtool", "-m", "ens1f0np0"): (95, b"", b"Operation not supported"),
        ("ethtool", "-m", "ens2f0np0"): text,
    }
    nics = [{"name": "ens1f0np0"}, {"name": "ens2f0np0"}]
    optics = next(probe for probe in parts.PROBES if probe.name == "parts: optics")
    found = told(optics.ask(server(answers, nics=nics)))
    assert "ens1f0np0" in found["part.count", "optic"]  # so that none is said to be missing
    assert found["part.place", "optic/SN-O2"] == "ens2f0np0"
