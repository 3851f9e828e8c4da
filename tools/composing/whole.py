"""The made-up server with all that is asked of it: its parts and its Python packages, too."""

from __future__ import annotations

from collections.abc import Mapping

from composing import parts, server
from kvgate.probes import packages, parts_read

PARTS = {
    "server": 1, "chassis": 0, "board": 1, "cpu": 1, "dimm": 24, "psu": 2,
    "drive": len(server.DRIVES), "gpu": len(server.GPUS), "nic": len(server.NICS),
    "optic": len(server.NICS),
}  # fmt: skip
"""Kind → how many parts of it there are."""


def drive_at(number: int) -> str:
    """Return the PCI address of drive `number`."""
    return f"0000:{0x60 + number:02x}:00.0"


def answers() -> dict[tuple[str, ...], bytes]:
    """Return every command that all probes ask of this server, and its answer."""
    found = {**server.answers(), **_parts()}
    for name, at in zip(server.NICS, server.NIC_AT, strict=True):
        argv = ("ethtool", "-i", name)
        found[argv] = found[argv].replace(server.NIC_AT[0].encode(), at.encode())
    return found


def _parts() -> Mapping[tuple[str, ...], bytes]:
    drives = {
        f"nvme{number}": (f"SN{number:04}", "SAMPLE NVME 7.68TB", drive_at(number), "live")
        for number in range(len(server.DRIVES))
    }
    gpus = []
    for number, at in enumerate(server.GPUS):
        gpus += [f"{at}/serial_number:SN-G{number}", f"{at}/vbios_version:113-M3080202"]
    vpd = parts.VPD.decode().partition(f"{parts.NIC}.1")[0]
    cards = [
        vpd.replace(f"{parts.NIC}.0", at).replace("SN-N1", f"SN-N{number}")
        for number, at in enumerate(server.NIC_AT)
    ]
    places = [
        f"lrwxrwxrwx 1 root root 0 Nov 30 10:00 {name} -> ../../devices/pci0000:40/{at}/net/{name}"
        for name, at in zip(server.NICS, server.NIC_AT, strict=True)
    ]
    return {
        ("dmidecode", "-t", "0,1,2,3,4,16,17,39"): parts.dmidecode(
            [f"SN-M{number}" for number in range(PARTS["dimm"])]
        ),
        parts_read.NVME: parts.nvme(drives).partition(b"nvme9/transport:rdma")[0],
        parts_read.SLOTS: server.lines(
            f"{number + 1}/address:{at[:-2]}"
            for number, at in enumerate((*map(drive_at, range(12)), *server.GPUS, *server.NIC_AT))
        ),
        parts_read.AMDGPU: server.lines(gpus),
        parts_read.PORTS: server.lines(["total 0", *places]),
        ("lspci", "-D", "-vv", "-d", "::0200"): "".join(cards).encode(),
        ("lspci", "-D", "-vv", "-d", "::0207"): b"",
        ("python3", "-c", packages.SCRIPT.format(names=packages.PACKAGES)): (
            b"vllm 0.20.1\nlmcache 0.3.9\n"
        ),
    }
