"""How a host is set up and how it fares: firmware, kernel parameters, IOMMU, huge pages, time."""

from __future__ import annotations

from collections.abc import Callable

from kvgate.model.quantity import Quantity
from kvgate.model.record import Value
from kvgate.parse import settings
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    asks,
    class_argv,
    reading,
    refusal,
    untold,
)
from kvgate.probes.system import MEMINFO
from kvgate.witness import Answer, Witness

CMDLINE = ("cat", "/proc/cmdline")
UPTIME = ("cat", "/proc/uptime")
THP = ("cat", "/sys/kernel/mm/transparent_hugepage/enabled")
BALANCING = ("cat", "/proc/sys/kernel/numa_balancing")
DMI = class_argv("/sys/class/dmi", "id/bios_version", "id/product_name", "id/sys_vendor")
IOMMU = class_argv("/sys/kernel/iommu_groups", "*/type")
GOVERNORS = class_argv("/sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_governor")
FAILED = ("systemctl", "--failed", "--plain", "--no-legend", "--no-pager")
SYNCHRONISED = ("timedatectl", "show", "-p", "NTPSynchronized", "--value")
TRACKING = ("chronyc", "-c", "tracking")


def ask_firmware(witness: Witness) -> Answer:
    """Return host.product and host.bios as the firmware tells them (readable by everyone)."""
    asked = witness.ask(DMI, timeout_s=SHORT_S, env=PLAIN)
    told = settings.dmi(asked.result.stdout) if asked.result.exit_status == 0 else {}
    product = " ".join(filter(None, (told.get("sys_vendor"), told.get("product_name"))))
    why = "the firmware tells the kernel nothing about itself (no DMI)"
    return answer(
        [
            reading("host.product", product or None, why),
            reading("host.bios", told.get("bios_version"), why),
        ],
        asked,
    )


def _one(
    name: str, argv: tuple[str, ...], read: Callable[[bytes], Value], package: str = ""
) -> Probe:
    """Return the probe that reads one value from one command; its refusal becomes the problem."""

    def ask(witness: Witness) -> Answer:
        asked = witness.ask(argv, timeout_s=SHORT_S, env=PLAIN)
        if not asked.result.ok:
            return answer(untold((name,), refusal(asked, package or argv[0])), asked)
        return answer([reading(name, read(asked.stdout))], asked)

    tools = (argv[0],) if package else ()
    return Probe(name=name, measures=(name,), ask=ask, commands=asks(argv), tools=tools)


def ask_iommu(witness: Witness) -> Answer:
    """Return iommu.groups and iommu.domain: identity is passthrough (iommu=pt), DMA translates."""
    asked = witness.ask(IOMMU, timeout_s=SHORT_S, env=PLAIN)
    count, types = (
        settings.iommu_domains(asked.result.stdout) if asked.result.exit_status == 0 else (0, ())
    )
    return answer(
        [
            reading("iommu.groups", Quantity.of(count, "")),
            reading("iommu.domain", ", ".join(types) or None, "no IOMMU is active: no groups"),
        ],
        asked,
    )


def ask_huge_pages(witness: Witness) -> Answer:
    """Return how many huge pages are set aside, and how large one is."""
    asked = witness.ask(MEMINFO, timeout_s=SHORT_S)
    count, kib = settings.huge_pages(asked.stdout)
    size = Quantity.of(kib // 1024, "MiB") if kib % 1024 == 0 else Quantity.of(kib, "KiB")
    return answer(
        [
            reading("memory.huge_pages", Quantity.of(count, "")),
            reading("memory.huge_page_size", size),
        ],
        asked,
    )


def ask_governor(witness: Witness) -> Answer:
    """Return cpu.governor: that of all processors, or all that are in use."""
    asked = witness.ask(GOVERNORS, timeout_s=SHORT_S, env=PLAIN)
    found = settings.governors(asked.result.stdout) if asked.result.exit_status == 0 else ()
    why = "the kernel controls no frequency of its processors (no cpufreq driver)"
    return answer([reading("cpu.governor", ", ".join(found) or None, why)], asked)


def ask_units(witness: Witness) -> Answer:
    """Return host.failed_units, how many systemd units have failed, and their names."""
    asked = witness.ask(FAILED, timeout_s=SHORT_S, env=PLAIN)
    names = ("host.failed_units", "host.failed_unit_names")
    if not asked.result.ok:
        return answer(untold(names, refusal(asked, "systemd")), asked)
    found = settings.failed_units(asked.stdout)
    count, listed = Quantity.of(len(found), ""), ", ".join(found) or "none"
    return answer([reading(names[0], count), reading(names[1], listed)], asked)


def ask_tracking(witness: Witness) -> Answer:
    """Return time.offset of chrony: how far the host's clock is ahead of its server's time."""
    asked = witness.ask(TRACKING, timeout_s=SHORT_S, env=PLAIN)
    if not asked.result.ok:
        return answer(untold(("time.offset",), refusal(asked, "chrony")), asked)
    offset = settings.chrony_offset_s(asked.stdout)
    value = None if offset is None else Quantity(offset * 1000, "ms")
    return answer([reading("time.offset", value, "chrony follows no time server")], asked)


PROBES: tuple[Probe, ...] = (
    Probe(
        name="firmware",
        measures=("host.product", "host.bios"),
        ask=ask_firmware,
        commands=asks(DMI),
    ),
    _one("kernel.cmdline", CMDLINE, settings.kernel_parameters),
    _one("host.uptime", UPTIME, lambda told: Quantity(settings.uptime_s(told), "s")),
    _one("memory.thp", THP, lambda told: settings.chosen(told, "transparent huge pages")),
    _one("numa.balancing", BALANCING, lambda told: settings.on_off(told, "numa_balancing")),
    _one("time.synchronised", SYNCHRONISED, settings.synchronised, "systemd"),
    Probe(
        name="iommu",
        measures=("iommu.groups", "iommu.domain"),
        ask=ask_iommu,
        commands=asks(IOMMU),
    ),
    Probe(
        name="huge pages",
        measures=("memory.huge_pages", "memory.huge_page_size"),
        ask=ask_huge_pages,
        commands=lambda _: (Command(argv=MEMINFO),),
    ),
    Probe(name="governor", measures=("cpu.governor",), ask=ask_governor, commands=asks(GOVERNORS)),
    Probe(
        name="failed units",
        measures=("host.failed_units", "host.failed_unit_names"),
        ask=ask_units,
        commands=asks(FAILED),
        tools=("systemctl",),
    ),
    Probe(
        name="time server",
        measures=("time.offset",),
        ask=ask_tracking,
        commands=asks(TRACKING),
        tools=("chronyc",),
    ),
)
