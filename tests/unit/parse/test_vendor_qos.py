from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse import vendor_qos

Recorded = Callable[[str], bytes]


def test_niccli_tells_each_device(recorded: Recorded) -> None:
    first, second = vendor_qos.niccli(recorded("niccli/composed-232-two-ports.txt"))
    assert (first.interface, first.address) == ("ens1np0", "0000:06:00.0")
    assert (first.pfc_enabled_priorities, first.trust) == ((3,), "dscp")
    assert first.dscp2prio == {48: 7, 26: 3}
    assert (second.interface, second.pfc_enabled_priorities) == ("ens2np0", ())
    assert (second.trust, second.dscp2prio) == (None, {})


def test_niccli_of_one_device_without_the_list() -> None:
    say = b"IEEE 8021QAZ ETS Configuration TLV:\n  PRIO_MAP: 0:0\nIEEE 8021QAZ PFC TLV:\n"
    (found,) = vendor_qos.niccli(say + b"         PFC enabled: 1 2 5\n")
    assert (found.interface, found.pfc_enabled_priorities) == (None, (1, 2, 5))


def test_nicctl_tells_each_nic(recorded: Recorded) -> None:
    first, second = vendor_qos.nicctl(recorded("nicctl/composed-1.117-two-nics.txt"))
    assert (first.address, first.trust) == ("0000:06:00.0", "dscp")
    assert first.pfc_enabled_priorities == (3,)
    assert (first.dscp2prio[26], first.dscp2prio[46], first.dscp2prio[0]) == (3, 6, 0)
    assert len(first.dscp2prio) == 64
    assert (second.trust, second.pfc_enabled_priorities) == ("pcp", ())


ETS = b"IEEE 8021QAZ ETS Configuration TLV:\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"niccli: no device\n",
        ETS,
        ETS + b"PFC enabled: yes\n",
        ETS + b"PFC enabled: 3\nPFC enabled: 4\n",
        ETS + b"PFC enabled: 3\nAPP#0:\nDSCP: 26\n",
        ETS + b"PFC enabled: 3\nAPP#0:\nPriority: 9\n",
        ETS + b"PFC enabled: 3\nAPP#0:\nPriority: 3\nDSCP: 64\n",
        ETS + b"PFC enabled: 3\nPriority: 3\nDSCP: 26\nPriority: 4\nDSCP: 26\n",
    ],
)
def test_what_niccli_does_not_print_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        vendor_qos.niccli(answer)


NIC = b"NIC : 4-4 (0000:06:00.0)\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"no card\n",
        NIC,
        NIC + b"Classification type : DSCP\n",
        NIC + b"PFC priority bitmap : 0x8\n",
        NIC + b"Classification type : DSCP\nPFC priority bitmap : 0x8\nPFC priority bitmap : 0x0\n",
        NIC
        + b"Classification type : DSCP\nPFC priority bitmap : 0x8\nDSCP : 9-3 ==> priority : 1\n",
        NIC
        + b"Classification type : DSCP\nPFC priority bitmap : 0x8\nDSCP : 80 ==> priority : 1\n",
    ],
)
def test_what_nicctl_does_not_print_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        vendor_qos.nicctl(answer)
