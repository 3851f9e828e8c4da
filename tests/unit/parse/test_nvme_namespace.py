import json
from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse import nvme_namespace

Recorded = Callable[[str], bytes]


def test_the_format_in_use(recorded: Recorded) -> None:
    found = nvme_namespace.namespace(recorded("nvme_id_ns/composed-2.x.json"))
    assert (found.size_blocks, found.in_use) == (15002931888, 0)
    assert (found.format.data_bytes, found.format.metadata_bytes) == (512, 0)
    text = nvme_namespace.namespace(recorded("nvme_id_ns/composed-2.x.txt"))
    assert (text.size_blocks, text.in_use) == (15002931888, 1)
    assert (text.format.data_bytes, text.format.metadata_bytes) == (4096, 8)
    assert text.format.performance == 0


def test_more_than_sixteen_formats_use_two_more_bits() -> None:
    formats = [{"ms": n, "ds": 9, "rp": 0} for n in range(20)]
    say = json.dumps({"nsze": 1, "flbas": 1 | 1 << 5, "lbafs": formats}).encode()
    assert nvme_namespace.namespace(say).format.metadata_bytes == 17


@pytest.mark.parametrize(
    "told",
    [
        {"flbas": 0, "lbafs": [{"ms": 0, "ds": 9, "rp": 0}]},
        {"nsze": 1, "lbafs": [{"ms": 0, "ds": 9, "rp": 0}]},
        {"nsze": 1, "flbas": 1, "lbafs": [{"ms": 0, "ds": 9, "rp": 0}]},
        {"nsze": 1, "flbas": 0, "lbafs": [{"ms": 0, "ds": 0, "rp": 0}]},
        {"nsze": 1, "flbas": 0, "lbafs": [{"ms": 0, "ds": 90, "rp": 0}]},
        {"nsze": 1, "flbas": 0, "lbafs": [{"ms": 0, "ds": 9, "rp": 7}]},
        {"nsze": 1, "flbas": 0},
    ],
)
def test_a_namespace_that_is_not_whole_is_refused(told: object) -> None:
    with pytest.raises(ParseError):
        nvme_namespace.namespace(json.dumps(told).encode())


def test_firmware_slots(recorded: Recorded) -> None:
    found = nvme_namespace.firmware_log(recorded("nvme_fw_log/composed-2.x.json"))
    assert (found.active_slot, found.next_slot) == (1, None)
    assert found.slots == {1: "GDC7302Q", 2: "GDC7202P"}
    pending = nvme_namespace.firmware_log(recorded("nvme_fw_log/composed-2.x-pending.txt"))
    assert (pending.active_slot, pending.next_slot) == (1, 2)
    assert pending.slots == {1: "GDC7302Q", 2: "GDC7402Q"}


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b"afi  : 0x0\nfrs1 : 0x51 (A)\n",
        b"afi  : 0x2\nfrs1 : 0x51 (A)\n",
        b"afi  : 0x1\nfrs1 : none\n",
        b"afi  : 0x1\nafi  : 0x2\nfrs1 : 0x51 (A)\n",
    ],
)
def test_slots_that_are_not_whole_are_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        nvme_namespace.firmware_log(answer)
