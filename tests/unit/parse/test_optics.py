from collections.abc import Callable
from decimal import Decimal

import pytest

from kvgate.errors import ParseError
from kvgate.parse import optics

Recorded = Callable[[str], bytes]


def test_four_lanes_and_an_alarm(recorded: Recorded) -> None:
    found = optics.module(recorded("ethtool_m/composed-6.x-qsfp28.txt"))
    assert found.identifier == "0x11 (QSFP28)"
    assert (found.vendor, found.part_number) == ("SAMPLE OPTICS", "SQ28-SR4-100")
    assert found.temperature_c == Decimal("41.52")
    assert [str(lane.dbm) for lane in found.received] == ["-0.55", "-0.45", "-3.66", "-0.57"]
    assert len(found.sent) == 4
    assert found.alarms == ("Rx power low warning (Channel 3)",)


def test_no_light_is_no_power_in_dbm(recorded: Recorded) -> None:
    found = optics.module(recorded("ethtool_m/composed-6.x-sfp28-dark.txt"))
    assert [(lane.milliwatt, lane.dbm) for lane in found.received] == [(Decimal("0.0000"), None)]
    assert found.alarms == ("Laser rx power low alarm", "Laser rx power low warning")


def test_copper_has_no_diagnostics(recorded: Recorded) -> None:
    found = optics.module(recorded("ethtool_m/composed-6.x-copper.txt"))
    assert (found.received, found.sent, found.temperature_c, found.alarms) == ((), (), None, ())


@pytest.mark.parametrize(
    "answer",
    [
        b"Offset\t\tValues\n------\t\t------\n0x0000:\t\t18 00 00\n",
        b"netlink error: Operation not supported\n",
        b"Identifier : 0x11 (QSFP28)\nIdentifier : 0x03 (SFP)\n",
        b"Identifier : 0x11 (QSFP28)\nModule temperature : hot\n",
        b"Identifier : 0x11 (QSFP28)\nLaser output power : 1,0340 mW / 0,15 dBm\n",
        b"Identifier : 0x11 (QSFP28)\nLaser rx power low alarm : Maybe\n",
    ],
)
def test_what_is_not_known_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        optics.module(answer)
