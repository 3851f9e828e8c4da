"""NVMe drives by nvme-cli and smartctl: identity, LBA format, firmware slots, a second word."""

from __future__ import annotations

from collections.abc import Iterable

from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Reading
from kvgate.parse import nvme_ctrl, nvme_namespace, smartctl
from kvgate.probes.base import Probe, reading, shifted
from kvgate.probes.drives import per_drive
from kvgate.spec.inventory import Host

CONTROLLER = (
    "nvme.serial",
    "nvme.model",
    "nvme.capacity",
    "nvme.unallocated",
    "nvme.namespaces_most",
    "nvme.warning_temperature",
    "nvme.critical_temperature",
    "nvme.spec",
)
NAMESPACE = ("nvme.lba_format", "nvme.lba_metadata", "nvme.lba_best")
FIRMWARE = ("nvme.firmware_active", "nvme.firmware_slot", "nvme.firmware_pending")
SMART = ("nvme.smart_passed", "nvme.media_errors_by_smartctl")


def controller_argv(host: Host, name: str) -> tuple[str, ...]:
    """Return the command for Identify Controller."""
    return host.as_root("nvme", "id-ctrl", f"/dev/{name}", "-o", "json")


def namespace_argv(host: Host, name: str) -> tuple[str, ...]:
    """Return the command for Identify Namespace."""
    return host.as_root("nvme", "id-ns", f"/dev/{name}", "-o", "json")


def firmware_argv(host: Host, name: str) -> tuple[str, ...]:
    """Return the command for the log page of firmware slots."""
    return host.as_root("nvme", "fw-log", f"/dev/{name}", "-o", "json")


def smartctl_argv(host: Host, name: str) -> tuple[str, ...]:
    """Return the command by which smartctl tells all it knows."""
    return host.as_root("smartctl", "-j", "-a", f"/dev/{name}")


def _controller(told: bytes, item: str) -> Iterable[Reading]:
    found = nvme_ctrl.controller(told)
    none = "the drive does not tell it (Identify Controller)"
    total, rest = found.tnvmcap_bytes, found.unvmcap_bytes
    values = (
        found.serial,
        found.model,
        shifted(total, 9, "GB") if total else None,  # 0: not told
        None if rest is None or not total else shifted(rest, 9, "GB"),
        counted(found.nn),
        None if found.wctemp_c is None else Quantity.of(found.wctemp_c, "degC"),
        None if found.cctemp_c is None else Quantity.of(found.cctemp_c, "degC"),
        found.version,
    )
    for name, value in zip(CONTROLLER, values, strict=True):
        yield reading(name, value, none, item=item)


def _namespace(told: bytes, item: str) -> Iterable[Reading]:
    found = nvme_namespace.namespace(told)
    used = found.format
    best = min(each.performance for each in found.formats)
    text = f"{used.index}: {used.data_bytes} B + {used.metadata_bytes} B"
    yield reading(NAMESPACE[0], text, item=item)
    yield reading(NAMESPACE[1], Quantity.of(used.metadata_bytes, "B"), item=item)
    yield reading(NAMESPACE[2], used.performance == best, item=item)


def _firmware(told: bytes, item: str) -> Iterable[Reading]:
    found = nvme_namespace.firmware_log(told)
    pending = found.next_slot not in (None, found.active_slot)
    yield reading(FIRMWARE[0], found.slots[found.active_slot], item=item)
    yield reading(FIRMWARE[1], Quantity.of(found.active_slot, ""), item=item)
    yield reading(FIRMWARE[2], pending, item=item)


def _smart(told: bytes, item: str) -> Iterable[Reading]:
    found = smartctl.drive(told)
    none = "smartctl does not tell it"
    errors = counted(found.media_errors)
    yield reading(SMART[0], found.smart_passed, none, item=item)
    yield reading(SMART[1], errors, none, item=item)


PROBES: tuple[Probe, ...] = (
    per_drive("nvme controller", CONTROLLER, controller_argv, _controller),
    per_drive("nvme namespace", NAMESPACE, namespace_argv, _namespace),
    per_drive("nvme firmware", FIRMWARE, firmware_argv, _firmware),
    per_drive(
        "smartctl",
        SMART,
        smartctl_argv,
        _smart,
        tool="smartctl",
        package="smartmontools",
        ends_with_findings=True,  # its status has bits that tell of the drive
    ),
)
