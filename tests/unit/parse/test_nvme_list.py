import json
from collections.abc import Callable
from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.parse.nvme_list import listing

Recorded = Callable[[str], bytes]
FLAT, TABLE = "nvme_list/composed-2.3-flat.json", "nvme_list/composed-2.3-table.txt"


def test_overflown_numbers_are_not_available(recorded: Recorded) -> None:
    (found,) = listing(recorded(FLAT)).namespaces
    assert (found.path, found.nsid, found.size_bytes) == ("/dev/nvme0n1", 1, 7_681_501_126_656)
    assert found.used_bytes is None  # -2147483648


def test_nested_by_subsystem_with_and_without_multipath(recorded: Recorded) -> None:
    found = listing(recorded("nvme_list/composed-2.11-nested.json"))
    assert found.shape == "nested"
    assert [(n.path, n.model, n.serial, n.sector_bytes) for n in found.namespaces] == [
        ("/dev/nvme0n1", "Example SSD 7.68TB", "EXS0000000001", 4096),
        ("/dev/nvme1n1", "Example Tier", "EXT0000000001", 512),
    ]
    assert [(c.name, c.cntlid, c.transport, c.subsystem) for c in found.controllers] == [
        ("nvme0", 65, "pcie", "nvme-subsys0"),
        ("nvme1", 1, "rdma", "nvme-subsys1"),
        ("nvme2", 2, "rdma", "nvme-subsys1"),
    ]


def test_the_table_is_decimal_and_rounded(recorded: Recorded) -> None:
    first, second = listing(recorded(TABLE)).namespaces
    assert (first.size_bytes, first.used_bytes, first.rounded) == (
        7_680_000_000_000,
        2_100_000,
        True,
    )
    assert (first.sector_bytes, first.model, first.nsid) == (4096, "Example SSD 7.68TB", 1)
    assert (second.used_bytes, second.size_bytes, second.sector_bytes) == (0, 536_870_000, 512)


def test_controllers_of_the_verbose_table(recorded: Recorded) -> None:
    first, second = listing(recorded("nvme_list/composed-2.3-verbose_table.txt")).controllers
    assert (first.address, first.namespaces) == ("0000:41:00.0", ("nvme0n1",))
    assert (second.address, second.subsystem, second.namespaces) == (
        "traddr=192.0.2.11,trsvcid=4420",
        "nvme-subsys1",
        (),
    )


def test_no_device_is_an_empty_list(recorded: Recorded) -> None:
    assert listing(b'{"Devices":[]}').namespaces == ()
    heading = b"".join(recorded(TABLE).splitlines(keepends=True)[:2])
    assert listing(heading).namespaces == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"PhysicalSize": 7_681_501_126_657},
        {"DevicePath": None},
        {"NameSpace": "one"},
        {"SectorSize": -512},
        {"ModelNumber": 4},
        {"UsedBytes": 1.5},
        {"UsedBytes": True},
    ],
)
def test_refused_json(recorded: Recorded, changes: dict[str, Any]) -> None:
    document = json.loads(recorded(FLAT))
    document["Devices"][0] |= changes
    with pytest.raises(ParseError, match="nvme list"):
        listing(json.dumps(document).encode())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b'{"Devices": {}}',
        b"No NVMe devices detected.\n",
        b'{"Devices":[{},{"Subsystems":[]}]}',
    ],
)
def test_refused(answer: bytes) -> None:
    with pytest.raises(ParseError, match="nvme list"):
        listing(answer)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"7.68  TB", b"7,68  TB"),
        (b"7.68  TB", b"7.68 TiB"),
        (b"512   B", b"512   X"),
        (b"2.10  MB /", b"2.15   B /"),
        (b"EXS0000000001  ", b"EXS0000000001"),
        (b"/dev/nvme0n1", b"nvme0n1"),
    ],
)
def test_refused_rows(recorded: Recorded, old: bytes, new: bytes) -> None:
    """Also a row whose columns are shifted: its cells would be cut through a number."""
    assert old in recorded(TABLE)
    with pytest.raises(ParseError, match=r"no row of the table|whole number of bytes"):
        listing(recorded(TABLE).replace(old, new, 1))
