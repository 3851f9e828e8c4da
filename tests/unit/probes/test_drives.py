from typing import Any

import pytest

from kvgate.model.quantity import Quantity
from kvgate.probes import drives

SERVER = "sysfs_block/composed-server.txt"
NVME = {"serial": "NVME0001", "nvme": True}


@pytest.mark.parametrize(
    ("disk", "size"),
    [
        ({"serial": "NVME0001"}, 15002931888 * 512),
        ({"wwn": "eui.0000000000000001"}, 15002931888 * 512),
        ({"name": "nvme0n1"}, 15002931888 * 512),
        ({"serial": "SATA000001"}, 1875385008 * 512),
        ({"wwn": "0x5000000000000001"}, 1875385008 * 512),  # as udev and lsblk write it
        ({"serial": "NVME0002", "wwn": "eui.0000000000000003"}, 7501465000 * 512),
        ({"serial": "NVME0002", "name": "nvme1n1"}, 7501465944 * 512),
    ],
)
def test_a_declared_disk_is_found(
    scripted: Any, recorded: Any, told: Any, disk: dict[str, str], size: int
) -> None:
    witness = scripted({"/sys/block": recorded(SERVER)}, {"disks": [disk]})
    found = told(drives.ask_disks(witness))
    item = witness.host.items("disk")[0]
    assert found["disk.present", item] is True
    assert found["disk.size", item] == Quantity.of(size, "B")
    assert len(witness.transport.asked) == 1  # sysfs was enough


@pytest.mark.parametrize(
    "disk",
    [
        {"serial": "NVME000"},
        {"serial": "NVME0001", "wwn": "eui.0000000000000002"},
        {"name": "nvme9n1"},
        {"serial": "NVME0009", "name": "nvme0n1"},
    ],
)
def test_a_declared_disk_that_is_not_there_is_an_answer(
    scripted: Any, recorded: Any, told: Any, disk: dict[str, str]
) -> None:
    says = {"/sys/block": recorded(SERVER), "lsblk": b'{"blockdevices": []}'}
    witness = scripted(says, {"disks": [disk]})
    found = told(drives.ask_disks(witness))
    item = witness.host.items("disk")[0]
    assert found["disk.present", item] is False
    assert "answers to" in found["disk.size", item]


def test_two_namespaces_of_one_serial_are_not_guessed_between(
    scripted: Any, recorded: Any, told: Any
) -> None:
    witness = scripted({"/sys/block": recorded(SERVER)}, {"disks": [{"serial": "NVME0002"}]})
    found = told(drives.ask_disks(witness))
    assert found["disk.present", "NVME0002"] is True
    assert "declare the WWN" in found["disk.size", "NVME0002"]


def test_lsblk_is_asked_where_sysfs_knows_no_such_serial(scripted: Any, told: Any) -> None:
    witness = scripted(
        {
            "/sys/block": b"sdc/size:10\nsdc/device/model:M\n",
            "lsblk": b'{"blockdevices": [{"name": "sdc", "size": 5120, "serial": "USB1"}]}',
        },
        {"disks": [{"serial": "USB1"}]},
    )
    assert told(drives.ask_disks(witness))["disk.size", "USB1"] == Quantity.of(5120, "B")


def test_health_of_a_new_drive(scripted: Any, recorded: Any, told: Any) -> None:
    witness = scripted(
        {
            "/sys/block": recorded(SERVER),
            "smart-log": recorded("nvme_smart_log/composed-2.x-new-drive.json"),
        },
        {"disks": [NVME, {"serial": "SATA000001"}]},
    )
    found = told(drives.HEALTH[0].ask(witness))
    assert {item for _, item in found} == {"NVME0001"}
    assert found["nvme.critical_warning", "NVME0001"] == Quantity.of(0, "")
    assert found["nvme.available_spare", "NVME0001"] == Quantity.of(100, "%")
    assert found["nvme.power_on_hours", "NVME0001"] == Quantity.of(31, "h")
    assert found["nvme.data_written", "NVME0001"] == Quantity.of(1024 * 512_000, "B")
    assert found["nvme.temperature", "NVME0001"] == Quantity.of(35, "degC")
    assert witness.transport.asked[-1][:3] == ("nvme", "smart-log", "/dev/nvme0n1")


def test_sudo_is_used_only_where_the_inventory_allows_it(scripted: Any, recorded: Any) -> None:
    witness = scripted(
        {"/sys/block": recorded(SERVER)},
        {"disks": [NVME]},
        sudo="passwordless",
        tools={"nvme": "/usr/sbin/nvme"},
    )
    drives.HEALTH[0].ask(witness)
    assert witness.transport.asked[-1][:4] == ("sudo", "-n", "/usr/sbin/nvme", "smart-log")


@pytest.mark.parametrize(
    ("say", "because"),
    [
        ((127, b"", b"sh: nvme: not found"), "nvme-cli"),
        ((1, b"", b"smart-log: Permission denied"), "sudo: passwordless"),
        ((1, b"", b"sudo: a password is required"), "sudo: passwordless"),
        ((1, b"", b"Input/output error"), "Input/output error"),
        (b'{"critical_warning": 0}', "it has no avail_spare"),
    ],
)
def test_a_drive_that_does_not_tell_says_why(
    scripted: Any, recorded: Any, told: Any, say: Any, because: str
) -> None:
    witness = scripted({"/sys/block": recorded(SERVER), "smart-log": say}, {"disks": [NVME]})
    found = told(drives.HEALTH[0].ask(witness))
    assert set(found) == {(measure, "NVME0001") for measure in drives.SMART_MEASURES}
    assert all(because in str(problem) for problem in found.values())


def test_a_missing_nvme_drive_tells_nothing(scripted: Any, recorded: Any, told: Any) -> None:
    missing = {"serial": "GONE", "nvme": True}
    witness = scripted({"/sys/block": recorded(SERVER)}, {"disks": [missing]})
    found = told(drives.HEALTH[0].ask(witness))
    assert set(found.values()) == {"no NVMe disk answers to 'GONE'"}
