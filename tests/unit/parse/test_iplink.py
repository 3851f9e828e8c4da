from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.iplink import interfaces

Recorded = Callable[[str], bytes]


def test_text_and_json_of_one_host_tell_the_same(recorded: Recorded) -> None:
    found = interfaces(recorded("ip_link/iproute2-6.1-virtio.json"))
    assert found == interfaces(recorded("ip_link/iproute2-6.1-virtio.txt"))
    assert [(each.name, each.mtu_bytes, each.operstate) for each in found] == [
        ("lo", 65_536, "UNKNOWN"),
        ("ifb0", 1500, "DOWN"),
        ("ifb1", 1500, "DOWN"),
        ("eth0", 1400, "UP"),
    ]


def test_no_carrier_and_parents() -> None:
    (found,) = interfaces(
        b"5: vlan7@ens3: <NO-CARRIER,BROADCAST,UP> mtu 9000 qdisc noqueue state LOWERLAYERDOWN\n"
        b"    link/ether 02:00:5e:00:53:09 brd ff:ff:ff:ff:ff:ff\n"
    )
    assert (found.name, found.parent, found.no_carrier, found.mtu_bytes) == (
        "vlan7",
        "ens3",
        True,
        9000,
    )
    assert found.address == "02:00:5e:00:53:09"


def test_empty_objects_are_nothing_and_a_missing_mtu_is_none() -> None:
    (found,) = interfaces(b'[{},{},{"ifname":"lo","flags":[]}]')
    assert (found.mtu_bytes, found.operstate, found.no_carrier) == (None, None, False)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"[{}]",
        b"{}",
        b'[{"ifname":"a"}]',
        b'[{"ifname":"a","flags":["UP"],"mtu":1.5}]',
        b'[{"ifname":"a","flags":[1]}]',
        b'[{"ifname":"a","flags":[],"operstate":1}]',
        b"hello\n",
        b"1: a: <UP> mtu large qdisc noop\n",
        b"1: a: <UP> mtu 1500 qdisc\n",
        b"    link/ether x\n",
        b"1: a: <UP> mtu 1500\n2: a: <UP> mtu 9000\n",
    ],
)
def test_refused(answer: bytes) -> None:
    with pytest.raises(ParseError, match="ip link"):
        interfaces(answer)
