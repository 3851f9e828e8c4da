from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.versions import version


@pytest.mark.parametrize(
    ("file", "tool", "expected"),
    [
        ("fio-3.33", "fio", "3.33"),
        ("nvme-2.3", "nvme", "2.3"),
        ("lsblk-2.38.1", "lsblk", "2.38.1"),
    ],
)
def test_recorded(recorded: Callable[[str], bytes], file: str, tool: str, expected: str) -> None:
    assert version(recorded(f"tool_version/{file}.txt"), tool) == expected


@pytest.mark.parametrize(
    ("line", "tool", "expected"),
    [
        (b"fio-3.36-12-gabc\n", "fio", "3.36-12-gabc"),
        (b"Python 3.13.0rc1\n", "python", "3.13.0rc1"),
        (b"nvme version 1.16\n", "nvme", "1.16"),
        (b"lsblk from util-linux 2.37.2\r\n", "lsblk", "2.37.2"),
    ],
)
def test_other_versions(line: bytes, tool: str, expected: str) -> None:
    assert version(line, tool) == expected


@pytest.mark.parametrize("bad", [b"", b"fio\n", b"fio-x.y\n", b"command not found", b"fio-3\xff"])
def test_refused(bad: bytes) -> None:
    with pytest.raises(ParseError, match="fio"):
        version(bad, "fio")
