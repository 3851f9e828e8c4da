"""Read-only questions to a host: one command, one parser, one typed answer each."""

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
    tools,
)

__all__ = [
    "clock",
    "drives",
    "gpu_tools",
    "gpus",
    "identity",
    "kernel_log",
    "links",
    "memory",
    "network",
    "nvme",
    "pci",
    "pcie_path",
    "platform",
    "rdma",
    "system",
    "tools",
]

ALL = (
    system.PROBES
    + tools.PROBES
    + clock.PROBES
    + platform.PROBES
    + memory.PROBES
    + drives.PROBES
    + nvme.PROBES
    + network.PROBES
    + links.PROBES
    + rdma.PROBES
    + pci.PROBES
    + pcie_path.PROBES
    + gpus.PROBES
    + gpu_tools.PROBES
    + kernel_log.PROBES
    + identity.PROBES
)
"""Every probe there is."""
