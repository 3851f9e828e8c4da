"""What the two machines are made of: QEMU's command line, drives, network ports."""

from __future__ import annotations

import dataclasses
from pathlib import Path

QEMU = "qemu-system-x86_64"
GIB = 2**30
MIB = 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class Drive:
    """An NVMe drive of QEMU with a serial number of its own, in a slot of its own.

    With ``dual`` it is one namespace of a subsystem with two controllers: two local paths.
    """

    name: str
    serial: str
    size_bytes: int
    dual: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Vm:
    """One machine; ``id`` is the last number of its addresses, ``port`` its usual SSH port."""

    name: str
    id: int
    port: int
    memory_mib: int
    drives: tuple[Drive, ...]


NQN = "nqn.2026-11.lab:array1"
"""The subsystem that `tgt` exports."""

EXPORTED = "LAB-TGT-DATA"
"""The drive of `tgt` that is namespace 1 of the array."""

TGT = Vm(
    "tgt",
    1,
    42201,
    1024,
    (
        Drive("data", EXPORTED, 6 * GIB),
        Drive("vdo", "LAB-TGT-VDO", 8 * GIB),
        Drive("raid0", "LAB-TGT-RAID0", 256 * MIB),
        Drive("raid1", "LAB-TGT-RAID1", 256 * MIB),
    ),
)
INI = Vm(
    "ini",
    2,
    42202,
    1024,
    (
        Drive("free", "LAB-INI-FREE", 256 * MIB),
        Drive("used", "LAB-INI-USED", 256 * MIB),
        Drive("local", "LAB-INI-LOCAL", 2 * GIB),
        Drive("dual", "LAB-INI-DUAL", 256 * MIB, dual=True),
    ),
)
VMS = {vm.name: vm for vm in (TGT, INI)}
NETWORKS = ("A", "B")


def command(vm: Vm, image: Path, *, port: int, accel: str) -> list[str]:
    """Return QEMU's argument list for `vm`, to be run in its state folder.

    All sockets and images are named from there, so that no path is too long for a socket. `port` on
    127.0.0.1 leads to the guest's SSH; nothing else leads in, and nothing out.
    """
    fast = accel == "kvm"
    how = "kvm" if fast else "tcg,thread=multi,tb-size=256"
    kernel = (
        f"console=ttyS0 quiet panic=-1 lab.name={vm.name} lab.id={vm.id} mitigations=off "
        "nowatchdog cryptomgr.notests raid=noautodetect random.trust_cpu=on nvme_core.multipath=Y "
        "nvme.poll_queues=0"
    )
    return [
        *(QEMU, "-name", f"kvgate-lab-{vm.name}"),
        *("-M", "q35,usb=off,vmport=off,smbus=off,sata=off", "-accel", how),
        *("-cpu", "host" if fast else "max", "-smp", "1", "-m", str(vm.memory_mib)),
        *("-display", "none", "-nodefaults", "-no-user-config", "-rtc", "base=utc"),
        *("-serial", "file:console.log"),
        *("-qmp", "unix:qmp,server=on,wait=off"),
        *("-kernel", str(image / "vmlinux"), "-initrd", str(image / "initrd"), "-append", kernel),
        *("-drive", "if=none,id=root,file=root.qcow2,format=qcow2,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=root", "-device", "virtio-rng-pci"),
        *("-netdev", f"user,id=m,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:{port}-:22"),
        *("-device", f"virtio-net-pci,netdev=m,mac=52:54:00:77:00:0{vm.id},romfile="),
        *_data_ports(vm),
        *(word for slot, drive in enumerate(vm.drives, 1) for word in _drive(drive, slot)),
    ]


def _data_ports(vm: Vm) -> list[str]:
    peer = next(other for other in VMS.values() if other is not vm)
    words = []
    for network in NETWORKS:
        n = network.lower()
        ours, theirs = f"../net-{n}-{vm.id}", f"../net-{n}-{peer.id}"
        words += [
            "-netdev",
            f"dgram,id=d{n},local.type=unix,local.path={ours},remote.type=unix,remote.path={theirs}",
            "-device",
            f"virtio-net-pci,id=nic{network},netdev=d{n},mac=52:54:00:77:0{n}:0{vm.id},romfile=,"
            "host_mtu=9000",
        ]
    return words


def _drive(drive: Drive, slot: int) -> list[str]:
    """Return a drive's words: its file as a node that outlives the device, a slot, the device."""
    node = (
        f"driver=raw,node-name=n-{drive.name},discard=unmap,file.driver=file,"
        f"file.filename={drive.name}.img,cache.no-flush=on"
    )
    words = ["-blockdev", node, "-device", _root_port(drive.name, slot)]
    if not drive.dual:
        return [*words, "-device", ",".join(f"{k}={v}" for k, v in device(drive).items())]
    second, base = f"{drive.name}-2", f"nvme,serial={drive.serial},subsys=s-{drive.name}"
    return [
        *words,
        *("-device", _root_port(second, slot + 16)),
        *("-device", f"nvme-subsys,id=s-{drive.name},nqn=lab-{drive.serial.lower()}"),
        *("-device", f"{base},id=d-{drive.name},bus=p-{drive.name}"),
        *("-device", f"{base},id=d-{second},bus=p-{second}"),
        *("-device", f"nvme-ns,drive=n-{drive.name},nsid=1,bus=d-{drive.name},shared=on"),
    ]


def _root_port(name: str, slot: int) -> str:
    return f"pcie-root-port,id=p-{name},chassis={slot},slot={slot},x-speed=16,x-width=4"


def device(drive: Drive) -> dict[str, str]:
    """Return the drive's device as device_add takes it: what a pulled drive comes back as."""
    return {
        "driver": "nvme",
        "id": f"d-{drive.name}",
        "bus": f"p-{drive.name}",
        "serial": drive.serial,
        "drive": f"n-{drive.name}",
    }
