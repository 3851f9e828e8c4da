from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.net import Port, ports

Recorded = Callable[[str], bytes]


def named(answer: bytes) -> dict[str, Port]:
    return {port.name: port for port in ports(answer)}


def test_a_virtual_port_reports_no_speed(recorded: Recorded) -> None:
    eth0 = named(recorded("sysfs_net/linux-6.18-virtio.txt"))["eth0"]
    assert (eth0.speed_mbps, eth0.speed_as_told) == (None, "-1")
    assert eth0.carrier
    assert eth0.attached


def test_ports_of_a_server(recorded: Recorded) -> None:
    found = named(recorded("sysfs_net/composed-server.txt"))
    assert found["ens1f0np0"].speed_mbps == 100_000
    assert found["ens1f1np1"].carrier is False
    assert found["eno1"].carrier is None  # administratively down: not the same as no carrier
    assert found["ib0"].mac == "80:00:00:48:fe:80:00:00:00:00:00:00:02:00:00:00:00:00:00:09"
    assert not found["bond0"].attached


@pytest.mark.parametrize("speed", [b"-1", b"4294967295", b"0", b""])
def test_no_speed_is_none(speed: bytes) -> None:
    assert named(b"e/speed:" + speed + b"\n")["e"].speed_mbps is None


@pytest.mark.parametrize(
    "bad",
    [
        b"e/speed:fast\n",
        b"e/speed:-2\n",
        b"e/carrier:2\n",
        b"e/address:zz\n",
        b"eth0\n",
        b"e/speed:10\ne/speed:20\n",
        b"e/speed:1,5\n",
    ],
)
def test_refused(bad: bytes) -> None:
    with pytest.raises(ParseError, match="/sys/class/net"):
        ports(bad)
