"""What is in the hosts: processors, memory, drives, ports, PCIe links, GPUs."""

from __future__ import annotations

from kvgate.suite import Bench, probes, settles


@settles("G1.7", "G1.8", "G1.9", "G1.10", "G1.11")
def test_processors_and_memory_against_the_order(bench: Bench) -> None:
    """Count sockets, threads, memory and NUMA nodes; note who each host is."""
    asked = probes.system.HARDWARE + probes.identity.PROBES
    bench.survey(asked, bench.hosts(), phase="inspection")


@settles("G1.12", "G1.13", "G1.14")
def test_every_declared_disk(bench: Bench) -> None:
    """Look for every declared disk by serial number, WWN or name; read its model and size."""
    bench.survey(probes.drives.DISKS, bench.hosts(), phase="inspection")


@settles("G1.15", "G1.16", "G1.17", "G1.18", "G1.19", "G1.20")
def test_nvme_drives_for_health_as_new(bench: Bench) -> None:
    """Read the SMART log of every declared NVMe drive."""
    bench.survey(probes.drives.HEALTH, bench.hosts(), phase="inspection")


@settles("G1.21", "G1.22", "G1.23", "G1.24")
def test_every_declared_network_port(bench: Bench) -> None:
    """Look for every declared port; read its address, link and speed."""
    bench.survey(probes.network.PROBES, bench.hosts(), phase="inspection")


@settles("G1.25", "G1.26", "G1.27", "G1.28")
def test_every_declared_pcie_link(bench: Bench) -> None:
    """Look for every declared PCIe device; read its id, and how its link runs."""
    bench.survey(probes.pci.LINKS, bench.hosts(), phase="inspection")


@settles("G1.29")
def test_the_number_of_gpus(bench: Bench) -> None:
    """Count the PCI devices that are GPUs of the declared kind."""
    bench.survey(probes.pci.GPUS, bench.hosts(), phase="inspection")


@settles("G1.32", "G1.33", "G1.34")
def test_memory_modules_and_their_errors(bench: Bench) -> None:
    """Count the memory modules, and the errors that ECC has seen."""
    bench.survey(probes.memory.PROBES, bench.hosts(), phase="inspection")


@settles("G1.41", "G1.42", "G1.43", "G1.44", "G1.45", "G1.46", "G1.47", "G1.48", "G1.49")
@settles("G1.67", "G1.68", "G1.69", "G1.70", "G1.126", "G1.129")
def test_gpus_are_alike_and_without_errors(bench: Bench) -> None:
    """Read memory, partition, errors, links and places of all GPUs, by driver and by tool."""
    bench.survey(probes.gpus.PROBES + probes.gpu_tools.GPUS, bench.hosts(), phase="inspection")


@settles("G1.64", "G1.65", "G1.66")
def test_each_gpu(bench: Bench) -> None:
    """Read memory, errors, power cap, temperature and the nearest ports of each declared GPU."""
    bench.survey(probes.gpu_each.PROBES, bench.hosts(), phase="inspection")


@settles("G1.50", "G1.51", "G1.52", "G1.53")
def test_the_way_from_each_pcie_device_to_its_root_port(bench: Bench) -> None:
    """Compare every link on the way with what both its ends can, read errors and P2P abilities."""
    asked = probes.pcie_path.PROBES + probes.p2p.PROBES + probes.numa.PROBES
    bench.survey(asked, bench.hosts(), phase="inspection")


@settles("G1.54", "G1.71", "G1.72", "G1.128")
def test_nvme_firmware_and_logs(bench: Bench) -> None:
    """Read identity, block format, firmware slots, error and self-test log of every NVMe drive."""
    asked = probes.nvme.PROBES + probes.nvme_tools.PROBES
    bench.survey(asked, bench.hosts(), phase="inspection")


@settles("G1.55", "G1.56", "G1.57", "G1.58", "G1.73", "G1.74", "G1.75", "G1.76", "G1.77")
@settles("G1.78", "G1.79", "G1.80", "G1.81", "G1.82", "G1.130")
def test_settings_and_counters_of_network_ports(bench: Bench) -> None:
    """Read MTU, FEC, optics, priorities, counters and neighbour of every port, and its RDMA."""
    asked = probes.links.PROBES + probes.rdma.PROBES
    asked += probes.port_tools.PROBES + probes.port_qos.PROBES
    bench.survey(asked, bench.hosts(), phase="inspection")
