"""Real NVMe drives in every use that kvgate must not write over, and a free one that it may."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kvgate.model.record import Evidence
from kvgate.spec.declared import Disk
from kvgate.transport.connect import Connections
from kvgate.witness import Witness
from kvgate.workloads import devices, devices_script
from kvgate.workloads.devices import ClearedDevice, Consent, DeviceRefusedError

if TYPE_CHECKING:
    from conftest import Running  # of this folder

FREE, USED, ARRAY = "LAB-INI-FREE", "LAB-INI-USED", "LAB0000000000001"
WIPED = "udevadm settle -t 20; wipefs -qa $D; udevadm settle -t 20"


@dataclasses.dataclass(frozen=True)
class Use:
    """How a drive ($D) gets into a use, out of it, and what a refusal has to say."""

    begin: str
    finish: str
    says: str


USES = {
    "mounted": Use(
        "mke2fs -qF -E lazy_itable_init=0 $D; mkdir -p /mnt/used; mount $D /mnt/used",
        "umount /mnt/used",
        "is mounted on /mnt/used",
    ),
    "file-system": Use("mke2fs -qF -E lazy_itable_init=0 $D", ":", "has a signature"),
    "swap": Use("mkswap -q $D; swapon $D", "swapoff $D", "is swap"),
    "partition": Use(
        "sgdisk -n 1:2048:0 $D >/dev/null; partprobe $D 2>/dev/null || blockdev --rereadpt $D",
        "sgdisk -Z $D >/dev/null",
        "has a partition",
    ),
    "lvm-volume": Use(
        "pvcreate -qq -y $D; vgcreate -qq used $D; lvcreate -qq -y -n v -l 50%FREE used",
        "vgremove -qq -ff -y used; pvremove -qq -ff -y $D",
        "is held by dm-",
    ),
    "lvm-inactive": Use(
        "pvcreate -qq -y $D; vgcreate -qq used $D; lvcreate -qq -y -n v -l 50%FREE used; "
        "vgchange -qq -an used",
        "vgremove -qq -ff -y used; pvremove -qq -ff -y $D",
        "has a signature",
    ),
    "md-member": Use(
        "mdadm -q --create /dev/md9 --run --force --level=1 --raid-devices=2 $D missing",
        "mdadm -q --stop /dev/md9; mdadm -q --zero-superblock $D",
        "is held by md9",
    ),
    "md-stopped": Use(
        "mdadm -q --create /dev/md9 --run --force --level=1 --raid-devices=2 $D missing; "
        "mdadm -q --stop /dev/md9",
        "mdadm -q --zero-superblock $D",
        "has a signature",
    ),
    "multipath": Use(
        "modprobe dm-multipath; modprobe dm-round-robin; "
        "dmsetup create used --table "
        '"0 $(blockdev --getsz $D) multipath 0 0 1 1 round-robin 0 1 1 $D 1000"',
        "dmsetup remove --retry used",
        "is held by dm-",
    ),
    "open": Use(
        "setsid sleep 600 3<>$D >/dev/null 2>&1 & echo $! >/run/opener; sleep 1",
        "kill $(</run/opener)",
        "is open in process",
    ),
}


class Drives:
    """The drives of `ini`: asked as kvgate asks them, and seen from outside as files."""

    def __init__(self, lab: Running, connections: Connections) -> None:
        self.lab = lab
        self.kept: list[Evidence] = []
        host = lab.inventory.hosts["ini"]
        array = Disk(serial=ARRAY, nvme=True, size=_size(lab), destructive=True)
        declared = host.declared.model_copy(update={"disks": [*host.declared.disks, array]})
        self.host = host.model_copy(update={"declared": declared})
        self.witness = Witness(self.host, connections.to(self.host), self._keep)

    def _keep(self, piece: Evidence) -> str:
        self.kept.append(piece)
        return hashlib.sha256(piece.stdout).hexdigest()

    def disk(self, serial: str) -> Disk:
        return next(each for each in self.host.declared.disks if each.serial == serial)

    def clear(self, serial: str, *, said: bool = True) -> ClearedDevice:
        destroy = frozenset([serial]) if said else frozenset[str]()
        consent = Consent(destroy=destroy, identified=frozenset([serial]))
        return devices.clear(self.witness, self.disk(serial), consent)

    def sha256(self, serial: str) -> str:
        """Return the digest of all of a drive, from its image: the guest is not asked."""
        vm, name = serial.lower().split("-")[1:]
        with (self.lab.places.of(vm) / f"{name}.img").open("rb") as image:
            return hashlib.file_digest(image, "sha256").hexdigest()

    def settled(self, serial: str) -> str:
        """Return the digest once it stays the same: what was begun in the guest has ended."""
        before = ""
        while before != (now := self.sha256(serial)):
            before = now
            self.lab.sh("ini", "sync")
            time.sleep(1)
        return before

    def sh(self, serial: str, script: str) -> str:
        return self.lab.sh("ini", f"D=$(/lab/nvmet.sh device {serial}); {script}")


def _size(lab: Running) -> object:
    disks = lab.inventory.hosts["tgt"].declared.disks
    return next(each.size for each in disks if each.serial == "LAB-TGT-DATA")


@pytest.fixture(scope="module")
def drives(lab: Running) -> Iterator[Drives]:
    """Return the drives of a lab whose target is connected."""
    with Connections(lab.inventory) as connections:
        yield Drives(lab, connections)


@pytest.fixture(params=USES)
def used(request: pytest.FixtureRequest, drives: Drives) -> Iterator[Use]:
    """Return the use that the drive USED is in; it is free and empty again afterwards."""
    use = USES[request.param]
    drives.sh(USED, f"{WIPED}; {use.begin}; udevadm settle -t 20")
    yield use
    drives.sh(USED, f"{use.finish}; {WIPED}")


def test_a_drive_in_use_is_refused_and_not_a_byte_of_it_changes(drives: Drives, used: Use) -> None:
    before = drives.settled(USED)
    with pytest.raises(DeviceRefusedError) as refused:
        drives.clear(USED)
    assert used.says in str(refused.value)
    assert refused.value.evidence
    assert drives.sha256(USED) == before


def test_a_drive_that_is_taken_after_the_look_is_not_written(drives: Drives) -> None:
    drives.sh(USED, WIPED)
    device = drives.clear(USED)
    use = USES["lvm-volume"]
    drives.sh(USED, use.begin)
    try:
        before = drives.settled(USED)
        asked = drives.witness.ask(device.guarded(_write(device)), timeout_s=60)
        assert asked.result.exit_status == devices_script.REFUSED
        assert drives.sha256(USED) == before
    finally:
        drives.sh(USED, f"{use.finish}; {WIPED}")


def test_a_free_declared_drive_is_written_and_only_that_one(drives: Drives) -> None:
    drives.sh(FREE, WIPED)
    others = {each: drives.settled(each) for each in (USED, "LAB-INI-LOCAL", "LAB-INI-DUAL")}
    before = drives.settled(FREE)
    with pytest.raises(DeviceRefusedError, match="--yes-destroy LAB-INI-FREE was not given"):
        drives.clear(FREE, said=False)
    assert drives.sha256(FREE) == before
    device = drives.clear(FREE)
    asked = drives.witness.ask(device.guarded(_write(device)), timeout_s=120)
    assert asked.result.ok, asked.result.describe()
    assert drives.settled(FREE) != before
    assert {each: drives.sha256(each) for each in others} == others


def test_the_arrays_volume_is_refused_while_it_is_mounted(drives: Drives) -> None:
    mount = "mke2fs -qF -E lazy_itable_init=0 $D 65536; mkdir -p /mnt/array; mount $D /mnt/array"
    # Not the hidden ones, one a path (nvme5c6n1): the head of the volume.
    find = "D=$(for n in /sys/block/nvme*n1; do [[ ${n##*/} == *c* ]] && continue; "
    find += f"grep -qs {ARRAY} $n/device/serial && echo /dev/${{n##*/}}; done; true)"
    drives.lab.sh("ini", f"{find}; {mount}")
    try:
        with pytest.raises(DeviceRefusedError, match="is mounted on /mnt/array"):
            drives.clear(ARRAY)
    finally:
        drives.lab.sh("ini", f"umount /mnt/array; {find}; wipefs -qa $D; udevadm settle -t 20")
    assert drives.clear(ARRAY).may_write


def test_a_drive_declared_with_another_size_or_not_destructive_is_refused(drives: Drives) -> None:
    with pytest.raises(DeviceRefusedError, match="destructive: true"):
        drives.clear("LAB-INI-LOCAL")
    grown = drives.disk(FREE).model_copy(update={"size": drives.disk("LAB-INI-LOCAL").size})
    consent = Consent(destroy=frozenset([FREE]), identified=frozenset([FREE]))
    before = drives.sha256(FREE)
    with pytest.raises(DeviceRefusedError):
        devices.clear(drives.witness, grown, consent)
    assert drives.sha256(FREE) == before


def _write(device: ClearedDevice) -> list[str]:
    """Return the command that writes over the first MiB of a device, as a guarded tool has it."""
    return [
        "dd",
        "if=/dev/urandom",
        f"of={device.path}",
        "bs=64k",
        "count=16",
        "conv=notrunc,fsync",
    ]
