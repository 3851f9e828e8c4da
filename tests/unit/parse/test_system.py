import decimal
from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse import system

Recorded = Callable[[str], bytes]


def test_os_release_as_debian_writes_it(recorded: Recorded) -> None:
    found = system.os_release(recorded("os_release/debian-12.txt"))
    assert (found["ID"], found["VERSION_ID"]) == ("debian", "12")
    assert found["PRETTY_NAME"] == "Debian GNU/Linux 12 (bookworm)"


def test_os_release_with_single_quotes_escapes_comments_and_crlf() -> None:
    found = system.os_release(b'# why\r\nID=\'arch\'\r\n\r\nNAME="a \\"b\\""\r\nEMPTY=\r\n')
    assert found == {"ID": "arch", "NAME": 'a "b"', "EMPTY": ""}


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"NAME=x\n",
        b"ID=\n",
        b"ID=a b\n",
        b'ID="open\n',
        b"no assignment\n",
        b"ID=\xff\n",
        b"ID=x\0\n",
    ],
)
def test_os_release_refuses(bad: bytes) -> None:
    with pytest.raises(ParseError, match="os-release"):
        system.os_release(bad)


def test_uname(recorded: Recorded) -> None:
    found = system.uname(recorded("uname/coreutils-9.1-debian-12.txt"))
    assert found == system.Uname(release="6.18.44-fc-v782", machine="x86_64")


def test_uname_takes_the_machine_not_the_platform() -> None:
    line = b"Linux h 2.6.18-194 #1 SMP Fri Apr 2 15:37:44 EDT 2010 i686 i686 i386 GNU/Linux\n"
    assert system.uname(line).machine == "i686"


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"Darwin h 21.6.0 x86_64",
        b"Linux h 6.1.0 #1 sparc64 GNU/Linux",
        b"Linux h six #1 x86_64 GNU/Linux",
        b"Linux h 6.1 x86_64 GNU/Linux\nLinux\n",
    ],
)
def test_uname_refuses(bad: bytes) -> None:
    with pytest.raises(ParseError, match="uname"):
        system.uname(bad)


def test_memory(recorded: Recorded) -> None:
    answer = recorded("meminfo/linux-6.18-kvm.txt")
    printed = int(answer.split(b"MemTotal:")[1].split()[0])
    assert system.mem_total_kib(answer) == printed


@pytest.mark.parametrize(
    "bad",
    [
        b"MemTotal: 0 kB\n",
        b"MemTotal: 1 MB\n",
        b"MemFree: 5 kB\n",
        b"MemTotal: 1 kB\nMemTotal: 2 kB",
        b"MemTotal: N/A kB\n",
        b"MemTotal: 24,5 kB\n",
    ],
)
def test_memory_refuses(bad: bytes) -> None:
    with pytest.raises(ParseError, match="meminfo"):
        system.mem_total_kib(bad)


@pytest.mark.parametrize(("listed", "count"), [(b"0\n", 1), (b"0-1\n", 2), (b"0,2-4,8", 5)])
def test_nodes_are_counted(listed: bytes, count: int) -> None:
    assert system.node_count(listed) == count


@pytest.mark.parametrize("bad", [b"", b"\n", b"0-", b"3-1", b"a", b"0-99999", b"0;1"])
def test_nodes_refuse(bad: bytes) -> None:
    with pytest.raises(ParseError, match="NUMA"):
        system.node_count(bad)


def test_time(recorded: Recorded) -> None:
    answer = recorded("date/coreutils-9.1.txt")
    assert system.epoch_s(answer) == decimal.Decimal(answer.decode().strip())
    with pytest.raises(ParseError, match="GNU coreutils"):  # busybox
        system.epoch_s(b"1700000000.%N\n")


@pytest.mark.parametrize("told", ["To be filled by O.E.M.", "Default string", "000000", "N/A", " "])
def test_a_serial_that_firmware_made_up_is_none(told: str) -> None:
    assert system.serial(told) is None


def test_a_real_serial_is_kept() -> None:
    assert system.serial(" SN0042 ") == "SN0042"


def test_machine_id(recorded: Recorded) -> None:
    assert system.machine_id(recorded("machine_id/made-up.txt")) == "0123456789abcdef" * 2
    assert system.machine_id(b"uninitialized\n") is None
    assert system.machine_id(b"") is None
    with pytest.raises(ParseError, match="32 hex"):
        system.machine_id(b"0123\n")


def test_file_system(recorded: Recorded) -> None:
    assert system.file_system(recorded("df/coreutils-9.1-ext4.txt"))[1] == "ext4"
    with pytest.raises(ParseError, match="df"):
        system.file_system(b"Filesystem Type\n")
