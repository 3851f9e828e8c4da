"""No device is ever written that is in use, in any way that can be made with a loop device."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvgate.workloads.devices import Consent, DeviceRefusedError

if TYPE_CHECKING:
    from conftest import Lab  # the loop device of this folder

pytestmark = pytest.mark.whole

MKFS = ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0")


def test_a_free_declared_device_is_written(lab: Lab) -> None:
    before = lab.digest()
    lab.write(lab.clear())
    assert lab.digest() != before  # so that every test below could fail


def test_perl_opens_where_there_is_no_python(lab: Lab) -> None:
    lab.change(tools={**lab.witness.host.tools, "python3": "/nowhere/python3"})
    before = lab.digest()
    lab.write(lab.clear())
    assert lab.digest() != before
    lab.run("mkswap", lab.loop)
    assert "swap" in lab.refused()


# What is in use, in each way that can be made here


def mounted(lab: Lab) -> Iterator[None]:
    lab.run(*MKFS, lab.loop)
    (lab.folder / "mnt").mkdir()
    lab.run("mount", "-o", "ro", lab.loop, lab.folder / "mnt")
    try:
        yield
    finally:
        lab.run("umount", lab.folder / "mnt")


def mounted_elsewhere(lab: Lab) -> Iterator[None]:
    lab.run(*MKFS, lab.loop)
    (lab.folder / "mnt").mkdir()
    script = 'mount -o ro "$1" "$2" && echo mounted && cat'
    words = ["unshare", "-m", "sh", "-c", script, "sh", lab.loop, str(lab.folder / "mnt")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == b"mounted\n"
        assert str(lab.folder / "mnt") not in Path("/proc/self/mountinfo").read_text()
        yield
        other.stdin.close()


def swapped_on(lab: Lab) -> Iterator[None]:
    lab.run("mkswap", lab.loop)
    lab.run("swapon", lab.loop)
    try:
        yield
    finally:
        lab.run("swapoff", lab.loop)


def partitioned(lab: Lab) -> Iterator[None]:
    entry = bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little")
    table = b"\0" * 446 + entry + (4096).to_bytes(4, "little") + b"\0" * 48 + b"\x55\xaa"
    with Path(lab.loop).open("r+b") as device:
        device.write(table)
    yield


def formatted(lab: Lab) -> Iterator[None]:
    lab.run(*MKFS, lab.loop)
    yield


def swap_signature(lab: Lab) -> Iterator[None]:
    lab.run("mkswap", lab.loop)
    yield


def stale(offset: int, magic: bytes) -> Callable[[Lab], Iterator[None]]:
    def make(lab: Lab) -> Iterator[None]:
        with Path(lab.loop).open("r+b") as device:
            device.seek(offset)
            device.write(magic)
        yield

    return make


def held_exclusively(lab: Lab) -> Iterator[None]:
    held = os.open(lab.loop, os.O_RDONLY | os.O_EXCL)
    try:
        yield
    finally:
        os.close(held)


def opened(lab: Lab) -> Iterator[None]:
    with Path(lab.loop).open("rb"):
        yield


def opened_by_another_name(lab: Lab) -> Iterator[None]:
    """Containers have device files of their own, whose names are theirs."""
    alias = lab.folder / "alias"
    os.mknod(alias, stat.S_IFBLK | 0o600, Path(lab.loop).stat().st_rdev)
    with alias.open("rb"):
        yield


def opened_with_our_number(lab: Lab) -> Iterator[None]:
    words = ["sh", "-c", 'exec 9<"$1"; echo open; cat', "sh", lab.loop]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == b"open\n"
        yield
        other.stdin.close()


def locked(lab: Lab) -> Iterator[None]:
    with subprocess.Popen(
        ["flock", "-x", lab.loop, "sh", "-c", "echo locked; cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == b"locked\n"
        yield
        other.stdin.close()


def below_a_loop(lab: Lab) -> Iterator[None]:
    above = lab.run("losetup", "--find", "--show", lab.loop)
    try:
        yield
    finally:
        lab.run("losetup", "-d", above)


def read_only(lab: Lab) -> Iterator[None]:
    lab.run("blockdev", "--setro", lab.loop)
    try:
        yield
    finally:
        lab.run("blockdev", "--setrw", lab.loop)


def of_another_size(lab: Lab) -> Iterator[None]:
    os.truncate(lab.image, lab.SIZE - 512)
    lab.run("losetup", "--set-capacity", lab.loop)
    yield


IN_USE = {
    "mounted": (mounted, "is mounted on"),
    "mounted in another namespace": (mounted_elsewhere, "is mounted on"),
    "swap": (swapped_on, "is swap"),
    "partition table": (partitioned, "has a signature: "),
    "file system": (formatted, "has a signature: "),
    "swap, off": (swap_signature, "has a signature: "),
    "damaged LVM": (stale(512, b"LABELONE"), "has a signature: LVM"),
    "SPDK": (stale(0, b"SPDKBLOB"), "SPDK-blobstore"),
    "held exclusively": (held_exclusively, "can't be opened exclusively: EBUSY"),
    "open": (opened, "is open in process"),
    "open by another name": (opened_by_another_name, "is open in process"),
    "open as descriptor 9": (opened_with_our_number, "is open in process"),
    "locked": (locked, "is locked by another process"),
    "below a loop": (below_a_loop, "is what loop"),
    "read-only": (read_only, "is read-only"),
    "another size": (of_another_size, "not the declared"),
}
LATER = (
    "mounted in another namespace",
    "swap, off",
    "held exclusively",
    "open",
    "open by another name",
    "read-only",
)


@pytest.mark.parametrize("case", IN_USE)
def test_what_is_in_use_is_refused_and_nothing_is_written(lab: Lab, case: str) -> None:
    make, said = IN_USE[case]
    with contextlib.contextmanager(make)(lab):
        assert said in lab.refused()


@pytest.mark.parametrize("case", LATER)
def test_what_came_into_use_after_the_look_is_refused_by_the_guard(lab: Lab, case: str) -> None:
    cleared = lab.clear()
    make, _ = IN_USE[case]
    with contextlib.contextmanager(make)(lab):
        before = lab.digest()
        with pytest.raises(DeviceRefusedError, match="right before the write"):
            lab.write(cleared)
        assert lab.digest() == before


# What people said


def test_neither_the_inventory_nor_the_command_line_alone_is_enough(lab: Lab) -> None:
    identified = frozenset([lab.SERIAL])
    assert "--yes-destroy" in lab.refused(Consent(frozenset(), identified))
    assert "--yes-destroy" in lab.refused(Consent(frozenset(["OTHER"]), identified))
    assert "did not find it" in lab.refused(Consent(frozenset([lab.SERIAL]), frozenset()))
    lab.declare(destructive=False)
    assert "'destructive: true'" in lab.refused()
    lab.declare(size=None)
    assert "declares no size" in lab.refused()


def test_a_client_is_never_written_to(lab: Lab) -> None:
    lab.change(roles=["client"])
    assert "has not the role serving" in lab.refused()


def test_all_reasons_are_told_at_once(lab: Lab) -> None:
    lab.run(*MKFS, lab.loop)
    lab.declare(destructive=False, size="1 GB")
    said = lab.refused(Consent())
    for reason in ("destructive", "--yes-destroy", "did not find", "declared 1000000000", "ext4"):
        assert reason in said
    assert "wipefs -a" in said  # by hand: never by us


@pytest.mark.parametrize("tool", ["blkid", "wipefs", "lsblk"])
def test_a_missing_tool_is_a_refusal(lab: Lab, tool: str) -> None:
    lab.change(tools={**lab.witness.host.tools, tool: f"/nowhere/{tool}"})
    assert f"/nowhere/{tool}" in lab.refused()
