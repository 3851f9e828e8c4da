from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.block import BlockDevice, from_lsblk, from_sysfs

Recorded = Callable[[str], bytes]


def named(devices: tuple[BlockDevice, ...]) -> dict[str, BlockDevice]:
    return {device.name: device for device in devices}


def test_sysfs_of_a_virtual_machine(recorded: Recorded) -> None:
    found = named(from_sysfs(recorded("sysfs_block/linux-6.18-virtio.txt")))
    assert found["vda"] == BlockDevice(
        name="vda", size_bytes=256 * 2**30, serial="12345678901234567", attached=True
    )
    assert not found["loop0"].attached
    assert found["zram0"].size_bytes == 0


def test_sysfs_of_a_server(recorded: Recorded) -> None:
    found = named(from_sysfs(recorded("sysfs_block/composed-server.txt")))
    assert found["nvme0n1"] == BlockDevice(
        name="nvme0n1",
        size_bytes=15002931888 * 512,
        serial="NVME0001",
        wwn="eui.0000000000000001",
        model="SAMPLE NVME 7.68TB",
    )
    assert found["nvme0n1"].nvme
    assert not found["sda"].nvme
    assert "nvme0c0n1" not in found  # a path, not a disk
    assert found["sdb"].removable
    assert not found["dm-0"].attached


def test_a_scsi_serial_survives_a_length_byte_that_is_a_line_end(recorded: Recorded) -> None:
    sda = named(from_sysfs(recorded("sysfs_block/composed-server.txt")))["sda"]
    assert (sda.serial, sda.wwn) == ("SATA000001", "naa.5000000000000001")


@pytest.mark.parametrize(
    "bad",
    [
        b"vda/removable:0\n",
        b"vda/size:-1\n",
        b"vda/size:\n",
        b"vda\n",
        b"vda/size:1\0\n",
        b"vda/size:1\nvda/serial:\xff\xfe\n",
        b"sda/size:1\nsda/device/vpd_pg80:x\n",
        b"vda/size:1\nvda/size:2\n",
    ],
)
def test_sysfs_refuses(bad: bytes) -> None:
    with pytest.raises(ParseError, match="/sys/block"):
        from_sysfs(bad)


def test_lsblk_json(recorded: Recorded) -> None:
    found = named(from_lsblk(recorded("lsblk/util-linux-2.38.1-virtio.json")))
    assert found["vda"].size_bytes == 256 * 2**30
    assert found["vda"].serial is None  # no udev there: null is "not told"


def test_lsblk_sizes_as_texts_children_and_doubles() -> None:
    found = from_lsblk(b"""{"blockdevices": [{"name": "a", "size": "10", "wwn": "", "children": [
        {"name": "d", "size": 5}]}, {"name": "b", "size": null, "children": [
        {"name": "d", "size": 5}]}]}""")
    assert [(each.name, each.size_bytes, each.wwn) for each in found] == [
        ("a", 10, None),
        ("d", 5, None),
        ("b", None, None),
    ]


def test_lsblk_table(recorded: Recorded) -> None:
    found = named(from_lsblk(recorded("lsblk/util-linux-2.38.1-virtio.txt")))
    assert found["vda"].size_bytes == 256 * 2**30
    assert found["zram0"].size_bytes == 0


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"lsblk: invalid option\nUsage:\n",
        b"NAME TYPE\nvda disk\n",
        b"NAME SIZE TYPE\nvda N/A disk\n",
        b'{"blockdevices": 3}',
        b'{"blockdevices": [3]}',
        b'{"blockdevices": [{"size": 3}]}',
        b'{"blockdevices": [{"name": "a", "size": true}]}',
        b'{"blockdevices": [{"name": "a", "size": -3}]}',
        b'{"blockdevices": [{"name": "a", "size": 1.5}]}',
        b'{"blockdevices": [{"name": 7}]}',
        b'{"blockdevices": [{"name": "a", "size": "50G"}]}',
        b'{"blockdevices": [{"name": "a", "size": 1}, {"name": "a", "size": 2}]}',
    ],
)
def test_lsblk_refuses(bad: bytes) -> None:
    with pytest.raises(ParseError, match="lsblk"):
        from_lsblk(bad)
