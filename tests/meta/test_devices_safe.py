"""No device is ever written that is not free, and surely the declared one: with loop devices.

Loop devices have no serial number: a folder like /sys, whose attributes are links to the kernel's
own, gives them one, and an lsblk under the host's 'tools' tells the same. Real drives, LVM, md and
multipath need the VM lab.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvgate.model.record import Evidence
from kvgate.spec.declared import Declared
from kvgate.spec.inventory import Host
from kvgate.spec.workload import FioWorkload
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness
from kvgate.workloads import devices, fio_device
from kvgate.workloads.devices import Consent, DeviceRefusedError
from kvgate.workloads.devices_runner import refuse_unstarted
from kvgate.workloads.devices_script import FD_PATH, Places

SERIAL = "KVGATE-LOOP-1"
SIZE = 16 * 2**20
YES = Consent(frozenset([SERIAL]), frozenset([SERIAL]))
WRITE = ("dd", "if=/dev/urandom", f"of={FD_PATH}", "bs=65536", "count=4", "conv=fsync,nocreat")


MKFS = ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0")


def run(*words: str | Path) -> str:
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PATH": path},
    )
    return done.stdout.strip()


def no_loops() -> str:
    """Return why loop devices can't be made here; empty if they can."""
    if os.geteuid() != 0:
        return "loop devices are made by root only"
    tools = ("losetup", "blkid", "wipefs", "mkswap", "mkfs.ext4")
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    if missing := [tool for tool in tools if not shutil.which(tool, path=path)]:
        return f"not installed: {', '.join(missing)}"
    try:
        run("losetup", "-f")
    except subprocess.SubprocessError as err:
        return f"no loop device can be had here: {err}"
    return ""


pytestmark = pytest.mark.skipif(bool(no_loops()), reason=no_loops() or "they can")


@dataclasses.dataclass
class Lab:
    """A loop device on a file, known by a serial number, and a host that declares it."""

    folder: Path
    image: Path
    loop: str
    witness: Witness
    kept: list[Evidence]
    places: Places

    @property
    def name(self) -> str:
        return self.loop.rpartition("/")[2]

    def attach(self, image: Path, *options: str) -> None:
        """Put `image` behind the loop device."""
        run("losetup", *options, self.loop, image)

    def detach(self) -> None:
        run("losetup", "-d", self.loop)

    def tell(self, serial: str, *, lsblk: str | None = None, size: int = SIZE) -> None:
        """Let sysfs tell `serial` of the device, and lsblk the same or `lsblk`."""
        (self.folder / "sys/block" / self.name / "serial").write_text(f"{serial}\n")
        told = serial if lsblk is None else lsblk
        row = f'"name":"{self.name}","type":"disk","size":{size},"serial":"{told}"'
        script = f'#!/bin/sh\necho \'{{"blockdevices":[{{{row},"wwn":null,"model":null}}]}}\'\n'
        (self.folder / "lsblk").write_text(script)
        (self.folder / "lsblk").chmod(0o755)

    def declare(self, **disk: object) -> None:
        """Declare the disk anew, with `disk` changed."""
        declared = {"serial": SERIAL, "size": f"{SIZE} B", "destructive": True} | disk
        self.change(declared=Declared.model_validate({"disks": [declared]}))

    def change(self, **of_host: object) -> None:
        host = self.witness.host.model_copy(update=of_host)
        self.witness = dataclasses.replace(self.witness, host=host)

    def clear(self, consent: Consent = YES) -> devices.ClearedDevice:
        [disk] = self.witness.host.declared.disks
        return devices.clear(self.witness, disk, consent, places=self.places)

    def write(self, device: devices.KnownDevice) -> None:
        """Write to the device under its guard; raises DeviceRefusedError."""
        asked = self.witness.ask(device.guarded(WRITE), timeout_s=60)
        refuse_unstarted(asked.result, device)
        asked.result.expect_ok()

    def digest(self) -> str:
        """Return the SHA-256 of what is on the medium."""
        with Path(self.loop).open("rb") as device:
            os.fsync(device.fileno())
        return hashlib.sha256(self.image.read_bytes()).hexdigest()

    def refused(self, consent: Consent = YES) -> str:
        """Return why the device is not cleared; nothing of it was written."""
        before = self.digest()
        with pytest.raises(DeviceRefusedError) as refusal:
            self.write(self.clear(consent))
        assert self.digest() == before
        assert refusal.value.evidence
        assert all(reason.startswith(f"box: {SERIAL}") for reason in refusal.value.reasons)
        return "\n".join(refusal.value.reasons)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Yield a free, declared, known device."""
    image = tmp_path / "image"
    image.write_bytes(b"somebody's data".ljust(SIZE, b"\0"))
    loop = run("losetup", "--find", "--show", image)
    name = loop.rpartition("/")[2]
    try:
        told = tmp_path / "sys/block" / name
        told.mkdir(parents=True)
        for path in Path("/sys/block", name).iterdir():
            (told / path.name).symlink_to(path)
        numbers = tmp_path / "sys/dev/block"
        numbers.mkdir(parents=True)
        (numbers / (told / "dev").read_text().strip()).symlink_to(told)
        for other in Path("/sys/block").iterdir():
            if other.name != name:
                (told.parent / other.name).symlink_to(other)
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        kept: list[Evidence] = []
        host = Host(
            roles=["serving"],
            transport="local",
            scratch=str(scratch),
            tools={"lsblk": str(tmp_path / "lsblk"), "python3": sys.executable},
            name="box",
        )
        transport = LocalTransport("box")

        def keep(piece: Evidence) -> str:
            kept.append(piece)
            return hashlib.sha256(repr(piece).encode()).hexdigest()

        witness = Witness(host, transport, keep)
        made = Lab(tmp_path, image, loop, witness, kept, Places(sys=str(tmp_path / "sys")))
        made.tell(SERIAL)
        made.declare()
        yield made
        transport.close()
    finally:
        subprocess.run(["losetup", "-d", loop], check=False, capture_output=True, timeout=60)


def test_a_free_declared_device_is_written(lab: Lab) -> None:
    before = lab.digest()
    lab.write(lab.clear())
    assert lab.digest() != before  # so that every test below could fail


def test_perl_opens_where_there_is_no_python(lab: Lab) -> None:
    lab.change(tools={**lab.witness.host.tools, "python3": "/nowhere/python3"})
    before = lab.digest()
    lab.write(lab.clear())
    assert lab.digest() != before
    run("mkswap", lab.loop)
    assert "swap" in lab.refused()


# What is in use, in each way that can be made here


def mounted(lab: Lab) -> Iterator[None]:
    run(*MKFS, lab.loop)
    (lab.folder / "mnt").mkdir()
    run("mount", "-o", "ro", lab.loop, lab.folder / "mnt")
    yield
    run("umount", lab.folder / "mnt")


def mounted_elsewhere(lab: Lab) -> Iterator[None]:
    run(*MKFS, lab.loop)
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
    run("mkswap", lab.loop)
    run("swapon", lab.loop)
    yield
    run("swapoff", lab.loop)


def partitioned(lab: Lab) -> Iterator[None]:
    entry = bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little")
    table = b"\0" * 446 + entry + (4096).to_bytes(4, "little") + b"\0" * 48 + b"\x55\xaa"
    with Path(lab.loop).open("r+b") as device:
        device.write(table)
    yield


def formatted(lab: Lab) -> Iterator[None]:
    run(*MKFS, lab.loop)
    yield


def swap_signature(lab: Lab) -> Iterator[None]:
    run("mkswap", lab.loop)
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
    yield
    os.close(held)


def opened(lab: Lab) -> Iterator[None]:
    with Path(lab.loop).open("rb"):
        yield


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
    above = run("losetup", "--find", "--show", lab.loop)
    name = above.rpartition("/")[2]
    yield
    run("losetup", "-d", above)
    assert name


def read_only(lab: Lab) -> Iterator[None]:
    lab.detach()
    lab.attach(lab.image, "--read-only")
    yield


def of_another_size(lab: Lab) -> Iterator[None]:
    os.truncate(lab.image, SIZE - 512)
    run("losetup", "--set-capacity", lab.loop)
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
    "locked": (locked, "is locked by another process"),
    "below a loop": (below_a_loop, "is what loop"),
    "read-only": (read_only, "is read-only"),
    "another size": (of_another_size, "not the declared"),
}
LATER = ("mounted in another namespace", "swap, off", "held exclusively", "open", "read-only")


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


# Which device it is


def test_another_disk_behind_the_name_between_look_and_write_is_not_written(lab: Lab) -> None:
    cleared = lab.clear()
    other = lab.folder / "other"
    other.write_bytes(b"another's data".ljust(SIZE, b"\0"))
    lab.detach()
    lab.attach(other)
    lab.tell("ANOTHER-DISK")
    with pytest.raises(DeviceRefusedError, match="is 'attr serial"):
        lab.write(cleared)
    assert other.read_bytes() == b"another's data".ljust(SIZE, b"\0")


def test_a_name_that_leads_elsewhere_after_the_look_is_not_followed(lab: Lab) -> None:
    folder = lab.folder / "dev"
    folder.mkdir()
    node = folder / lab.name
    number = Path(lab.loop).stat().st_rdev
    os.mknod(node, 0o600 | 0o060000, number)
    lab.places = Places(sys=lab.places.sys, dev=str(folder))
    cleared = lab.clear()
    other = lab.folder / "other"
    other.write_bytes(b"\1" * SIZE)
    another = run("losetup", "--find", "--show", other)
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
        run("losetup", "-d", another)
    assert other.read_bytes() == b"\1" * SIZE


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


@pytest.mark.parametrize("told", ["", "OTHER", f"{SERIAL}-2", "sda; rm -rf /", "$(reboot)"])
def test_a_device_of_another_serial_is_not_the_declared_one(lab: Lab, told: str) -> None:
    lab.tell(told)
    assert "no device answers to it" in lab.refused()


def test_sysfs_and_lsblk_must_both_know_it(lab: Lab) -> None:
    lab.tell(SERIAL, lsblk="OTHER")
    assert "by lsblk" in lab.refused()
    lab.tell("OTHER", lsblk=SERIAL)
    assert "by /sys/block" in lab.refused()
    lab.tell(SERIAL, size=SIZE + 512)
    assert "by lsblk" in lab.refused()


def test_two_devices_with_the_serial_are_both_left_alone(lab: Lab) -> None:
    other = lab.folder / "sys/block/zzz0"
    shutil.copytree(lab.folder / "sys/block" / lab.name, other, symlinks=True)
    assert "several devices answer to it" in lab.refused()


@pytest.mark.parametrize("name", ["$(touch pwned)", "a b; touch pwned", "-n", "`touch pwned`"])
def test_names_that_the_kernel_never_gave_run_nothing(
    lab: Lab, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lab.folder / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    holders = lab.folder / "sys/block" / lab.name / "holders"
    holders.unlink()
    holders.mkdir()
    (holders / name).touch()
    assert f"is held by {name}" in lab.refused()
    backing = lab.folder / "sys/block" / name / "loop"
    backing.mkdir(parents=True)
    (backing / "backing_file").write_text(f"/dev/{name}\n")
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


# What people said


def test_neither_the_inventory_nor_the_command_line_alone_is_enough(lab: Lab) -> None:
    identified = frozenset([SERIAL])
    assert "--yes-destroy" in lab.refused(Consent(frozenset(), identified))
    assert "--yes-destroy" in lab.refused(Consent(frozenset(["OTHER"]), identified))
    assert "did not find it" in lab.refused(Consent(frozenset([SERIAL]), frozenset()))
    lab.declare(destructive=False)
    assert "'destructive: true'" in lab.refused()
    lab.declare(size=None)
    assert "declares no size" in lab.refused()


def test_a_client_is_never_written_to(lab: Lab) -> None:
    lab.change(roles=["client"])
    assert "has not the role serving" in lab.refused()


def test_all_reasons_are_told_at_once(lab: Lab) -> None:
    run(*MKFS, lab.loop)
    lab.declare(destructive=False, size="1 GB")
    said = lab.refused(Consent())
    for reason in ("destructive", "--yes-destroy", "did not find", "declared 1000000000", "ext4"):
        assert reason in said
    assert "wipefs -a" in said  # by hand: never by us


@pytest.mark.parametrize("tool", ["blkid", "wipefs", "lsblk"])
def test_a_missing_tool_is_a_refusal(lab: Lab, tool: str) -> None:
    lab.change(tools={**lab.witness.host.tools, tool: f"/nowhere/{tool}"})
    assert f"/nowhere/{tool}" in lab.refused()


# fio

LOAD = FioWorkload.model_validate(
    {
        "rounds": 1,
        "ramp": "0 s",
        "runtime": "1 s",
        "size": "9 MB",
        "token": "4096 B",
        "ranks": 2,
        "jobs": ["kv-restore"],
    }
)


def test_fio_writes_a_cleared_device_and_says_whose_data_is_left(lab: Lab) -> None:
    [disk] = lab.witness.host.declared.disks
    before = lab.digest()
    with fio_device.prepare(lab.witness, disk, LOAD, YES, places=lab.places) as place:
        answer = fio_device.run(lab.witness, "kv-restore", workload=LOAD, place=place, disk=disk)
    told = {reading.name: reading.value for reading in answer.readings}
    assert (told["fio.left_behind"], told["fio.direct"]) == ("ours", True)
    assert told["fio.errors"] == told["fio.errors"].of(0, "")  # type: ignore[union-attr]
    assert lab.digest() != before
    assert not list((lab.folder / "scratch").iterdir())
    lab.clear()  # what fio left has no signature: it may be written again


def test_fio_does_not_start_on_what_came_into_use(lab: Lab) -> None:
    [disk] = lab.witness.host.declared.disks
    with fio_device.prepare(lab.witness, disk, LOAD, YES, places=lab.places) as place:
        run("mkswap", lab.loop)
        before = lab.digest()
        with pytest.raises(DeviceRefusedError, match="swap"):
            fio_device.run(lab.witness, "kv-restore", workload=LOAD, place=place, disk=disk)
        assert lab.digest() == before


def test_fio_reads_a_device_that_is_not_destructive_and_in_use(lab: Lab) -> None:
    lab.declare(destructive=False)
    [disk] = lab.witness.host.declared.disks
    with contextlib.contextmanager(mounted)(lab):
        before = lab.digest()
        with fio_device.prepare(lab.witness, disk, LOAD, Consent(), places=lab.places) as place:
            answer = fio_device.run(
                lab.witness, "kv-restore", workload=LOAD, place=place, disk=disk
            )
        assert lab.digest() == before
        told = {reading.name: reading.value for reading in answer.readings}
        assert told["fio.left_behind"] == "as found"
        stores = LOAD.model_copy(update={"jobs": ["kv-store"]})
        with (
            pytest.raises(DeviceRefusedError, match="destructive"),
            fio_device.prepare(lab.witness, disk, stores, Consent(), places=lab.places),
        ):
            pass
        assert lab.digest() == before
