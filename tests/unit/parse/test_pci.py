from collections.abc import Callable
from decimal import Decimal

import pytest

from kvgate.errors import ParseError
from kvgate.parse import pci
from kvgate.parse.pci import DISPLAY, functions

Recorded = Callable[[str], bytes]
ONE = b"0000:00:00.0/vendor:0x8086\n0000:00:00.0/device:0x0d57\n0000:00:00.0/class:0x060000\n"


def test_virtual_devices_have_no_link(recorded: Recorded) -> None:
    found = functions(recorded("sysfs_pci/linux-6.18-virtio.txt"))
    assert len(found) == 6
    assert {each.width for each in found} == {None}
    assert found[1].id == "1af4:1045"


def test_links_of_a_server(recorded: Recorded) -> None:
    found = {each.address: each for each in functions(recorded("sysfs_pci/composed-server.txt"))}
    gpu, nic = found["0000:05:00.0"], found["0000:41:00.0"]
    assert (gpu.id, gpu.speed_gts, gpu.width) == ("1002:74a2", Decimal("32.0"), 16)
    assert gpu.kind in DISPLAY
    assert (nic.width, nic.width_max) == (8, 16)
    silent = found["0000:43:00.0"]
    assert (silent.speed_gts, silent.width, silent.width_max) == (None, None, None)


@pytest.mark.parametrize(
    "bad",
    [
        b"vda/vendor:0x8086\n",
        b"0000:00:00.0/vendor:0x8086\n",
        ONE.replace(b"0x8086", b"8086"),
        ONE + b"0000:00:00.0/current_link_speed:fast\n",
        ONE + b"0000:00:00.0/max_link_width:x16\n",
        ONE + b"0000:00:00.0/current_link_speed:16,0 GT/s PCIe\n",
    ],
)
def test_refused(bad: bytes) -> None:
    with pytest.raises(ParseError, match="/sys/bus/pci"):
        functions(bad)


REGION = "0x{0:016x} 0x{1:016x} 0x000000000014220c"
NONE = REGION.format(0, 0)


def test_windows_tell_the_largest_bar_and_memory_for_others(
    recorded: Callable[[str], bytes],
) -> None:
    gpu, drive = pci.windows(recorded("sysfs_pci_windows/composed-server.txt"))
    assert (gpu.bar_bytes, gpu.p2p_bytes, gpu.numa_node) == (2**38, None, 0)
    assert (drive.p2p_bytes, drive.p2p_published, drive.numa_node) == (2**27, True, None)


def test_only_the_first_six_regions_are_bars() -> None:
    lines = [NONE] * pci.BARS + [REGION.format(0x1000, 0x1FFF)]
    assert pci.largest_bar("\n".join(lines).encode()) is None
    assert pci.largest_bar(REGION.format(0x1000, 0x1FFF).encode()) == 4096


@pytest.mark.parametrize(
    "answer",
    [
        b"card0/resource:0x0 0x0 0x0\n",
        b"0000:05:00.0/numa_node:0\n",
        b"0000:05:00.0/resource:nonsense\n",
        b"0000:05:00.0/resource:0x0 0x0 0x0\n0000:05:00.0/p2pmem/published:yes\n",
        b"0000:05:00.0/resource:0x0 0x0 0x0\n0000:05:00.0/p2pmem/size:-1\n",
        b"0000:05:00.0/resource:0x0 0x0 0x0\n0000:05:00.0/numa_node:near\n",
    ],
)
def test_windows_that_are_odd_are_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        pci.windows(answer)
