"""Answers of the composed site's computers: the published MI308X node, and a client.

They are the made-up server of `composing.server` with what is published of the joint test's node
put in, and with serial numbers of their own (inventory/recorded/mi308x-composed/SOURCES.md).
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from composing import parts, ports, server
from kvgate.probes import (
    drives,
    gpus,
    identity,
    kernel_log,
    links,
    network,
    nvme,
    packages,
    parts_read,
    pci,
    pcie_path,
    platform,
    port_qos,
    rdma,
    system,
)

Answer = bytes | tuple[int, bytes, bytes]
Answers = dict[tuple[str, ...], Answer]

NOW = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
ELAPSED_S = 0.004
PYTHON = "/opt/serving/bin/python"
MODEL, FIRMWARE = "EXAMPLE-NVME-7T68", "EXFW0100"
GPU, VBIOS = "AMD Instinct MI308X OAM", "113-M3080202-101"
DIMMS = 24
MISSING = (127, b"", b"not found\n")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One computer: its number is in all of its serial numbers; ``cabling`` is port → neighbour."""

    name: str
    number: int
    serving: bool
    cabling: dict[str, tuple[str, str]]

    @property
    def nics(self) -> list[str]:
        """Return its ports: four of a serving node, two of a client."""
        return server.NICS if self.serving else server.NICS[:2]

    def serial(self, kind: str, number: int) -> str:
        """Return the serial number of its part `number` of `kind` (``DRV``)."""
        return f"EX{kind}{self.number}{number:03}"


def answers(node: Node) -> Answers:
    """Return every command that G1 asks of `node`, and its answer."""
    found: Answers = dict(server.answers())
    for part in (_software, _hardware, _memory, _drives, _ports, _cards, _gpus):
        found |= part(node, found)
    return found


def _software(node: Node, _: Answers) -> Answers:
    found: Answers = {
        system.OS_RELEASE: b'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\n'
        b'VERSION="22.04.5 LTS (Jammy Jellyfish)"\nVERSION_CODENAME=jammy\nID=ubuntu\n'
        b"ID_LIKE=debian\n",
        system.UNAME: f"Linux {node.name} 6.8.0-60-generic #63~22.04.1-Ubuntu SMP "
        "PREEMPT_DYNAMIC @0 x86_64 GNU/Linux\n".encode(),
        ("fio", "--version"): b"fio-3.28\n",
        ("nvme", "version"): b"nvme version 1.16\n",
        ("python3", "--version"): b"Python 3.10.12\n",
        (PYTHON, "--version"): b"Python 3.12.11\n",
        (PYTHON, "-c", packages.SCRIPT.format(names=packages.PACKAGES)): b"vllm 0.20.1\n"
        b"lmcache 0.3.9\n",
        ("date", "-u", "+%s.%N"): clock(0.0),
        ("sh", "-c", kernel_log.SCRIPT): server.recorded("dmesg/composed-6.8-healthy-boot.txt"),
        ("cat", identity.MACHINE_ID): b"%032x\n" % (0xC0 + node.number),
        ("cat", identity.PRODUCT_SERIAL): f"EXSRV{node.number}\n".encode(),
        platform.DMI: b"id/bios_version:1.4.2\nid/product_name:GPU server\nid/sys_vendor:EXAMPLE\n",
        platform.IOMMU: server.lines(f"{n}/type:identity" for n in range(64)),
    }
    return found


def clock(offset_s: float) -> bytes:
    """Return what `date` prints on a host whose clock is `offset_s` before the controller's."""
    told = NOW.timestamp() + ELAPSED_S / 2 + offset_s
    return f"{int(told)}.{round(told % 1 * 10**9):09}\n".encode()


def _hardware(_: Node, __: Answers) -> Answers:
    fields = {
        "Architecture:": "x86_64",
        "CPU(s):": "384",
        "On-line CPU(s) list:": "0-383",
        "Vendor ID:": "AuthenticAMD",
        "Model name:": "AMD EPYC 9654 96-Core Processor",
        "CPU family:": "25",
        "Model:": "17",
        "Thread(s) per core:": "2",
        "Core(s) per socket:": "96",
        "Socket(s):": "2",
        "NUMA node(s):": "2",
        "NUMA node0 CPU(s):": "0-95,192-287",
        "NUMA node1 CPU(s):": "96-191,288-383",
    }
    told = [{"field": name, "data": value} for name, value in fields.items()]
    return {system.LSCPU: json.dumps({"lscpu": told}).encode(), system.MEMINFO: meminfo(DIMMS)}


def meminfo(dimms: int) -> bytes:
    """Return /proc/meminfo with so many modules of 64 GiB; the kernel keeps 1.6 % and 2 GiB."""
    kib = int(dimms * 64 * 2**20 * 0.984) - 2 * 2**20
    return f"MemTotal:       {kib} kB\nMemFree:        {kib * 9 // 10} kB\n".encode()


def _memory(node: Node, _: Answers) -> Answers:
    return modules(node, range(DIMMS))


def modules(node: Node, there: Sequence[int]) -> Answers:
    """Return the firmware's tables with the memory modules `there`; other slots are empty."""
    tables = parts.dmidecode(()).decode().replace("SN-SRV", f"EXSRV{node.number}")
    tables = tables.replace("Server 8", "GPU server").replace("Example", "EXAMPLE")
    tables = tables.partition("Handle 0x0003")[0].replace("Version: 2.7", "Version: 1.4.2")
    for socket in range(2):
        tables += (
            f"Handle 0x{8 + socket:04X}, DMI type 4, 48 bytes\nProcessor Information\n"
            f"\tSocket Designation: P{socket}\n\tVersion: AMD EPYC 9654 96-Core Processor\n"
            "\tStatus: Populated, Enabled\n\n"
        )
    listed = "".join(_module(node, number, number in there) for number in range(DIMMS))
    head = "# dmidecode 3.3\nSMBIOS 3.5.0 present.\n\n"
    return {
        ("dmidecode", "-t", "0,1,2,3,4,16,17,39"): (tables + listed).encode(),
        ("dmidecode", "-t", "memory"): (head + listed).encode(),
    }


def _module(node: Node, number: int, there: bool) -> str:
    head = f"Handle 0x{0x100 + number:04X}, DMI type 17, 92 bytes\nMemory Device\n"
    slot = f"P{number // 12}_DIMM{chr(ord('A') + number % 12)}1"
    if not there:
        return f"{head}\tSize: No Module Installed\n\tLocator: {slot}\n\tType: Unknown\n\n"
    return (
        f"{head}\tSize: 64 GB\n\tLocator: {slot}\n\tType: DDR5\n\tSpeed: 4800 MT/s\n"
        f"\tManufacturer: EXAMPLE\n\tSerial Number: {node.serial('DIM', number)}\n"
        "\tPart Number: EXAMPLE-DIMM-64G\n\tConfigured Memory Speed: 4800 MT/s\n\n"
    )


def _drives(node: Node, base: Answers) -> Answers:
    if not node.serving:
        return {drives.SYSFS: b"", nvme.SYSFS: b"", parts_read.NVME: b"", parts_read.SLOTS: b""}
    told = []
    for number in range(len(server.DRIVES)):
        told += [
            f"nvme{number}/serial:{node.serial('DRV', number):20}",
            f"nvme{number}/model:{MODEL:40}",
            f"nvme{number}/firmware_rev:{FIRMWARE}",
            f"nvme{number}/state:live",
            f"nvme{number}/transport:pcie",
            f"nvme{number}/address:{drive_at(number)}",
        ]
    slots = [f"{n + 1}/address:{drive_at(n)[:-2]}" for n in range(len(server.DRIVES))]
    block = re.sub(rb"SN0*(\d+)", lambda m: node.serial("DRV", int(m[1])).encode(),
                   server.sysfs_block())  # fmt: skip
    block = block.replace(b"SAMPLE NVME 7.68TB", MODEL.encode())
    found: Answers = {
        drives.SYSFS: block.replace(b"eui.0", b"eui.%d" % node.number),
        nvme.SYSFS: text(base, nvme.SYSFS).replace(b"GDC7302Q", FIRMWARE.encode()),
        parts_read.NVME: server.lines(told),
        parts_read.SLOTS: server.lines(slots),
    }
    for number, name in enumerate(server.DRIVES):
        same = {"sn": f"{node.serial('DRV', number):20}", "mn": f"{MODEL:40}", "fr": FIRMWARE}
        argv = ("nvme", "id-ctrl", f"/dev/{name}", "-o", "json")
        found[argv] = json.dumps(json.loads(text(base, argv)) | same).encode()
        argv = ("nvme", "fw-log", f"/dev/{name}", "-o", "json")
        found[argv] = text(base, argv)
    return found


def drive_at(number: int) -> str:
    """Return the PCI address of drive `number`."""
    return f"0000:{0x60 + number:02x}:00.0"


def text(found: Answers, argv: tuple[str, ...]) -> bytes:
    """Return the answer to `argv`, which succeeded."""
    told = found[argv]
    assert isinstance(told, bytes)  # noqa: S101  of the made-up server all are
    return told


def _ports(node: Node, base: Answers) -> Answers:
    mac = b"02:00:00:00:%02x:" % node.number
    places, uevents = ["total 0"], []
    for name, at in zip(server.NICS, server.NIC_AT, strict=True):
        if name in node.nics:
            places.append(
                f"lrwxrwxrwx 1 root root 0 Nov 30 10:00 {name} -> "
                f"../../devices/pci0000:40/{at}/net/{name}"
            )
            uevents += [f"{name}/device/uevent:DRIVER=mlx5_core"]
            uevents += [f"{name}/device/uevent:PCI_SLOT_NAME={at}"]
    found: Answers = {
        network.SYSFS: server.sysfs_net().replace(b"02:00:00:00:00:", mac),
        links.SYSFS: server.net_counters(),
        rdma.SYSFS: ports.infiniband(server.NICS),
        parts_read.PORTS: server.lines(places),
        port_qos.PLACES: server.lines(uevents),
        ("lldpcli", "show", "neighbors", "-f", "json"): neighbours(node.cabling),
    }
    for number, (name, at) in enumerate(zip(server.NICS, server.NIC_AT, strict=True)):
        settings = text(base, ("ethtool", name)).decode().partition("Settings for ens3f1np1")[0]
        settings = settings.replace("ens3f0np0", name).replace("200000base", "100000base")
        settings = settings.replace("200000Mb/s", "100000Mb/s").replace("CR4", "SR4")
        settings = settings.replace("Direct Attach Copper", "FIBRE")
        found["ethtool", name] = settings.encode()
        about = text(base, ("ethtool", "-i", name)).decode().replace("0000:41:00.0", at)
        rings = text(base, ("ethtool", "-g", name)).decode().replace("TX:\t\t1024", "TX:\t\t8192")
        found["ethtool", "-g", name] = rings.replace("ens1f0np0", name).encode()
        found["ethtool", "-S", name] = _few(text(base, ("ethtool", "-S", name)))
        found["ethtool", "-i", name] = about.replace("6.8.0-45", "6.8.0-60").encode()
        module = text(base, ("ethtool", "-m", name))
        found["ethtool", "-m", name] = _healthy(module, node.serial("OPT", number))
    return found


def _few(counters: bytes) -> bytes:
    """Return the counters of a port, of its queues those of the first two only."""
    kept = re.compile(rb" +[rt]x([2-9]|[0-9]{2})_")
    return b"".join(line for line in counters.splitlines(True) if not kept.match(line))


def _healthy(module: bytes, serial: str) -> bytes:
    """Return a module like `module` with enough light on every lane, and its own serial number."""
    told = module.replace(b"SAMPLE0001", serial.encode())
    told = told.replace(b"0.4310 mW / -3.66", b"0.8810 mW / -0.55")
    return told.replace(b"(Channel 3)        : On", b"(Channel 3)        : Off")


def neighbours(cabling: dict[str, tuple[str, str]]) -> bytes:
    """Return what lldpcli tells: each port's switch and its port."""
    told: list[dict[str, Any]] = [
        {
            name: {
                "via": "LLDP",
                "chassis": {switch: {"id": {"type": "mac", "value": "02:00:00:00:01:00"}}},
                "port": {"id": {"type": "ifname", "value": port}, "descr": "to a host"},
            }
        }
        for name, (switch, port) in cabling.items()
    ]
    return json.dumps({"lldp": {"interface": told}}).encode()


def _cards(node: Node, _: Answers) -> Answers:
    """Return PCI functions, their ways and errors, and what the network cards tell."""
    mine = (*server.GPUS, *server.NIC_AT) if node.serving else server.NIC_AT[:2]
    kept = {at for address in mine for at in server.way_of(address)}
    kept |= {drive_at(number) for number in range(len(server.DRIVES) if node.serving else 0)}

    def only(told: bytes, name: Callable[[str], str]) -> bytes:
        lines = told.decode().splitlines()
        return server.lines(each for each in lines if name(each) in kept | {"total"})

    functions = only(server.sysfs_pci(), lambda line: line[:12]).decode()
    for at in kept:
        if at in server.NIC_AT:  # PCIe 4.0; the root port above can do 5.0
            ends = (f"{at}/current", f"{at}/max", f"{server.root_of(at)}/current")
            functions = _with(functions, {f"{end}_link_speed:": "16.0 GT/s PCIe" for end in ends})
        elif f"{at}/class:0x010800" in functions:  # PCIe 4.0 x4, by QEMU's id for NVMe
            as_told = {"vendor:": "0x1b36", "device:": "0x0010"}
            for which in ("current", "max"):
                as_told |= {f"{which}_link_speed:": "16.0 GT/s PCIe", f"{which}_link_width:": "4"}
            functions = _with(functions, {f"{at}/{name}": each for name, each in as_told.items()})
    first = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|total")

    def found_in(line: str) -> str:
        match = first.search(line)
        return match[0] if match else ""

    vpd = parts.VPD.decode().partition(f"{parts.NIC}.1")[0]
    told = [
        vpd.replace(f"{parts.NIC}.0", at).replace("SN-N1", node.serial("NIC", number))
        for number, at in enumerate(server.NIC_AT) if at in kept
    ]  # fmt: skip
    return {
        pci.SYSFS: functions.encode(),
        pcie_path.TREE: only(server.tree(), found_in),
        pcie_path.AER: only(server.aer(), lambda line: line[:12]),
        ("lspci", "-D", "-vv", "-d", "::0200"): "".join(told).encode(),
        ("lspci", "-D", "-vv", "-d", "::0207"): b"",
    }


def _with(told: str, values: dict[str, str]) -> str:
    """Return sysfs lines with other values; each name must be there once."""
    for name, value in values.items():
        told, count = re.subn(rf"(?m)^{re.escape(name)}.*$", f"{name}{value}", told)
        if count != 1:
            raise ValueError(f"{name} stands there {count} times")
    return told


def _gpus(node: Node, _: Answers) -> Answers:
    if not node.serving:
        none = (1, b"", b"cd: /sys/bus/pci/drivers/amdgpu: No such file or directory\n")
        return {gpus.CARDS: none, parts_read.AMDGPU: none}
    amdgpu = []
    for number, at in enumerate(server.GPUS):
        amdgpu += [f"{at}/serial_number:{node.serial('GPU', number)}"]
        amdgpu += [f"{at}/product_name:{GPU}", f"{at}/vbios_version:{VBIOS}"]
    cards = server.cards().replace(b"113-M3080203-000", VBIOS.encode())
    return {gpus.CARDS: cards, parts_read.AMDGPU: server.lines(amdgpu)}
