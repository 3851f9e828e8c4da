"""Read-only questions to a host: one command, one parser, one typed answer each."""

from kvgate.probes import (
    clock,
    devices,
    drives,
    gpu_each,
    gpu_nvidia,
    gpu_tools,
    gpus,
    identity,
    kernel_log,
    kernel_since,
    links,
    memory,
    network,
    numa,
    nvme,
    nvme_tools,
    nvmeof,
    nvmeof_discovery,
    nvmeof_paths,
    p2p,
    packages,
    parts,
    pci,
    pcie_path,
    pings,
    platform,
    port_qos,
    port_tools,
    rdma,
    roce,
    roce_counters,
    system,
    tools,
)

__all__ = [
    "clock",
    "devices",
    "drives",
    "gpu_each",
    "gpu_nvidia",
    "gpu_tools",
    "gpus",
    "identity",
    "kernel_log",
    "kernel_since",
    "links",
    "memory",
    "network",
    "numa",
    "nvme",
    "nvme_tools",
    "nvmeof",
    "nvmeof_discovery",
    "nvmeof_paths",
    "p2p",
    "packages",
    "parts",
    "pci",
    "pcie_path",
    "pings",
    "platform",
    "port_qos",
    "port_tools",
    "rdma",
    "roce",
    "roce_counters",
    "system",
    "tools",
]

ALL = (
    system.PROBES
    + tools.PROBES
    + clock.PROBES
    + platform.PROBES
    + memory.PROBES
    + numa.PROBES
    + drives.PROBES
    + nvme.PROBES
    + nvme_tools.PROBES
    + nvmeof_paths.PROBES
    + nvmeof_discovery.PROBES
    + network.PROBES
    + links.PROBES
    + port_tools.PROBES
    + port_qos.PROBES
    + rdma.PROBES
    + roce.PROBES
    + pci.PROBES
    + pcie_path.PROBES
    + p2p.PROBES
    + gpus.PROBES
    + gpu_tools.PROBES
    + gpu_each.PROBES
    + kernel_log.PROBES
    + packages.PROBES
    + parts.PROBES
    + identity.PROBES
)
"""Every probe there is."""
