"""Transfers between PCIe devices: is the kernel built for them, what devices offer for them."""

from __future__ import annotations

from collections.abc import Iterable

from kvgate.model.quantity import counted
from kvgate.model.record import Reading
from kvgate.parse import kernel_config, pci, settings
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    asks,
    class_argv,
    reading,
    untold,
)
from kvgate.probes.gpus import not_amd, size_of
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Witness

OPTIONS = {
    "kernel.pci_p2pdma": "CONFIG_PCI_P2PDMA",
    "kernel.hsa_amd_p2p": "CONFIG_HSA_AMD_P2P",
    "kernel.dmabuf_move_notify": "CONFIG_DMABUF_MOVE_NOTIFY",
}
"""Measure → what the kernel has to be built with for DMA between GPUs, NICs and drives."""

_WANTED = "|".join(OPTIONS.values())
CONFIG = (
    "sh",
    "-c",
    'f="/boot/config-$(uname -r)"; { [ -r "$f" ] && cat "$f" || zcat /proc/config.gz; } '
    f"| grep -E '^(# )?({_WANTED}|CONFIG_PCI)[= ]'",
)
PCIE_P2P = ("cat", "/sys/module/amdgpu/parameters/pcie_p2p")
_NO_P2P = "publishes no memory for transfers between devices (p2pmem in sysfs)"
WINDOWS = ("pcie.bar_size", "pcie.p2p_memory", "pcie.numa_node")


def ask_kernel(witness: Witness) -> Answer:
    """Return which of `OPTIONS` the running kernel was built with (an option it lacks is off)."""
    asked = witness.ask(CONFIG, timeout_s=SHORT_S, env=PLAIN)
    if not asked.result.ok:
        why = "the running kernel's configuration is neither in /boot nor in /proc/config.gz"
        return answer(untold(OPTIONS, why), asked)
    found = kernel_config.options(asked.stdout)
    told = [reading(name, found.get(option) in ("y", "m")) for name, option in OPTIONS.items()]
    return answer(told, asked)


def ask_amdgpu(witness: Witness) -> Answer:
    """Return gpu.pcie_p2p: does amdgpu allow transfers between GPUs over PCIe."""
    name = "gpu.pcie_p2p"
    if why := not_amd(witness.host):
        return Answer(tuple(untold((name,), why)), ())
    asked = witness.ask(PCIE_P2P, timeout_s=SHORT_S, env=PLAIN)
    if not asked.result.ok:
        why = "amdgpu has no parameter pcie_p2p: not loaded, or built without CONFIG_HSA_AMD_P2P"
        return answer(untold((name,), why), asked)
    return answer([reading(name, settings.yes_no(asked.stdout, "pcie_p2p"))], asked)


def windows_argv(addresses: Iterable[str]) -> tuple[str, ...]:
    """Return the command that reads what the devices at `addresses` offer to others."""
    files = ("resource", "numa_node", "p2pmem/size", "p2pmem/published")
    return class_argv(
        "/sys/bus/pci/devices",
        *(f"{address}/{file}" for address in addresses for file in files),
    )


def ask_windows(witness: Witness) -> Answer:
    """Return the largest BAR, the offered P2P memory and the NUMA node of every declared device."""
    wanted = witness.host.items("pcie")
    if not wanted:
        return Answer((), ())
    asked = witness.ask(windows_argv(wanted), timeout_s=SHORT_S, env=PLAIN)
    found = pci.windows(asked.result.stdout) if asked.result.exit_status == 0 else ()
    known = {each.address: each for each in found}
    readings: list[Reading] = []
    for address in wanted:
        told = known.get(address)
        if told is None:
            readings += untold(WINDOWS, f"there is no PCI device {address}", [address])
            continue
        offered = told.p2p_bytes if told.p2p_published else None
        node = counted(told.numa_node)
        readings += [
            reading(WINDOWS[0], size_of(told.bar_bytes), f"{address} has no BAR", item=address),
            reading(WINDOWS[1], size_of(offered), f"{address} {_NO_P2P}", item=address),
            reading(WINDOWS[2], node, f"the firmware gives {address} no NUMA node", item=address),
        ]
    return answer(readings, asked)


def _windows_commands(host: Host) -> tuple[Command, ...]:
    return (Command(argv=windows_argv(host.items("pcie"))),) if host.items("pcie") else ()


def _amdgpu_commands(host: Host) -> tuple[Command, ...]:
    return () if not_amd(host) else (Command(argv=PCIE_P2P),)


PROBES: tuple[Probe, ...] = (
    Probe(name="kernel p2p", measures=tuple(OPTIONS), ask=ask_kernel, commands=asks(CONFIG)),
    Probe(name="gpu p2p", measures=("gpu.pcie_p2p",), ask=ask_amdgpu, commands=_amdgpu_commands),
    Probe(
        name="pcie windows",
        measures=WINDOWS,
        ask=ask_windows,
        commands=_windows_commands,
        items="pcie",
    ),
)
