from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.nvme_errors import error_log

Recorded = Callable[[str], bytes]


def test_json(recorded: Recorded) -> None:
    found = error_log(recorded("nvme_error_log/composed-2.x.json"))
    assert (len(found.entries), len(found.errors), found.declared_entries) == (2, 1, None)
    assert (found.errors[0].error_count, found.errors[0].status_field) == (110, 8194)
    assert found.errors[0].lba is None  # all ones: no LBA


def test_text(recorded: Recorded) -> None:
    found = error_log(recorded("nvme_error_log/composed-2.x.txt"))
    assert (found.declared_entries, len(found.entries)) == (64, 2)
    (error,) = found.errors
    assert (error.index, error.sqid, error.cmdid, error.lba) == (0, 3, 0x500F, 0x1D4C1000)
    assert error.status_text
    assert error.status_text.startswith("Unrecovered Read Error")


def test_an_empty_log_is_no_error() -> None:
    assert error_log(b'{"errors":[]}').errors == ()
    assert error_log(b"Error Log Entries for device:nvme0 entries:0\n.....\n").entries == ()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b'{"errors":[{}]}',
        b'{"errors":[{"error_count":1}]}',
        b'{"errors":{}}',
        b"error_count : 1\n",
        b" Entry[ 0]\nerror_count : 1\n",
        b" Entry[ 0]\nerror_count : N/A\nstatus_field : 0\n",
        2 * b" Entry[ 0]\nerror_count : 1\nstatus_field : 0\n",
        b" Entry[ 0]\nerror_count : 1\nerror_count : 2\nstatus_field : 0\n",
        b"Error Log Entries for device:nvme0 entries:0\n"
        b" Entry[ 0]\nerror_count : 1\nstatus_field : 0\n",
    ],
)
def test_refused(answer: bytes) -> None:
    with pytest.raises(ParseError, match="nvme error-log"):
        error_log(answer)
