import json
from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.parse import nvme_selftest
from kvgate.probes import nvme

FIRST = ("nvme", "self-test-log", "/dev/nvme0n1", "-o", "json")
TESTS = nvme.PROBES[2]


def self_tests(*results: int, running: int = 0) -> bytes:
    reports = [{"Self test result": r, "Self test code": 1} for r in results]
    return json.dumps(
        {"Current Device Self-Test Operation": running, "List of Valid Reports": reports}
    ).encode()


def test_a_new_drive(server: Any, told: Any) -> None:
    found = told(nvme.ask_identity(server()))
    assert found["nvme.firmware", "SN0003"] == "GDC7302Q"
    assert found["nvme.lba_size", "SN0003"] == Quantity.of(512, "B")
    assert told(TESTS.ask(server()))["nvme.self_test_last", "SN0003"] == "completed without error"


def test_a_failed_self_test_counts_and_an_aborted_one_does_not(server: Any, told: Any) -> None:
    found = told(TESTS.ask(server({FIRST: self_tests(1, 7, 0, 15)})))
    assert found["nvme.self_test_failures", "SN0000"] == Quantity.of(1, "")
    assert found["nvme.self_test_last", "SN0000"] == "aborted by a self-test command"
    assert found["nvme.self_test_failures", "SN0001"] == Quantity.of(0, "")


def test_a_drive_that_never_tested_itself_or_is_at_it(server: Any, told: Any) -> None:
    found = told(TESTS.ask(server({FIRST: self_tests(15, running=2)})))
    assert found["nvme.self_test_last", "SN0000"] == "the drive has never tested itself"
    assert found["nvme.self_test_running", "SN0000"] is True


def test_a_drive_that_refuses_or_talks_nonsense_harms_no_other(server: Any, told: Any) -> None:
    for say, because in (((1, b"", b"Permission denied"), "sudo"), (b"{}", "current operation")):
        found = told(TESTS.ask(server({FIRST: say})))
        assert because in found["nvme.self_test_failures", "SN0000"]
        assert found["nvme.self_test_failures", "SN0001"] == Quantity.of(0, "")


def test_a_drive_that_is_gone(server: Any, told: Any) -> None:
    gone = server(disks=[{"serial": "GONE", "nvme": True}])
    for probe in nvme.PROBES:
        assert set(told(probe.ask(gone)).values()) == {"no NVMe disk answers to 'GONE'"}


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b"[]",
        b"nothing",
        b'{"Current Device Self-Test Operation": -1}',
        b'{"Current Device Self-Test Operation": 0, "List of Valid Reports": [{}]}',
    ],
)
def test_odd_logs_are_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        nvme_selftest.self_test_log(answer)
