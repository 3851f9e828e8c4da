"""Answers of a made-up server with 8 GPUs, 12 drives and 4 NICs, command by command.

Every GPU hangs below a switch of its own; nothing is degraded or faulty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from composing import ports
from kvgate.probes import (
    clock,
    drives,
    gpu_tools,
    gpus,
    identity,
    kernel_log,
    links,
    memory,
    network,
    nvme,
    pci,
    pcie_path,
    platform,
    rdma,
    system,
)

RECORDED = Path(__file__).parents[2] / "tests" / "recorded"
GPUS = [f"0000:{bus:02x}:00.0" for bus in (0x05, 0x15, 0x25, 0x35, 0x85, 0x95, 0xA5, 0xB5)]
DRIVES = [f"nvme{number}n1" for number in range(12)]
NICS = [f"ens{number}f0np0" for number in range(4)]
NIC_AT = [f"0000:{bus:02x}:00.0" for bus in (0x41, 0x42, 0xC1, 0xC2)]
BRIDGE = "0604"

DECLARED: dict[str, Any] = {
    "gpus": {"count": 8, "id": "1002:74a2", "addresses": GPUS},
    "disks": [{"serial": f"SN{number:04}", "nvme": True} for number in range(12)],
    "nics": [{"name": name, "speed": "100 Gbit/s"} for name in NICS],
    "pcie": [{"address": address, "width": 16} for address in (*GPUS, *NIC_AT)],
}


def lines(items: Iterable[str]) -> bytes:
    """Return `items` as the lines of an answer."""
    return ("\n".join(items) + "\n").encode()


def root_of(at: str) -> str:
    """Return the root port above the device at `at`."""
    return f"0000:00:{(int(at[5:7], 16) >> 3):02x}.1"


def way_of(address: str) -> list[str]:
    """Return the PCI functions from the root port down to `address`."""
    bus = int(address[5:7], 16)
    if address in GPUS:
        up, down = f"0000:{bus - 2:02x}:00.0", f"0000:{bus - 1:02x}:00.0"
        return [root_of(address), up, down, address]
    return [root_of(address), address]


def functions() -> dict[str, tuple[str, str, str]]:
    """Return address → vendor, device, class of every function, 304 of them without a link."""
    idle = [
        f"0000:{bus}:{dev:02x}.{fn}" for bus in ("e0", "e1") for dev in range(19) for fn in range(8)
    ]
    found = {address: ("1022", "14a4", "0600") for address in idle}
    for address in (*GPUS, *NIC_AT):
        found |= {port: ("1022", "14ab", BRIDGE) for port in way_of(address)[:-1]}
    found |= {address: ("1002", "74a2", "1200") for address in GPUS}
    found |= {address: ("15b3", "101d", "0200") for address in NIC_AT}
    return found | {f"0000:{0x60 + n:02x}:00.0": ("144d", "a80a", "0108") for n in range(12)}


def sysfs_pci() -> bytes:
    """Return the ids, classes and links of all functions, as sysfs has them."""
    told = []
    for at, (vendor, device, kind) in functions().items():
        told += [f"{at}/vendor:0x{vendor}", f"{at}/device:0x{device}", f"{at}/class:0x{kind}00"]
        if kind != "0600":
            told += [f"{at}/{which}_link_speed:32.0 GT/s PCIe" for which in ("current", "max")]
            told += [f"{at}/{which}_link_width:16" for which in ("current", "max")]
    return lines(told)


def tree() -> bytes:
    """Return where each function hangs, as `ls -l` prints it."""
    told = ["total 0"]
    ways = {}
    for address in (*GPUS, *NIC_AT):
        way = way_of(address)
        ways |= {each: way[: index + 1] for index, each in enumerate(way)}
    for at in functions():
        way = "/".join(ways.get(at, [at]))
        told.append(
            f"lrwxrwxrwx 1 root root 0 Nov 30 10:00 {at} -> ../../../devices/pci0000:00/{way}"
        )
    return lines(told)


def aer() -> bytes:
    """Return the error counters of all functions that have a link, all 0."""
    told = []
    for at, (_, _, kind) in functions().items():
        if kind != "0600":
            told += [
                f"{at}/aer_dev_{each}:TOTAL_ERR_{word} 0"
                for each, word in (
                    ("correctable", "COR"),
                    ("nonfatal", "NONFATAL"),
                    ("fatal", "FATAL"),
                )
            ]
    for at in dict.fromkeys(root_of(each) for each in (*GPUS, *NIC_AT)):
        told += [f"{at}/aer_rootport_total_err_{each}:0" for each in ("cor", "nonfatal", "fatal")]
    return lines(told)


ACS = """\
{at} PCI bridge [0604]: Advanced Micro Devices, Inc. [AMD] Bridge [1022:14ab]
\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1
\tLnkSta:\tSpeed 32GT/s, Width x16
\tCapabilities: [2a0 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
"""


def acs() -> bytes:
    """Return what lspci tells of the bridges: ACS is off."""
    bridges = [at for at, (_, _, kind) in functions().items() if kind == BRIDGE]
    return "\n".join(ACS.format(at=at) for at in bridges).encode()


def cards(**changed: str) -> bytes:
    """Return what amdgpu tells of all GPUs; `changed` (``ras__umc_err_count``) on each of them."""
    told = []
    for number, at in enumerate(GPUS):
        values = {
            "device": "0x74a2",
            "mem_info_vram_total": "206141652992",
            "vbios_version": "113-M3080203-000",
            "unique_id": f"{number:016x}",
            "current_compute_partition": "SPX",
            "current_memory_partition": "NPS1",
            "numa_node": "0" if number < 4 else "1",
            "hwmon/hwmon5/power1_cap": "650000000",
            "hwmon/hwmon5/temp1_input": "41000",
            "hwmon/hwmon5/temp2_input": "45000",
            "gpu_busy_percent": "0",
            "resource": "0x000003c000000000 0x000003ffffffffff 0x000000000014220c",
        } | {name.replace("__", "/"): value for name, value in changed.items()}
        told += [f"{at}/{name}:{value}" for name, value in values.items()]
        for block in ("umc", "sdma", "gfx", "mmhub", "xgmi_wafl", "pcie_bif", "hdp"):
            told += [f"{at}/ras/{block}_err_count:ue: 0", f"{at}/ras/{block}_err_count:ce: 0"]
        told.append(f"{at}/ras/gpu_vram_bad_pages:")
    return lines(told)


def amd_static() -> bytes:
    """Return `amd-smi static --json`."""
    gpu = {
        "asic": {"market_name": "AMD Instinct MI308X", "vendor_id": "0x1002", "device_id": "0x74a2",
                 "asic_serial": "0x0", "oam_id": 0, "num_compute_units": 80},
        "bus": {"bdf": "", "max_pcie_width": 16, "max_pcie_speed": {"value": 32, "unit": "GT/s"}},
        "vbios": {"name": "AMD MI308X", "part_number": "113-M3080203-000", "version": "022.040"},
        "limit": {"max_power": {"value": 650, "unit": "W"},
                  "socket_power": {"value": 650, "unit": "W"}},
        "vram": {"type": "HBM", "size": {"value": 196592, "unit": "MB"}},
    }  # fmt: skip
    return json.dumps([{"gpu": number, **gpu} for number in range(8)], indent=4).encode()


def amd_metric() -> bytes:
    """Return `amd-smi metric --ecc --pcie --json`: no errors."""
    gpu = {
        "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}, "replay_count": 0,
                 "nak_received_count": 0, "nak_sent_count": 0, "l0_to_recovery_count": 2},
        "ecc": {"total_correctable_count": 0, "total_uncorrectable_count": 0},
    }  # fmt: skip
    return json.dumps([{"gpu": number, **gpu} for number in range(8)], indent=4).encode()


def amd_topology() -> bytes:
    """Return `amd-smi topology --json`: each GPU is joined with each by XGMI."""
    told = [
        {"gpu": one, "bdf": GPUS[one], "links": [
            {"gpu": two, "bdf": GPUS[two], "weight": 0 if one == two else 15,
             "link_status": "ENABLED", "link_type": "SELF" if one == two else "XGMI",
             "num_hops": 0 if one == two else 1, "bandwidth": "N/A"}
            for two in range(8)]}
        for one in range(8)
    ]  # fmt: skip
    return json.dumps(told, indent=4).encode()


def amd_pages() -> bytes:
    """Return `amd-smi bad-pages --json`: none."""
    none = dict.fromkeys(("retired", "pending", "un_res"), "No bad pages found.")
    return json.dumps([{"gpu": number, **none} for number in range(8)]).encode()


def sysfs_block() -> bytes:
    """Return what sysfs tells of the drives."""
    told = []
    for number, name in enumerate(DRIVES):
        told += [
            f"{name}/size:15002931888",
            f"{name}/removable:0",
            f"{name}/wwid:eui.{number:016x}",
            f"{name}/device/serial:SN{number:04}",
            f"{name}/device/model:SAMPLE NVME 7.68TB",
        ]
    return lines(told)


def self_tests() -> bytes:
    """Return `nvme self-test-log -o json`: one test, passed."""
    report = {"Self test result": 0, "Self test code": 2, "Segment number": 0, "Power on hours": 12}
    unused = {"Self test result": 15}
    told = {
        "Current Device Self-Test Operation": 0,
        "Current Device Self-Test Completion": 0,
        "List of Valid Reports": [report, *([unused] * 19)],
    }
    return json.dumps(told).encode()


def sysfs_net() -> bytes:
    """Return what sysfs tells of the ports."""
    told = []
    for number, name in enumerate(NICS):
        told += [
            f"{name}/address:02:00:00:00:00:{number:02x}",
            f"{name}/speed:100000",
            f"{name}/carrier:1",
            f"{name}/operstate:up",
            f"{name}/device/modalias:pci:v15B3",
        ]
    return lines(told)


def net_counters(**changed: str) -> bytes:
    """Return the ports' MTU and counters, all 0; `changed` on each of them."""
    values = {"mtu": "9000", "carrier_down_count": "0"} | {
        f"statistics/{name}": "0" for name in links.COUNTERS
    }
    values |= {name.replace("__", "/"): value for name, value in changed.items()}
    return lines(f"{name}/{file}:{value}" for name in NICS for file, value in values.items())


MODULE = """
Handle 0x00{number:02X}, DMI type 17, 92 bytes
Memory Device
\tSize: 64 GB
\tLocator: DIMM {number}
\tType: DDR5
\tSerial Number: {number:08X}
\tConfigured Memory Speed: 4800 MT/s
"""


def modules() -> bytes:
    """Return `dmidecode -t memory` of 24 modules."""
    head = "# dmidecode 3.5\nSMBIOS 3.5.0 present.\n"
    return (head + "".join(MODULE.format(number=number) for number in range(24))).encode()


def log() -> bytes:
    """Return a healthy boot of 4,000 lines, a quarter of which are like no other but for digits."""
    told = (RECORDED / "dmesg/composed-6.8-healthy-boot.txt").read_bytes().splitlines()
    letters = b"ghijklmnopqrstuvwxyz"
    more = [
        b"[   12.%06d] pci 0000:%02x:00.0: BAR 0 [mem 0x%08x-0x%08x 64bit pref]: assigned"
        % (n, n % 256, n * 4096, n * 4096 + 4095)
        if n % 4
        else b"[   13.%06d] %c%c%c_driver 0000:%02x:00.0: registered, queues %d/0/%d, firmware %08x"
        % (n, letters[n // 400 % 20], letters[n // 20 % 20], letters[n // 4 % 20], n % 256, n, n, n)
        for n in range(4000 - len(told))
    ]
    return b"\n".join([*told, *more]) + b"\n"


def recorded(name: str) -> bytes:
    """Return a file of tests/recorded."""
    return (RECORDED / name).read_bytes()


def answers() -> dict[tuple[str, ...], bytes]:
    """Return every command that all probes ask of this server, and its answer."""
    found = {
        system.OS_RELEASE: recorded("os_release/debian-12.txt"),
        system.UNAME: recorded("uname/coreutils-9.1-debian-12.txt"),
        system.LSCPU: recorded("lscpu/util-linux-2.38.1-kvm.json"),
        system.MEMINFO: recorded("meminfo/linux-6.18-kvm.txt"),
        system.NODES: b"0-1\n",
        ("fio", "--version"): recorded("tool_version/fio-3.33.txt"),
        ("nvme", "version"): recorded("tool_version/nvme-2.3.txt"),
        ("python3", "--version"): recorded("tool_version/python-3.11.txt"),
        ("lsblk", "--version"): recorded("tool_version/lsblk-2.38.1.txt"),
        platform.CMDLINE: b"BOOT_IMAGE=/vmlinuz-6.8.0 ro iommu=pt pci=realloc=off\n",
        platform.UPTIME: b"86400.17 3300000.00\n",
        platform.THP: b"always [madvise] never\n",
        platform.BALANCING: b"0\n",
        platform.DMI: b"id/bios_version:1.4.2\nid/product_name:G593\nid/sys_vendor:Sample\n",
        platform.IOMMU: lines(f"{n}/type:identity" for n in range(200)),
        platform.GOVERNORS: lines(
            f"cpu{n}/cpufreq/scaling_governor:performance" for n in range(384)
        ),
        platform.FAILED: b"",
        platform.SYNCHRONISED: b"yes\n",
        platform.TRACKING: b"A9FEA97B,169.254.169.123,4,1764494000.1,-0.000012345,0.0000021,"
        b"0.0000300,-12.1,0.001,0.05,0.0005,0.0002,64.2,Normal\n",
        ("dmidecode", "-t", "memory"): modules(),
        memory.EDAC: lines(f"mc{n}/{c}_count:0" for n in range(24) for c in ("ce", "ue")),
        drives.SYSFS: sysfs_block(),
        drives.LSBLK: b'{"blockdevices": []}',
        nvme.SYSFS: lines(
            f"{name}/{file}:{value}" for name in DRIVES for file, value in
            (("device/firmware_rev", "GDC7302Q"), ("queue/logical_block_size", "512"))
        ),
        network.SYSFS: sysfs_net(),
        links.SYSFS: net_counters(),
        rdma.SYSFS: ports.infiniband(NICS),
        rdma.ECN: lines(f"{name}/ecn/{role}/enable/{p}:{int(p == 3)}" for name in NICS
                        for role in ("roce_np", "roce_rp") for p in range(8)),
        ("lldpcli", "show", "neighbors", "-f", "json"): ports.lldp(NICS),
        pci.SYSFS: sysfs_pci(),
        pcie_path.TREE: tree(),
        pcie_path.AER: aer(),
        ("lspci", "-Dvvnn", "-d", "::0604"): acs(),
        gpus.CARDS: cards(),
        gpus.DRIVER: b"6.14.14\n",
        gpus.NODES: lines(f"{name}/device/numa_node:{n // 2}" for n, name in enumerate(NICS)),
        ("amd-smi", "version", "--json"): b'[{"tool": "AMDSMI Tool", "version": "26.2.0",'
        b' "amdsmi_library_version": "26.2.0", "rocm_version": "7.2.0"}]',
        gpu_tools.STATIC: amd_static(),
        ("amd-smi", "metric", "--ecc", "--pcie", "--json"): amd_metric(),
        ("amd-smi", "bad-pages", "--json"): amd_pages(),
        ("amd-smi", "topology", "--json"): amd_topology(),
        gpu_tools.OLD: b"",
        ("sh", "-c", kernel_log.SCRIPT): log(),
        ("cat", identity.MACHINE_ID): b"0123456789abcdef0123456789abcdef\n",
        ("cat", identity.PRODUCT_SERIAL): b"SN-HOST-1\n",
    }  # fmt: skip
    found |= ports.answers(DRIVES, NICS, (*GPUS, *NIC_AT))
    for name in DRIVES:
        device = f"/dev/{name}"
        found |= {
            ("nvme", "smart-log", device, "-o", "json"): recorded(
                "nvme_smart_log/composed-2.x-new-drive.json"
            ),
            ("nvme", "error-log", device, "-e", "64", "-o", "json"): recorded(
                "nvme_error_log/composed-2.x.json"
            ),
            ("nvme", "self-test-log", device, "-o", "json"): self_tests(),
        }
    for name in NICS:
        fec = (
            f"FEC parameters for {name}:\nConfigured FEC encodings: Auto\nActive FEC encoding: RS\n"
        )
        found |= {
            ("ethtool", "--show-fec", name): fec.encode(),
            ("mlnx_qos", "-i", name): recorded("mlnx_qos/composed-5.2-prio3.txt"),
            ("dcb", "-j", "pfc", "show", "dev", name): recorded("dcb_pfc/composed-6.1.json"),
        }
    return found


UNGATHERED = clock.PROBES  # they must be timed alone
