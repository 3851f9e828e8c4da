from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.dmi import inventory

Recorded = Callable[[str], bytes]
SERVER = "dmidecode/composed-3.4-server.txt"


def test_a_server(recorded: Recorded) -> None:
    found = inventory(recorded(SERVER))
    assert found.smbios_version == "3.5.0"
    assert found.firmware
    assert (found.firmware.version, found.firmware.release_date) == ("2.7", "02/29/2024")
    assert found.system
    assert found.board
    assert (found.system.serial, found.board.serial) == ("EX8308A0001", None)  # "Default string"
    assert found.chassis is None
    assert found.memory_error_correction == ("Multi-bit ECC",)
    assert [(p.name, p.populated, p.thread_count) for p in found.processors] == [
        ("P0", True, 192),
        ("P1", False, None),
    ]


def test_full_empty_and_unknown_slots(recorded: Recorded) -> None:
    full, empty, unknown = inventory(recorded(SERVER)).memory
    assert (full.populated, full.size_bytes) == (True, 64 * 2**30)
    assert (full.speed_mts, full.configured_speed_mts) == (5600, 4800)
    assert (full.total_width_bits, full.data_width_bits, full.rank) == (80, 64, 2)
    assert full.use == "System Memory"
    assert (empty.populated, empty.size_bytes, empty.speed_mts, empty.serial) == (
        False,
        None,
        None,
        None,
    )
    assert (unknown.populated, unknown.size_bytes) == (None, None)


@pytest.mark.parametrize(
    ("size", "bytes_"),
    [
        ("16384 MB", 2**34),
        ("64 GB", 2**36),
        ("512 kB", 2**19),
        ("1 TB", 2**40),
        ("Unknown", None),
    ],
)
def test_sizes_are_powers_of_1024(recorded: Recorded, size: str, bytes_: int | None) -> None:
    answer = recorded(SERVER).replace(b"Size: 64 GB", f"Size: {size}".encode(), 1)
    assert inventory(answer).memory[0].size_bytes == bytes_


def test_speeds_of_older_versions(recorded: Recorded) -> None:
    answer = recorded(SERVER).replace(b"5600 MT/s", b"2133 MHz")
    answer = answer.replace(
        b"Configured Memory Speed: 4800 MT/s", b"Configured Clock Speed: 1866 MHz"
    )
    device = inventory(answer).memory[0]
    assert (device.speed_mts, device.configured_speed_mts) == (2133, 1866)


def test_quiet_form_without_handles() -> None:
    found = inventory(b"Memory Device\n\tSize: 4 GB\n\tLocator: A\n\nMemory Device\n\tSize: 8 GB\n")
    assert [each.size_bytes for each in found.memory] == [2**32, 2**33]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Size: 64 GB", b"Size: 64 GiB"),
        (b"Size: 64 GB", b"Size: 6,4 GB"),
        (b"\tSize: Unknown\n", b""),
        (b"5600 MT/s", b"5600"),
        (b"5600 MT/s", b"5600 furlongs"),
        (b"Rank: 2", b"Rank: two"),
        (b"\tRank: 2\n", b"\tRank: 2\n\tRank: 4\n"),
    ],
)
def test_what_is_not_known_is_refused(recorded: Recorded, old: bytes, new: bytes) -> None:
    answer = recorded(SERVER).replace(old, new, 1)
    with pytest.raises(ParseError, match="dmidecode"):
        inventory(answer)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\n",
        b"# dmidecode 3.4\n",
        b"/dev/mem: Permission denied\n",
        b"# dmidecode 3.4\n# No SMBIOS nor DMI entry point found, sorry.\n",
    ],
)
def test_refused(answer: bytes) -> None:
    with pytest.raises(ParseError, match="dmidecode"):
        inventory(answer)
