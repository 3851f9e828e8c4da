from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.qos import dcb_pfc, mlnx_qos

Recorded = Callable[[str], bytes]
MLNX = "mlnx_qos/composed-5.2-prio3.txt"


def test_lossless_priority_3(recorded: Recorded) -> None:
    found = mlnx_qos(recorded(MLNX))
    assert (found.trust, found.dcbx_mode, found.cable_len_m) == ("dscp", "OS controlled", 7)
    assert found.pfc_enabled_priorities == (3,)
    assert (found.dscp2prio[26], found.dscp2prio[48], found.dscp2prio[7]) == (3, 6, 0)
    assert found.prio2buffer == (0, 0, 0, 1, 0, 0, 0, 0)
    assert found.buffer_bytes == (130_944, 130_944, 0, 0, 0, 0, 0, 0)
    assert [
        (tc.number, tc.tsa, tc.bandwidth_pct, tc.priorities) for tc in found.traffic_classes
    ] == [
        (0, "ets", 50, (0, 1)),
        (3, "ets", 50, (3,)),
        (6, "strict", None, (6,)),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\tenabled     0   0   0   1   0   0   0   0   \n", b""),
        (b"1   0   0   0   0   \n", b"1\n"),
        (b"priority    0   1   2", b"priority    0   2   1"),
        (b"Cable len: 7", b"Cable len: long"),
        (b"prio:3 dscp:31", b"prio:3 dscp:07"),
        (b"tc: 3", b"tc: 0"),
        (b"bw: 50%", b"bw: half"),
        (b"DCBX mode: OS controlled\n", b"DCBX mode: OS controlled"),
        (b"tc: 0 ratelimit", b"\t priority:  1\ntc: 0 ratelimit"),
        (b"Cable len: 7\n", b"Cable len: 7\nCable len: 8\n"),
    ],
)
def test_refused(recorded: Recorded, old: bytes, new: bytes) -> None:
    assert old in recorded(MLNX)
    with pytest.raises(ParseError, match="mlnx_qos"):
        mlnx_qos(recorded(MLNX).replace(old, new, 1))


def test_dcb(recorded: Recorded) -> None:
    text = dcb_pfc(recorded("dcb_pfc/composed-6.1.txt"))
    assert (text.pfc_cap, text.delay, text.macsec_bypass) == (8, 0, False)
    assert text.pfc_enabled_priorities == (3,)
    assert dcb_pfc(recorded("dcb_pfc/composed-6.1.json")) == text
    counted = dcb_pfc(recorded("dcb_pfc/composed-6.1-statistics.txt"))
    assert (counted.delay, counted.pfc_enabled_priorities) == (4096, (3, 4))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b"pfc-cap 8\n",
        b"prio-pfc 0:off 1:on\n",
        b"Error: no dev\n",
        b'{"prio_pfc":[true]}',
        b"prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off 3:off\n",
        b"prio-pfc 0:off 1:off 2:off 3:yes 4:off 5:off 6:off 7:off\n",
        b"pfc-cap x prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off\n",
        b"delay 1 delay 2 prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off\n",
        b'{"prio_pfc":[false,false,false,null,false,false,false,false]}',
    ],
)
def test_refused_dcb(answer: bytes) -> None:
    with pytest.raises(ParseError, match="dcb pfc"):
        dcb_pfc(answer)
