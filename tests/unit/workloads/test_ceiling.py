"""From what a host tells of the way to a folder to its ceilings; nothing is made up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.parse.storage_way import SCRIPT, way
from kvgate.spec.declared import Disk
from kvgate.workloads.ceiling import READ, TOLD, WRITE, readings

NVME = """device 259:1
leaf nvme0n1
serial S6B0NX0W100123
wwid eui.00253811
controller nvme0 pcie
function 0000:c1:00.0 0x144d
link 0000:c1:00.0 4 16.0 GT/s PCIe
function 0000:c0:01.0 0x1022
link 0000:c0:01.0 4 16.0 GT/s PCIe
end
"""
FABRIC = """device 9:0
over md0 raid0
leaf nvme1n1
serial ARRAY1
wwid uuid.1
controller nvme1 rdma
port ens1f0 100000
controller nvme2 rdma
port ens1f1 100000
leaf nvme2n1
serial ARRAY1
wwid uuid.2
controller nvme1 rdma
port ens1f0 100000
controller nvme2 rdma
port ens1f1 100000
end
"""
VIRTIO = """device 254:0
leaf vda
serial 19966395114295435
wwid
function 0000:00:02.0 0x1af4
link 0000:00:02.0 1 2.5 GT/s PCIe
end
"""


def read(text: str, *disks: Disk) -> dict[str, Reading]:
    return {each.name: each for each in readings(way(text.encode()), disks)}


def disk(**fields: object) -> Disk:
    return Disk.model_validate(fields)


def test_a_local_drive_has_its_links_ceiling() -> None:
    found = read(NVME)
    assert isinstance(found[READ].value, Quantity)
    assert round(found[READ].value.to("GB/s"), 3) == 7.877
    assert "nvme0n1; reads: PCIe 16 GT/s x4: 7.877 GB/s" in str(found[TOLD].value)


def test_its_datasheet_bounds_it_further_each_way_by_itself() -> None:
    sheet = {"read_bw": "7.0 GB/s", "write_bw": "4.0 GB/s", "source": "rev. 2"}
    found = read(NVME, disk(serial="S6B0NX0W100123", nvme=True, datasheet=sheet))
    assert (found[READ].value, found[WRITE].value) == (
        Quantity.parse("7 GB/s"),
        Quantity.parse("4 GB/s"),
    )
    other = read(NVME, disk(serial="ANOTHER", datasheet=sheet))
    assert other[READ].value != Quantity.parse("7 GB/s")


def test_namespaces_of_a_raid_share_the_ports_they_are_reached_by() -> None:
    found = read(FABRIC)
    assert isinstance(found[READ].value, Quantity)
    assert round(found[READ].value.to("GB/s"), 2) == 24.51
    assert "under md0 raid0" in str(found[TOLD].value)
    one = read(FABRIC.replace("controller nvme2 rdma\nport ens1f1 100000\n", ""))
    assert isinstance(one[READ].value, Quantity)
    assert round(one[READ].value.to("GB/s"), 2) == 12.25


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (VIRTIO, "vda is virtio, and so is what its link tells"),
        (FABRIC.replace("ens1f1 100000", "ens1f1"), "port ens1f0 tells no speed"),
        (FABRIC.replace("100000", "-1"), "tells no speed"),
        (NVME.replace("16.0 GT/s PCIe", "Unknown"), "tells no link"),
        (NVME.replace("0x144d", "0x1b36"), "emulated by QEMU"),
        ("device 0:42\nend\n", "no block device"),
        ("device 7:0\nleaf loop0\nserial\nwwid\nvirtual loop0\nend\n", "loop0 is virtual"),
    ],
)
def test_where_no_fact_gives_a_ceiling_none_is_made_up(text: str, why: str) -> None:
    found = read(text)
    for name in (READ, WRITE):
        assert found[name].value is None
        assert why in found[name].problem
    assert "no ceiling known" in str(found[TOLD].value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "device 1:2\n",
        "end\n",
        "device 1:2\nlink a 4 8 GT/s\nend\n",
        "device 1:2\nleaf a\nx y\nend",
    ],
)
def test_what_the_script_does_not_print_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="what lies below a folder"):
        way(text.encode())


def test_the_script_tells_the_way_of_a_folder_here(tmp_path: Path) -> None:
    odd = tmp_path / "a folder; $(exit 3) 'é"
    odd.mkdir()
    done = subprocess.run(
        ["sh", "-c", SCRIPT, "sh", str(odd)], capture_output=True, timeout=60, check=True
    )
    stat = odd.stat().st_dev
    major, minor = stat >> 8 & 0xFFF, stat & 0xFF | stat >> 12 & 0xFFF00
    found = way(done.stdout)
    assert found.device == f"{major}:{minor}"
    on_a_device = Path(f"/sys/dev/block/{found.device}").exists()
    assert bool(found.leaves) is on_a_device
    gone = subprocess.run(
        ["sh", "-c", SCRIPT, "sh", str(tmp_path / "none")], capture_output=True, timeout=60
    )
    assert gone.returncode == 1
