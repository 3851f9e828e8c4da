"""Only the declared device is written, whatever its name means by then and whatever is told."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvgate.workloads.devices import DeviceRefusedError
from kvgate.workloads.devices_script import Places

if TYPE_CHECKING:
    from conftest import Lab  # the loop device of this folder

pytestmark = pytest.mark.whole


def test_another_disk_behind_the_name_between_look_and_write_is_not_written(lab: Lab) -> None:
    cleared = lab.clear()
    other = lab.folder / "other"
    other.write_bytes(b"another's data".ljust(lab.SIZE, b"\0"))
    lab.detach()
    lab.attach(other)
    lab.tell("ANOTHER-DISK")
    with pytest.raises(DeviceRefusedError, match="is 'attr serial"):
        lab.write(cleared)
    assert other.read_bytes() == b"another's data".ljust(lab.SIZE, b"\0")


def test_a_name_that_leads_elsewhere_after_the_look_is_not_followed(lab: Lab) -> None:
    folder = lab.folder / "dev"
    folder.mkdir()
    node = folder / lab.name
    number = Path(lab.loop).stat().st_rdev
    os.mknod(node, 0o600 | 0o060000, number)
    lab.places = Places(sys=lab.places.sys, dev=str(folder))
    cleared = lab.clear()
    other = lab.folder / "other"
    other.write_bytes(b"\1" * lab.SIZE)
    another = lab.run("losetup", "--find", "--show", other)
    try:
        node.unlink()
        os.mknod(node, 0o600 | 0o060000, Path(another).stat().st_rdev)
        with pytest.raises(DeviceRefusedError, match="right before the write"):
            lab.write(cleared)
        node.unlink()
        node.symlink_to(another)
        with pytest.raises(DeviceRefusedError, match="right before the write"):
            lab.write(cleared)
    finally:
        lab.run("losetup", "-d", another)
    assert other.read_bytes() == b"\1" * lab.SIZE


def test_a_tool_that_has_the_device_keeps_others_out_until_it_ends(lab: Lab) -> None:
    cleared = lab.clear()
    process = lab.witness.transport.start(
        cleared.guarded(["sh", "-c", "echo started; exec sleep 60"]), deadline_s=90
    )
    try:
        until = time.monotonic() + 30
        while "can't be opened exclusively" not in (said := lab.refused()):
            assert time.monotonic() < until, said
        with pytest.raises(OSError, match="busy"):
            os.close(os.open(lab.loop, os.O_RDONLY | os.O_EXCL))
    finally:
        process.stop()
    lab.write(lab.clear())


@pytest.mark.parametrize("told", ["", "KVGATE-LOOP-1-2", "sda; rm -rf /"])
def test_a_device_of_another_serial_is_not_the_declared_one(lab: Lab, told: str) -> None:
    lab.tell(told)
    assert "no device answers to it" in lab.refused()


def test_sysfs_and_lsblk_must_both_know_it(lab: Lab) -> None:
    lab.tell(lab.SERIAL, lsblk="OTHER")
    assert "by lsblk" in lab.refused()
    lab.tell("OTHER", lsblk=lab.SERIAL)
    assert "by /sys/block" in lab.refused()
    lab.tell(lab.SERIAL, size=lab.SIZE + 512)
    assert "by lsblk" in lab.refused()


def test_two_devices_with_the_serial_are_both_left_alone(lab: Lab) -> None:
    other = lab.folder / "sys/block/zzz0"
    shutil.copytree(lab.folder / "sys/block" / lab.name, other, symlinks=True)
    assert "several devices answer to it" in lab.refused()


def test_names_that_the_kernel_never_gave_run_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("$(touch pwned)", "a b; touch pwned", "-n", "`touch pwned`", "é\n")
    folder = lab.folder / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    holders = lab.folder / "sys/block" / lab.name / "holders"
    holders.unlink()
    holders.mkdir()
    for name in names[:-1]:
        (holders / name).touch()
        backing = lab.folder / "sys/block" / name / "loop"
        backing.mkdir(parents=True)
        (backing / "backing_file").write_text(f"/dev/{name}\n")
    said = lab.refused()
    assert all(f"is held by {name}" in said for name in names[:-1])
    (holders / names[-1]).touch()
    lab.refused()
    assert not list(folder.iterdir())


def test_what_root_started_ends_with_the_login_that_asked_for_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a login that is not root: what sudo started is out of its signals' reach."""
    tools = lab.folder / "bin"
    tools.mkdir()
    (tools / "sudo").write_text('#!/bin/sh\nshift\nexec setsid -w -- "$@"\n')
    (tools / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    lab.change(sudo="passwordless")
    started = lab.folder / "started"
    script = f'trap "" HUP; echo "$$" >{started}.new; mv {started}.new {started}; exec sleep 300'
    process = lab.witness.transport.start(lab.clear().guarded(["sh", "-c", script]), deadline_s=200)
    until = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    pid = int(started.read_text())
    process.kill()
    process.wait(30)
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until + 60
        time.sleep(0.05)
    lab.write(lab.clear())  # by sudo too, to its end
