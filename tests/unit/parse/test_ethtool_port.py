from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse import ethtool_port

Recorded = Callable[[str], bytes]


def test_rings_now_and_at_most(recorded: Recorded) -> None:
    found = ethtool_port.rings(recorded("ethtool_g/composed-6.x-mlx5.txt"))
    assert (found.device, found.rx, found.rx_max) == ("ens1f0np0", 8192, 8192)
    assert (found.tx, found.tx_max) == (1024, 8192)
    virtio = ethtool_port.rings(recorded("ethtool_g/ethtool-6.1-virtio.txt"))
    assert (virtio.rx, virtio.rx_max) == (256, 256)


def test_pause_as_set_not_as_negotiated(recorded: Recorded) -> None:
    off = ethtool_port.pause(recorded("ethtool_a/composed-6.x.txt"))
    assert (off.autonegotiate, off.rx, off.tx) == (False, False, False)
    on = ethtool_port.pause(recorded("ethtool_a/composed-6.x-negotiated.txt"))
    assert (on.autonegotiate, on.rx, on.tx) == (True, True, True)


@pytest.mark.parametrize(
    "answer",
    [
        b"Ring parameters for eth0:\nPre-set maximums:\nRX: 256\n",
        b"RX: 256\n",
        b"Ring parameters for eth0:\nRX: many\nCurrent hardware settings:\nRX: 1\n",
        b"Ring parameters for eth0:\nRing parameters for eth1:\n",
    ],
)
def test_rings_that_are_not_whole_are_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        ethtool_port.rings(answer)


@pytest.mark.parametrize(
    "answer",
    [
        b"netlink error: Operation not supported\n",
        b"Pause parameters for eth0:\nRX: on\n",
        b"Pause parameters for eth0:\nRX: on\nTX: perhaps\n",
        b"Pause parameters for eth0:\nRX: on\nRX: off\nTX: on\n",
    ],
)
def test_pause_that_is_not_whole_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        ethtool_port.pause(answer)
