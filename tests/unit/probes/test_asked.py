"""What G1 has to read of a host, item by item: which measures tell it, which parsers read it.

The composed server answers all of them (test_server.py), every parser is damaged
(tests/unit/parse/test_mutations.py).
"""

import pytest

from kvgate.parse import rdma_sysfs, registry
from kvgate.probes import ALL, kernel_since, port_tools

ASKED: dict[str, tuple[str, str]] = {
    # host
    "dmidecode, DIMMs, size, speed": (
        "memory.dimms memory.slots memory.installed memory.dimm_speed",
        "dmidecode",
    ),
    "lscpu": ("cpu.model cpu.sockets cpu.threads", "lscpu"),
    "lsblk": ("disk.present disk.model disk.size", "lsblk sysfs_block"),
    "numactl": ("numa.memory_least numa.empty_nodes numa.distance_most", "numactl numa_online"),
    "ECC by EDAC": ("memory.ecc_correctable memory.ecc_uncorrectable", "sysfs_edac"),
    "kernel command line": ("kernel.cmdline", "proc_cmdline"),
    "IOMMU": ("iommu.groups iommu.domain", "sysfs_iommu"),
    "huge pages": ("memory.huge_pages memory.huge_page_size memory.thp", "huge_pages sysfs_choice"),
    "governor": ("cpu.governor", "sysfs_cpufreq"),
    "time": ("time.synchronised time.offset clock.offset", "timedatectl chronyc date"),
    "os-release": ("os.id os.version kernel.release", "os_release uname"),
    "uptime": ("host.uptime", "proc_uptime"),
    "failed units": ("host.failed_units host.failed_unit_names", "systemctl_failed"),
    "versions of tools": (
        "tool.fio.version tool.nvme.version tool.lspci.version tool.ethtool.version "
        "tool.smartctl.version tool.dmidecode.version tool.dcb.version tool.chronyc.version "
        "tool.lldpcli.version tool.amd_smi.version",
        "",
    ),
    # GPU
    "amd-smi": ("tool.amd_smi.version rocm.version gpu.vbios_by_tool", "amd_smi"),
    "rocm-smi": ("gpu.model", "rocm_smi"),
    "NVIDIA": ("gpu.driven card.present", "nvidia_smi"),
    "no GPU, and GPUs of another id": ("gpu.seen gpu.others gpu.other_ids", "sysfs_pci"),
    "number by id": ("gpu.count", "sysfs_pci"),
    "HBM size": ("gpu.hbm_size gpu.hbm_size_by_tool card.hbm_size", "sysfs_amdgpu amd_smi"),
    "VBIOS": ("gpu.vbios card.vbios", "sysfs_amdgpu"),
    "XGMI links": ("gpu.xgmi_pairs gpu.xgmi_links_down gpu.xgmi_bit_rate", "amd_smi"),
    "RAS and ECC": (
        "gpu.ras_correctable gpu.ras_uncorrectable gpu.ecc_uncorrectable card.ras_uncorrectable",
        "sysfs_amdgpu amd_smi",
    ),
    "bad pages": ("gpu.bad_pages gpu.bad_pages_by_tool card.bad_pages", "sysfs_amdgpu amd_smi"),
    "partitions": (
        "gpu.compute_partition gpu.memory_partition gpu.logical card.compute_partition",
        "sysfs_amdgpu sysfs_kfd",
    ),
    "power cap": ("gpu.power_cap gpu.power_cap_by_tool card.power_cap", "sysfs_amdgpu"),
    "temperature at idle": (
        "gpu.temperature gpu.busy card.temperature card.busy",
        "sysfs_amdgpu",
    ),
    "GPU, NIC, NUMA": (
        "gpu.far_from_nics card.near_nics card.numa_node pcie.numa_node",
        "sysfs_port_nodes",
    ),
    # PCIe
    "speed and width": ("pcie.speed pcie.width pcie.speed_max pcie.width_max", "sysfs_pci"),
    "every bridge": ("pcie.slow_links pcie.slow_link_names", "pci_tree"),
    "AER": ("pcie.aer_correctable pcie.aer_fatal pcie.root_correctable", "sysfs_aer"),
    "ACS": ("pcie.acs", "lspci"),
    "P2PDMA": (
        "kernel.pci_p2pdma kernel.hsa_amd_p2p gpu.pcie_p2p pcie.p2p_memory",
        "kernel_config module_parameter sysfs_pci_windows",
    ),
    "large BAR": (
        "gpu.large_bar gpu.bar_size card.large_bar pcie.bar_size",
        "sysfs_pci_windows sysfs_amdgpu",
    ),
    # NVMe
    "identity": ("nvme.serial nvme.model nvme.capacity nvme.unallocated", "nvme_id_ctrl"),
    "firmware": (
        "nvme.firmware nvme.firmware_active nvme.firmware_slot nvme.firmware_pending",
        "nvme_fw_log",
    ),
    "SMART": (
        "nvme.critical_warning nvme.media_errors nvme.percentage_used nvme.available_spare "
        "nvme.power_on_hours nvme.data_written nvme.hot_time nvme.throttled",
        "nvme_smart_log",
    ),
    "smartctl": ("nvme.smart_passed nvme.media_errors_by_smartctl", "smartctl"),
    "error log": ("nvme.errors_logged", "nvme_error_log"),
    "self-test log": ("nvme.self_test_last nvme.self_test_failures", "nvme_self_test_log"),
    "namespaces and LBA format": (
        "nvme.namespaces nvme.lba_size nvme.lba_format nvme.lba_metadata nvme.lba_best",
        "nvme_id_ns",
    ),
    # NIC and RDMA
    "link": ("nic.speed nic.carrier nic.autonegotiation nic.lanes", "sysfs_net ethtool"),
    "FEC": ("nic.fec", "ethtool_fec"),
    "optics": (
        "nic.module nic.module_temperature nic.rx_power nic.tx_power nic.module_alarms",
        "ethtool_m",
    ),
    "MTU": ("nic.mtu rdma.active_mtu", "ibv_devinfo"),
    "rings and pause": ("nic.rings_full nic.global_pause", "ethtool_g ethtool_a"),
    "RoCE v2": ("rdma.roce_v2_gids rdma.state rdma.default_mode", "sysfs_infiniband rdma_cm"),
    "firmware of NICs": ("nic.driver nic.firmware rdma.firmware", "ethtool_i"),
    "PFC, DSCP": (
        "nic.pfc_priorities nic.trust nic.dscp_of_lossless nic.dscp26_lossless",
        "mlnx_qos dcb_pfc dcb_app niccli nicctl",
    ),
    "ECN": ("nic.ecn_notification nic.ecn_reaction nic.ecn_priority3", ""),
    "counters": (
        "nic.losses nic.pauses nic.rx_crc_errors rdma.losses rdma.congestion",
        "ethtool_S sysfs_infiniband",
    ),
    "LLDP": ("nic.neighbour", "lldpcli"),
    # kernel log
    "since boot": ("log.pcie_errors log.gpu_errors log.nvme_errors log.link_flaps", "dmesg"),
    "memory, MCE, OOM": ("log.memory_errors log.oom_kills log.fatal", "dmesg"),
}
MEASURED = {measure for probe in ALL for measure in probe.measures}


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_asked_is_measured_and_its_parser_is_a_tool(asked: str) -> None:
    measures, tools = ASKED[asked]
    assert set(measures.split()) <= MEASURED
    assert set(tools.split()) <= set(registry.tools())


def test_since_a_mark_the_same_subjects_are_told() -> None:
    assert {name.replace("new_", "") for name in kernel_since.NEW} <= MEASURED


def test_counters_of_three_makers_are_known_by_name() -> None:
    assert {"rx_prio3_discards", "rx_discards_phy", "hw_rx_dropped"} <= port_tools.LOSSES
    assert {"rx_prio3_pause", "rx_pfc_ena_frames_pri3", "frames_rx_pripause"} <= port_tools.PAUSES
    assert not port_tools.LOSSES & port_tools.PAUSES
    assert {"np_cnp_sent", "rp_cnp_handled", "rx_rdma_cnp_pkts"} <= rdma_sysfs.CNP
    assert {"rx_ecn_marked_pkts", "rx_rdma_ecn_pkts"} <= rdma_sysfs.MARKED
    assert not rdma_sysfs.LOSS & (rdma_sysfs.CNP | rdma_sysfs.MARKED)
