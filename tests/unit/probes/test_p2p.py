"""Transfers between devices."""

from typing import Any

from kvgate.model.quantity import Quantity
from kvgate.probes import p2p


def test_a_kernel_that_is_built_for_it(server: Any, told: Any) -> None:
    found = told(p2p.ask_kernel(server()))
    assert {found[name, ""] for name in p2p.OPTIONS} == {True}
    say = b"CONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n"
    found = told(p2p.ask_kernel(server({p2p.CONFIG: say})))
    assert {found[name, ""] for name in p2p.OPTIONS} == {False}
    unknown = told(p2p.ask_kernel(server({p2p.CONFIG: (1, b"", b"")})))
    assert "neither in /boot" in unknown["kernel.pci_p2pdma", ""]


def test_the_gpu_driver_allows_it(server: Any, told: Any) -> None:
    assert told(p2p.ask_amdgpu(server()))["gpu.pcie_p2p", ""] is True
    assert told(p2p.ask_amdgpu(server({p2p.PCIE_P2P: b"N\n"})))["gpu.pcie_p2p", ""] is False
    gone = told(p2p.ask_amdgpu(server({p2p.PCIE_P2P: (1, b"", b"")})))
    assert "CONFIG_HSA_AMD_P2P" in gone["gpu.pcie_p2p", ""]
    nvidia = server(gpus={"count": 1, "id": "10de:20b2"})
    assert told(p2p.ask_amdgpu(nvidia))["gpu.pcie_p2p", ""] == "the declared GPUs are not AMD's"


def test_what_devices_offer(server: Any, told: Any, recorded: Any) -> None:
    wanted = ["0000:05:00.0", "0000:61:00.0", "0000:99:00.0"]
    say = recorded("sysfs_pci_windows/composed-server.txt")
    witness = server({p2p.windows_argv(wanted): say}, pcie=[{"address": at} for at in wanted])
    found = told(p2p.ask_windows(witness))
    assert found["pcie.bar_size", wanted[0]] == Quantity.of(256, "GiB")
    assert "publishes no memory" in found["pcie.p2p_memory", wanted[0]]
    assert found["pcie.numa_node", wanted[0]] == Quantity.of(0, "")
    assert found["pcie.p2p_memory", wanted[1]] == Quantity.of(128, "MiB")
    assert "no NUMA node" in found["pcie.numa_node", wanted[1]]
    assert found["pcie.bar_size", wanted[2]] == f"there is no PCI device {wanted[2]}"
