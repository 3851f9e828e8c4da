"""What a made-up server tells of its parts: 2 NVMe drives, 2 GPUs, 2 DIMMs, 2 supplies, a NIC.

Composed by hand in the forms of dmidecode 3.4, pciutils 3.9, ethtool 6.1 and Linux 6.8's sysfs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvgate.probes import drives, parts_read, pci

Drive = tuple[str, str, str, str]  # serial, model, address, state
DRIVES: dict[str, Drive] = {
    "nvme0": ("SN-D1", "EX-7T68", "0000:61:00.0", "live"),
    "nvme1": ("SN-D2", "EX-7T68", "0000:62:00.0", "live"),
}
GPUS = {"0000:05:00.0": "SN-G1", "0000:15:00.0": "SN-G2"}
SLOTS = {"11": "0000:61:00", "12": "0000:62:00", "1": "0000:05:00"}
DIMMS = ("SN-M1", "SN-M2")
NIC = "0000:41:00"
DECLARED: dict[str, Any] = {"nics": [{"name": "ens1f0np0"}]}


def joined(lines: Iterable[str]) -> bytes:
    """Return `lines` as an answer."""
    return ("\n".join(lines) + "\n").encode()


def dmidecode(dimms: Iterable[str] = DIMMS, psu_status: str = "Present, OK") -> bytes:
    """Return the firmware's tables."""
    told = ["# dmidecode 3.4", "SMBIOS 3.5.0 present.", ""]

    def table(number: int, kind: int, title: str, **fields: str) -> None:
        told.append(f"Handle 0x{number:04X}, DMI type {kind}, 40 bytes")
        told.append(title)
        told.extend(f"\t{name.replace('_', ' ')}: {value}" for name, value in fields.items())
        told.append("")

    table(0, 0, "BIOS Information", Vendor="EX", Version="2.7")
    names = {"Manufacturer": "Example", "Serial_Number": "SN-SRV"}
    table(1, 1, "System Information", Product_Name="Server 8", **names)
    board = names | {"Serial_Number": "Default string"}
    table(2, 2, "Base Board Information", Product_Name="Board 8", **board)
    cpu = {"Socket_Designation": "P0", "Version": "EPYC 9654", "Status": "Populated, Enabled"}
    table(3, 4, "Processor Information", **cpu)
    for at, serial in enumerate(dimms):
        slot = {"Size": "64 GB", "Locator": f"DIMM {at}", "Part_Number": "D64"}
        table(0x20 + at, 17, "Memory Device", **slot, Serial_Number=serial)
    for at in (1, 2):
        supply = {"Location": f"PSU{at}", "Name": "P2700", "Serial_Number": f"SN-P{at}"}
        status = psu_status if at == 1 else "Present, OK"
        table(0x40 + at, 39, "System Power Supply", **supply, Status=status)
    return joined(told)


def nvme(found: Mapping[str, Drive]) -> bytes:
    """Return what sysfs tells of the NVMe controllers, one of them of a fabric."""
    told = []
    for name, (serial, model, address, state) in found.items():
        told += [
            f"{name}/serial:{serial:20}",
            f"{name}/model:{model:40}",
            f"{name}/firmware_rev:FW01",
            f"{name}/state:{state}",
            f"{name}/transport:pcie",
            f"{name}/address:{address}",
        ]
    told += ["nvme9/transport:rdma", "nvme9/serial:REMOTE", "nvme9/state:live"]
    return joined(told)


def functions(found: Mapping[str, Drive], gpus: Iterable[str], more: Iterable[str] = ()) -> bytes:
    """Return the PCI functions of drives, GPUs, a card and a VGA."""
    listed = [(address, "144d", "a80a", "0108") for _, _, address, _ in found.values()]
    listed += [(address, "144d", "a80a", "0108") for address in more]
    listed += [(address, "1002", "74a2", "1200") for address in gpus]
    listed += [(f"{NIC}.0", "15b3", "101d", "0200"), ("0000:00:00.0", "1a03", "2000", "0300")]
    told = []
    for address, vendor, device, kind in listed:
        told += [f"{address}/vendor:0x{vendor}", f"{address}/device:0x{device}"]
        told += [f"{address}/class:0x{kind}00"]
    return joined(told)


VPD = f"""\
{NIC}.0 Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]
\tSubsystem: Mellanox Technologies Device 0016
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkSta:\tSpeed 16GT/s, Width x16
\tCapabilities: [48] Vital Product Data
\t\tProduct Name: ConnectX-6 Dx EN adapter card
\t\tRead-only fields:
\t\t\t[PN] Part number: MCX623106AN-CDAT
\t\t\t[EC] Engineering changes: A7
\t\t\t[SN] Serial number: SN-N1
\t\t\t[V0] Vendor specific: PCIeGen4 x16
\t\tEnd
\tCapabilities: [9c] MSI-X: Enable+ Count=64 Masked-
\tKernel driver in use: mlx5_core
{NIC}.1 Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]
\tCapabilities: [48] Vital Product Data
\t\tProduct Name: ConnectX-6 Dx EN adapter card
\t\t\t[SN] Serial number: SN-N1
\tKernel driver in use: mlx5_core
""".encode()
PORTS = f"""\
total 0
lrwxrwxrwx 1 root root 0 Nov 30 10:00 ens1f0np0 -> ../../devices/pci0000:40/{NIC}.0/net/ens1f0np0
lrwxrwxrwx 1 root root 0 Nov 30 10:00 lo -> ../../devices/virtual/net/lo
""".encode()
MODULE = b"""\
\tIdentifier                                : 0x11 (QSFP28)
\tVendor name                               : EXOPTICS
\tVendor PN                                 : EX-100G-SR4
\tVendor SN                                 : SN-O1
"""


def answers(
    found: Mapping[str, Drive] = DRIVES,
    gpus: Mapping[str, str] = GPUS,
    *,
    dead_gpus: Iterable[str] = (),
    undriven: Iterable[str] = (),
    dimms: Iterable[str] = DIMMS,
    psu_status: str = "Present, OK",
) -> dict[tuple[str, ...], bytes]:
    """Return command → stdout. `undriven` are NVMe devices and `dead_gpus` GPUs without driver."""
    amdgpu = []
    for address, serial in gpus.items():
        amdgpu += [f"{address}/serial_number:{serial}", f"{address}/vbios_version:113-M3080202"]
        amdgpu += [f"{address}/product_name:AMD Instinct MI308X"]
    slots = joined(f"{name}/address:{address}" for name, address in SLOTS.items())
    info = f"driver: mlx5_core\nfirmware-version: 22.35.1012\nbus-info: {NIC}.0\n".encode()
    return {
        ("dmidecode", "-t", "0,1,2,3,4,16,17,39"): dmidecode(dimms, psu_status),
        parts_read.NVME: nvme(found),
        parts_read.SLOTS: slots,
        parts_read.AMDGPU: joined(amdgpu),
        parts_read.PORTS: PORTS,
        drives.SYSFS: b"sda/size:1000\nsda/removable:0\nsda/device/model:SATA-DOM\n",
        pci.SYSFS: functions(found, [*gpus, *dead_gpus], undriven),
        ("lspci", "-D", "-vv", "-d", "::0200"): VPD,
        ("lspci", "-D", "-vv", "-d", "::0207"): b"",
        ("ethtool", "-i", "ens1f0np0"): info,
        ("ethtool", "-m", "ens1f0np0"): MODULE,
    }
