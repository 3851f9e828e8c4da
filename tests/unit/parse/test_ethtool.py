from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse import registry
from kvgate.parse.ethtool import settings, statistics

Recorded = Callable[[str], bytes]


def test_two_ports(recorded: Recorded) -> None:
    up, down = settings(recorded("ethtool/composed-6.x-200g.txt"))
    assert (up.device, up.speed_mbps, up.lanes, up.link_detected) == ("ens3f0np0", 200_000, 4, True)
    assert (up.supported_fec, up.advertised_fec, up.partner_fec) == (
        ("None", "RS", "BASER"),
        ("RS",),
        None,
    )
    assert up.autonegotiation is True
    assert (down.device, down.speed_mbps, down.duplex) == ("ens3f1np1", None, None)
    assert (down.link_detected, down.link_reason) == (False, "No cable")


def test_a_virtual_port_has_no_speed(recorded: Recorded) -> None:
    (found,) = settings(recorded("ethtool/ethtool-6.1-virtio.txt"))
    assert (found.speed_mbps, found.link_detected, found.supported_fec) == (None, True, None)


@pytest.mark.parametrize("speed", ["Unknown!", "65535Mb/s", "4294967295Mb/s", "Unknown! (0)"])
def test_unknown_speeds(speed: str) -> None:
    (found,) = settings(f"Settings for a:\n\tSpeed: {speed}\n".encode())
    assert found.speed_mbps is None


def test_complaints_are_kept() -> None:
    (found,) = settings(b"Cannot get link status: x\nSettings for a:\nNo data available\n")
    assert found.warnings == ("Cannot get link status: x", "No data available")
    assert registry.parse("ethtool", b"Settings for a:\nNo data available\n", 75) == settings(
        b"Settings for a:\nNo data available\n"
    )


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\n",
        b"Settings for a:\n\tSpeed: 10\n",
        b"Settings for a:\n\tSpeed: 1,5Mb/s\n",
        b"Settings for a:\n\tLink detected: perhaps\n",
        b"Settings for a:\n\tLanes: four\n",
        b"Settings for a:\n\tSpeed: 10Mb/s\n\tSpeed: 100Mb/s\n",
        b"netlink error: No such device\n",
    ],
)
def test_refused(answer: bytes) -> None:
    with pytest.raises(ParseError, match="ethtool"):
        settings(answer)


def test_names_with_digits_are_kept_apart(recorded: Recorded) -> None:
    (found,) = statistics(recorded("ethtool_S/composed-6.x-prio.txt"))
    assert (found.counters["rx_prio3_pause"], found.counters["rx_prio7_pause"]) == (98_765, 0)
    assert found.counters["[0]: rx_ucast_packets"] == 17
    assert found.counters["[1]: rx_ucast_packets"] == 18
    assert found.counters["outbound_pci_stalled_wr"] == 2**64 - 1
    assert found.errors() == ("rx_discards_phy",)


def test_a_recorded_virtual_port(recorded: Recorded) -> None:
    (found,) = statistics(recorded("ethtool_S/ethtool-6.1-virtio.txt"))
    assert (found.counters["rx_kicks"], found.counters["rx0_kicks"]) == (1121, 1121)


def test_readings_are_kept_apart() -> None:
    found = statistics(b"NIC statistics:\n a: 1\nNIC statistics:\n a: 3\n")
    assert [each.counters for each in found] == [{"a": 1}, {"a": 3}]


def test_no_counters_is_no_zero() -> None:
    (found,) = statistics(b"no stats available\n")
    assert found.counters == {}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"NIC statistics:\n",
        b"NIC statistics:\n a: N/A\n",
        b"NIC statistics:\n a: -1\n",
        b"NIC statistics:\n a: 1\n a: 2\n",
        b"NIC statistics:\n a: 1,5\n",
        b"NIC statistics:\n a\n",
    ],
)
def test_refused_statistics(answer: bytes) -> None:
    with pytest.raises(ParseError, match="ethtool -S"):
        statistics(answer)


def test_a_failed_command_is_no_reading() -> None:
    with pytest.raises(ParseError, match="exit code 75"):
        registry.parse("ethtool_S", b"NIC statistics:\n a: 1\n", 75)
