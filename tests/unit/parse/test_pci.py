from collections.abc import Callable
from decimal import Decimal

import pytest

from kvgate.errors import ParseError
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
