"""A loop device that has a serial number, and a host that declares it.

Loop devices have none: a folder like /sys, whose attributes are links to the kernel's own, gives
them one, and an lsblk under the host's 'tools' tells the same. Real drives, LVM, md and multipath
need the VM lab.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from kvgate.model.record import Evidence
from kvgate.spec.declared import Declared
from kvgate.spec.inventory import Host
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness
from kvgate.workloads import devices
from kvgate.workloads.devices import Consent, DeviceRefusedError
from kvgate.workloads.devices_runner import refuse_unstarted
from kvgate.workloads.devices_script import FD_PATH, Places

SERIAL = "KVGATE-LOOP-1"
SIZE = 16 * 2**20
YES = Consent(frozenset([SERIAL]), frozenset([SERIAL]))
WRITE = ("dd", "if=/dev/urandom", f"of={FD_PATH}", "bs=65536", "count=4", "conv=fsync,nocreat")


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
    return ""


pytestmark = pytest.mark.skipif(bool(no_loops()), reason=no_loops() or "they can")


@dataclasses.dataclass
class Lab:
    """A loop device on a file, known by a serial number, and a host that declares it."""

    SERIAL: ClassVar[str] = SERIAL
    SIZE: ClassVar[int] = SIZE
    YES: ClassVar[Consent] = YES
    run = staticmethod(run)

    folder: Path
    image: Path
    loop: str
    witness: Witness
    kept: list[Evidence]
    places: Places
    attached: bool = True

    @property
    def name(self) -> str:
        return self.loop.rpartition("/")[2]

    def attach(self, image: Path) -> None:
        """Put `image` behind the loop device; waits for others who took it meanwhile."""
        until = time.monotonic() + 60
        while not self.attached:
            try:
                run("losetup", self.loop, image)
                self.attached = True
            except subprocess.CalledProcessError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def detach(self) -> None:
        run("losetup", "-d", self.loop)
        self.attached = False  # another process may have it from now on

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


@pytest.fixture(autouse=True)
def _one_at_a_time() -> Iterator[None]:
    """Let no other worker's losetup look into our device meanwhile: that is 'in use'."""
    with (Path(tempfile.gettempdir()) / f"kvgate-tests-loops-{os.getuid()}").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture
def lab(_one_at_a_time: None, tmp_path: Path) -> Iterator[Lab]:
    """Yield a free, declared, known device."""
    if why := no_loops():
        pytest.skip(why)
    image = tmp_path / "image"
    image.write_bytes(b"somebody's data".ljust(SIZE, b"\0"))
    try:
        loop = run("losetup", "--find", "--show", image)
    except subprocess.CalledProcessError as err:
        pytest.skip(f"no loop device can be had here: {err.stderr.strip()}")
    name = loop.rpartition("/")[2]
    made = None
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
        if made is None or made.attached:
            run("losetup", "-d", loop)
