from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.nvme_ctrl import controller

Recorded = Callable[[str], bytes]


@pytest.mark.parametrize("name", ["composed-2.x.json", "composed-2.x.txt"])
def test_both_forms(recorded: Recorded, name: str) -> None:
    found = controller(recorded(f"nvme_id_ctrl/{name}"))
    assert (found.serial, found.model, found.firmware) == (
        "EXS0000000001",
        "Example SSD 7.68TB",
        "EX10",
    )
    assert (found.version, found.cntlid, found.mdts) == ("2.0.0", 65, 6)
    assert (found.tnvmcap_bytes, found.wctemp_c) == (7_681_501_126_656, 78)


def test_no_threshold_and_no_field_are_none(recorded: Recorded) -> None:
    found = controller(recorded("nvme_id_ctrl/composed-2.x.txt"))
    assert (found.cctemp_c, found.sanicap) == (None, None)
    assert controller(b'{"vid":1,"ver":0,"tnvmcap":"N/A"}').version is None
    assert controller(b'{"vid":1,"ver":0,"tnvmcap":"N/A"}').tnvmcap_bytes is None


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b'{"vid":-1}',
        b'{"vid":1,"wctemp":1.5}',
        b'{"vid":1,"sn":4}',
        b"vid : x\n",
        b"vid       : 0x1\nvid       : 0x2\n",
        b"NVME Identify Controller:\n",
        b"vid : 0x1\nSTRANGE\n",
    ],
)
def test_refused(answer: bytes) -> None:
    with pytest.raises(ParseError, match="nvme id-ctrl"):
        controller(answer)
