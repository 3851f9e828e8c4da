"""The faults that are planted in the composed site, each with the criteria that must find it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from composing import devices, server, site
from composing.site import Answers, Node
from kvgate.probes import (
    drives,
    gpus,
    kernel_log,
    links,
    packages,
    parts_read,
    pci,
    pcie_path,
    platform,
    rdma,
    system,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """What is planted on `host`; ``fails`` and ``undecided`` are all criteria it shows in there."""

    host: str
    what: str
    fails: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()


GPU_SLOW, GPU_OLD = server.GPUS[3], server.GPUS[5]
WORN, DAMAGED = 4, 3
SWAPPED = (6, 7)
DIMM_GONE = 9
NIC_DEAF, NIC_PFC, NIC_MTU = "ens0f0np0", "ens1f0np0", "ens2f0np0"

DEFECTS = (
    Defect(
        host="node2",
        what=f"the GPU at {GPU_SLOW} runs at PCIe x8, and its link corrects errors in bursts",
        fails=("G1.28", "G1.50", "G1.53", "G1.60"),
    ),
    Defect(
        host="node2",
        what=f"the GPU at {GPU_OLD} has another VBIOS than agreed",
        fails=("G1.123",),
        undecided=("G1.129",),  # eight GPUs that differ have no version together
    ),
    Defect(host="node2", what=f"drive {DAMAGED + 1} has media errors", fails=("G1.16",)),
    Defect(
        host="node2",
        what=f"drive {WORN + 1} was in use for two years",
        fails=("G1.17", "G1.19", "G1.20"),
    ),
    Defect(
        host="node2",
        what="the drives in slots 7 and 8 are in each other's slot",
        fails=("G1.121",),
    ),
    Defect(host="node2", what="a memory module is missing", fails=("G1.10", "G1.32", "G1.121")),
    Defect(
        host="node2",
        what=f"{NIC_MTU} has an MTU of 1500, so that RoCE takes 1024",
        fails=("G1.55", "G1.75"),
    ),
    Defect(
        host="node2",
        what=f"{NIC_PFC} has PFC on priority 4 instead of 3",
        fails=("G1.76", "G1.78"),
    ),
    Defect(
        host="node2",
        what="the cables of ens1f0np0 and ens3f0np0 are swapped",
        fails=("G1.57",),
    ),
    Defect(host="node2", what=f"{NIC_DEAF} hears no neighbour", undecided=("G1.57",)),
    Defect(
        host="node2",
        what="the clock is 183 ms ahead and follows no time server",
        fails=("G1.30", "G1.39"),
    ),
    Defect(host="node2", what="smartctl is not installed", undecided=("G1.71",)),
    Defect(host="node2", what="LMCache is not installed", undecided=("G1.125",)),
    Defect(
        host="array1",
        what="drive D7 has failed, and pool1 is degraded by it",
        fails=("G1.121", "G1.204", "G1.210", "G1.212"),
    ),
    Defect(host="array1", what="port B1 has no link", fails=("G1.216",)),
    Defect(host="leaf2", what="ECN is off", fails=("G1.227",)),
    Defect(
        host="leaf2",
        what="the port to the array's B1 has no link, and so no neighbour",
        fails=("G1.223",),
        undecided=("G1.229",),
    ),
    Defect(host="leaf2", what="two ports see each other's neighbour", fails=("G1.229",)),
    Defect(
        host="bmc2",
        what="power supply PSU2 of node2 has failed, and the event log says so",
        fails=("G1.246", "G1.248", "G1.252"),
    ),
    Defect(host="node2", what="its power supply PSU2, told by its BMC, is dead", fails=("G1.121",)),
    Defect(host="bmc2", what="the BMC's firmware is older than agreed", fails=("G1.243",)),
)
"""Everything that is wrong there; nothing else may be found."""


def on_node(found: Answers, node: Node) -> Answers:
    """Return the answers of `node` with all of its defects."""
    for plant in (_gpus, _drives, _memory, _ports, _software):
        found |= plant(found, node)
    return found


def _changed(told: bytes, *pairs: tuple[str, str]) -> bytes:
    """Return `told` with each first text replaced by the second; every one must be there."""
    for old, new in pairs:
        if old.encode() not in told:
            raise ValueError(f"nothing to plant a fault in: {old!r}")
        told = told.replace(old.encode(), new.encode())
    return told


def _gpus(found: Answers, _: Node) -> Answers:
    above = server.way_of(GPU_SLOW)[-2]
    at_x8 = [(f"{at}/current_link_width:16", f"{at}/current_link_width:8")
             for at in (above, GPU_SLOW)]  # fmt: skip
    vbios = (f"{GPU_OLD}/vbios_version:{site.VBIOS}", f"{GPU_OLD}/vbios_version:113-M3080201-100")
    burst = "".join(
        f"[ {4100 + n}.{n:06}] pcieport {above}: AER: Corrected error message received from "
        f"{GPU_SLOW}\n[ {4100 + n}.{n + 20:06}] amdgpu {GPU_SLOW}: PCIe Bus Error: "
        "severity=Corrected, type=Data Link Layer, (Receiver ID)\n"
        f"[ {4100 + n}.{n + 40:06}] amdgpu {GPU_SLOW}:   device [1002:74a2] "
        f"error status/mask=00000080/00002000\n[ {4100 + n}.{n + 60:06}] amdgpu {GPU_SLOW}:    "
        "[ 7] BadDLLP\n"
        for n in range(12)
    )
    log = ("sh", "-c", kernel_log.SCRIPT)
    counted = f"{GPU_SLOW}/aer_dev_correctable:TOTAL_ERR_COR "
    return {
        pci.SYSFS: _changed(site.text(found, pci.SYSFS), *at_x8),
        gpus.CARDS: _changed(site.text(found, gpus.CARDS), vbios),
        parts_read.AMDGPU: _changed(site.text(found, parts_read.AMDGPU), vbios),
        log: site.text(found, log) + burst.encode(),
        pcie_path.AER: _changed(site.text(found, pcie_path.AER), (f"{counted}0", f"{counted}4812")),
    }


def _drives(found: Answers, node: Node) -> Answers:
    def smart(number: int, **values: int) -> tuple[tuple[str, ...], bytes]:
        argv = ("nvme", "smart-log", f"/dev/{server.DRIVES[number]}", "-o", "json")
        return argv, json.dumps(json.loads(site.text(found, argv)) | values).encode()

    one, two = (node.serial("DRV", number) for number in SWAPPED)
    swap = ((one, "EX-SWAPPING"), (two, one), ("EX-SWAPPING", two))
    return {
        parts_read.NVME: _changed(site.text(found, parts_read.NVME), *swap),
        drives.SYSFS: _changed(site.text(found, drives.SYSFS), *swap),
        **dict([
            smart(DAMAGED, media_errors=12),
            smart(WORN, power_on_hours=18240, percent_used=7, data_units_written=812_000_000),
        ]),
        **{("smartctl", "-j", "-a", f"/dev/{name}"): site.MISSING for name in server.DRIVES},
        ("smartctl", "--version"): site.MISSING,
    }  # fmt: skip


def _memory(_: Answers, node: Node) -> Answers:
    there = [number for number in range(site.DIMMS) if number != DIMM_GONE]
    return {**site.modules(node, there), system.MEMINFO: site.meminfo(len(there))}


def _ports(found: Answers, node: Node) -> Answers:
    qos = ("mlnx_qos", "-i", NIC_PFC)
    off, on = "\tenabled     0   0   0   1   0", "\tenabled     0   0   0   0   1"
    told = site.text(found, links.SYSFS)
    mtu = (f"{NIC_MTU}/mtu:9000", f"{NIC_MTU}/mtu:1500")
    devices_told = site.text(found, rdma.DEVINFO).decode().split("hca_id:")
    small = [each.replace("active_mtu:\t\t4096 (5)", "active_mtu:\t\t1024 (3)")
             if each.strip().startswith("mlx5_2") else each for each in devices_told]  # fmt: skip
    heard = {name: there for name, there in node.cabling.items() if name != NIC_DEAF}
    return {
        rdma.DEVINFO: "hca_id:".join(small).encode(),
        ("lldpcli", "show", "neighbors", "-f", "json"): site.neighbours(heard),
        qos: _changed(site.text(found, qos), (off, on)),
        links.SYSFS: _changed(told, mtu),
    }


def _software(_: Answers, __: Node) -> Answers:
    script = packages.SCRIPT.format(names=packages.PACKAGES)
    return {
        ("date", "-u", "+%s.%N"): site.clock(0.183),
        platform.SYNCHRONISED: b"no\n",
        (site.PYTHON, "-c", script): b"vllm 0.20.1\nlmcache\n",
    }


def on_array(state: devices.State) -> None:
    """Plant a failed drive in the array, the pool it degrades, and a port without link."""
    state["drives"]["D7"]["state"] = "failed"
    state["pools"]["pool1"]["state"] = "degraded"
    state["health"] = "degraded"
    state["ports"]["B1"]["link"] = "down"


def on_leaf2(state: devices.State) -> None:
    """Switch ECN off, and take the link of the array's port B1."""
    state["ecn"] = "ecn_none"
    state["ports"]["Ethernet20"] |= {"state": "down", "neighbour": []}


def on_bmc2(state: devices.State) -> None:
    """Let a power supply fail, with its event; the BMC's firmware is old."""
    state["psus"]["PSU2"] = "Critical"
    state["firmware"] = "2.44.0"
    event: dict[str, Any] = {"severity": "Critical", "created": "2026-11-29T22:14:07+00:00"}
    state["events"].append({**event, "message": "Power supply PSU2: input lost."})
