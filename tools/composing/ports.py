"""Answers of the composed server's vendor tools and ports, command by command."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from kvgate.probes import gpu_tools, gpus, numa, p2p, port_qos, rdma
from kvgate.probes.tools import TOOLS
from kvgate.spec.inventory import Host

HOST = Host.model_validate({"roles": ["serving"], "transport": "local"})
RECORDED = Path(__file__).parents[2] / "tests" / "recorded"
PRINTED = {
    "lspci": "lspci-3.9.0.txt",
    "ethtool": "ethtool-6.1.txt",
    "smartctl": "smartctl-7.3.txt",
    "dmidecode": "composed-dmidecode-3.4.txt",
    "dcb": "dcb-6.1.0.txt",
    "chronyc": "composed-chronyc-4.3.txt",
    "lldpcli": "composed-lldpcli-1.0.16.txt",
}


def recorded(name: str) -> bytes:
    """Return a file of tests/recorded."""
    return (RECORDED / name).read_bytes()


def lines(items: Iterable[str]) -> bytes:
    """Return `items` as the lines of an answer."""
    return ("\n".join(items) + "\n").encode()


def infiniband(nics: Sequence[str]) -> bytes:
    """Return what sysfs tells of the RDMA devices of `nics`: RoCE v2, active, no losses."""
    told = []
    for number, netdev in enumerate(nics):
        at = f"mlx5_{number}"
        told += [
            f"{at}/fw_ver:22.39.2048",
            f"{at}/ports/1/state:4: ACTIVE",
            f"{at}/ports/1/phys_state:5: LinkUp",
        ]
        for index, kind in enumerate(("IB/RoCE v1", "RoCE v2", "IB/RoCE v1", "RoCE v2")):
            gid = "fe80:0000:0000:0000:0000:00ff:fe00:0001"
            told += [
                f"{at}/ports/1/gids/{index}:{gid}",
                f"{at}/ports/1/gid_attrs/types/{index}:{kind}",
                f"{at}/ports/1/gid_attrs/ndevs/{index}:{netdev}",
            ]
        told += [
            f"{at}/ports/1/hw_counters/{name}:0"
            for name in (
                "out_of_sequence",
                "packet_seq_err",
                "local_ack_timeout_err",
                "rp_cnp_handled",
                "np_cnp_sent",
                "duplicate_request",
                "out_of_buffer",
                "lifespan",
            )
        ]
    return lines(told)


def lldp(nics: Sequence[str]) -> bytes:
    """Return what lldpcli tells of the neighbours: two leaves in turn."""
    each = [
        {
            name: {
                "via": "LLDP",
                "chassis": {
                    f"leaf{number % 2 + 1}": {"id": {"type": "mac", "value": "02:00:00:00:01:00"}}
                },
                "port": {
                    "id": {"type": "ifname", "value": f"Ethernet1/{number}"},
                    "descr": "to node1",
                },
            }
        }
        for number, name in enumerate(nics)
    ]
    return json.dumps({"lldp": {"interface": each}}).encode()


def devinfo(nics: Sequence[str]) -> bytes:
    """Return `ibv_devinfo -v` of all ports."""
    one = recorded("ibv_devinfo/composed-43.0-verbose.txt").decode().split("\n\n")[0]
    return "\n\n".join(one.replace("mlx5_0", f"mlx5_{n}") for n in range(len(nics))).encode()


def counters() -> bytes:
    """Return what mlx5 prints: some 600 counters, most of them of queues."""
    named = [
        *("rx_discards_phy", "tx_discards_phy", "rx_out_of_buffer", "rx_crc_errors_phy"),
        *(f"rx_prio{n}_discards" for n in range(8)),
        *(f"{way}_prio{n}_pause" for way in ("rx", "tx") for n in range(8)),
        *(f"rx{queue}_{what}" for queue in range(96) for what in ("packets", "bytes", "csum_none")),
        *(f"tx{queue}_{what}" for queue in range(96) for what in ("packets", "bytes", "nop")),
    ]
    return ("NIC statistics:\n" + "".join(f"     {name}: 0\n" for name in named)).encode()


def windows(addresses: Sequence[str]) -> bytes:
    """Return the memory windows of the devices at `addresses`."""
    told = []
    for at in addresses:
        told += [
            f"{at}/resource:0x000003c000000000 0x000003ffffffffff 0x000000000014220c",
            f"{at}/resource:0x0000000000000000 0x0000000000000000 0x0000000000000000",
            f"{at}/numa_node:0",
            f"{at}/p2pmem/size:134217728",
            f"{at}/p2pmem/published:1",
        ]
    return lines(told)


def xgmi() -> bytes:
    """Return `amd-smi xgmi --json`: no link is down."""
    told = [
        {
            "gpu": one,
            "link_metrics": {
                "bit_rate": {"value": 32, "unit": "Gb/s"},
                "max_bandwidth": {"value": 512, "unit": "Gb/s"},
                "link_type": "XGMI",
                "links": [{"gpu": two, "read": "N/A", "write": "N/A"} for two in range(8)],
            },
        }
        for one in range(8)
    ]
    return json.dumps({"xgmi_metric": told}).encode()


def smartctl() -> bytes:
    """Return `smartctl -j -a` of a drive that calls itself healthy."""
    told = json.loads(recorded("smartctl/composed-7.4-nvme.json"))
    told["smart_status"] = {"passed": True, "nvme": {"value": 0}}
    return json.dumps(told).encode()


def answers(
    drives: Sequence[str], nics: Sequence[str], pcie: Sequence[str]
) -> dict[tuple[str, ...], bytes]:
    """Return what vendors' tools and ethtool answer, by command."""
    found: dict[tuple[str, ...], bytes] = {
        tool.argv: recorded(f"tool_version/{PRINTED[tool.name]}")
        for tool in TOOLS
        if tool.name in PRINTED
    }
    found |= {
        numa.NUMACTL: recorded("numactl/composed-2.0.14-2node.txt"),
        p2p.CONFIG: recorded("kernel_config/composed-6.8-server.txt"),
        p2p.PCIE_P2P: b"Y\n",
        p2p.windows_argv(pcie): windows(pcie),
        gpus.KFD: recorded("sysfs_kfd/composed-spx.txt"),
        gpu_tools.XGMI: xgmi(),
        rdma.DEVINFO: devinfo(nics),
        rdma.DEFAULTS: lines(
            f"mlx5_{n}/ports/1/default_roce_{what}"
            for n in range(len(nics))
            for what in ("mode:RoCE v2", "tos:106")
        ),
        port_qos.PLACES: lines(
            f"{name}/device/uevent:{text}"
            for number, name in enumerate(nics)
            for text in ("DRIVER=mlx5_core", f"PCI_SLOT_NAME=0000:4{number}:00.0")
        ),
    }
    for tool in (port_qos.niccli_argv, port_qos.nicctl_argv):
        found[tool(HOST)] = b""  # other makers' tools, which have no device here
    for name in drives:
        device = f"/dev/{name}"
        found |= {
            ("nvme", "id-ctrl", device, "-o", "json"): recorded("nvme_id_ctrl/composed-2.x.json"),
            ("nvme", "id-ns", device, "-o", "json"): recorded("nvme_id_ns/composed-2.x.json"),
            ("nvme", "fw-log", device, "-o", "json"): recorded("nvme_fw_log/composed-2.x.json"),
            ("smartctl", "-j", "-a", device): smartctl(),
        }
    for name in nics:
        found |= {
            ("ethtool", "-i", name): recorded("ethtool_i/composed-6.x-mlx5.txt"),
            ("ethtool", name): recorded("ethtool/composed-6.x-200g.txt"),
            ("ethtool", "-a", name): recorded("ethtool_a/composed-6.x.txt"),
            ("ethtool", "-g", name): recorded("ethtool_g/composed-6.x-mlx5.txt"),
            ("ethtool", "-m", name): recorded("ethtool_m/composed-6.x-qsfp28.txt"),
            ("ethtool", "-S", name): counters(),
            ("dcb", "-j", "app", "show", "dev", name): recorded("dcb_app/composed-6.1.json"),
        }
    return found
