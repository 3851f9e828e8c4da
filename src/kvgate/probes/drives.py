"""Disks: is every declared one there, which model and size, and how healthy (NVMe SMART)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Reading
from kvgate.parse import block, smart
from kvgate.parse.block import BlockDevice
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    ReadItem,
    answer,
    asks,
    class_argv,
    once,
    read_or_untold,
    reading,
    shifted,
    untold,
)
from kvgate.spec.declared import Disk
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

DISK_MEASURES = ("disk.present", "disk.model", "disk.size")
SMART_MEASURES = (
    "nvme.critical_warning",
    "nvme.media_errors",
    "nvme.percentage_used",
    "nvme.available_spare",
    "nvme.spare_threshold",
    "nvme.power_on_hours",
    "nvme.data_written",
    "nvme.unsafe_shutdowns",
    "nvme.error_log_entries",
    "nvme.temperature",
    "nvme.hot_time",
    "nvme.critical_time",
    "nvme.throttled",
)


SYSFS = class_argv(
    "/sys/block",
    "*/size",
    "*/hidden",
    "*/removable",
    "*/serial",
    "*/wwid",
    "*/device/serial",
    "*/device/wwid",
    "*/device/model",
    "*/device/modalias",
    "*/device/vpd_pg80",
)
LSBLK = ("lsblk", "-J", "-b", "-d", "-o", "NAME,TYPE,SIZE,SERIAL,WWN,MODEL")
NAMESPACES = ("/dev/nvme[0-9]n[0-9]", "/dev/nvme[0-9][0-9]n[0-9]")
"""The device files of NVMe namespaces, partitions and hidden paths of a multipath left out."""
_from_sysfs = once(block.from_sysfs)


def look(witness: Witness) -> tuple[tuple[BlockDevice, ...], Testimony]:
    """Return the block devices that sysfs shows, and what was asked."""
    asked = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    return _from_sysfs(asked.stdout), asked


def by_lsblk(witness: Witness) -> tuple[tuple[BlockDevice, ...], Testimony]:
    """Return the block devices that lsblk shows; it knows the serials that udev has read."""
    asked = witness.ask(LSBLK, timeout_s=SHORT_S, env=PLAIN)
    return block.from_lsblk(asked.stdout), asked


def matching(disk: Disk, devices: Iterable[BlockDevice]) -> tuple[BlockDevice, ...]:
    """Return the devices that `disk` describes: by serial or WWN, by name only without both.

    Where several devices share a serial (namespaces of one NVMe drive), a declared WWN or name
    chooses among them.
    """
    if not (disk.serial or disk.wwn):
        return tuple(device for device in devices if device.name == disk.name)
    found = [
        device
        for device in devices
        if (not disk.serial or device.serial == disk.serial)
        and (not disk.wwn or _wwn(device.wwn) == _wwn(disk.wwn))
    ]
    named = [device for device in found if device.name == disk.name]
    return tuple(named if len(found) > 1 and named else found)


def _wwn(told: str | None) -> str:
    """Return a WWN in one spelling: sysfs writes ``naa.5000c5``, udev and lsblk ``0x5000c5``."""
    return (told or "").lower().removeprefix("naa.").removeprefix("0x")


def ask_disks(witness: Witness) -> Answer:
    """Return disk.present, disk.model and disk.size of every declared disk.

    1. Ask sysfs. 2. Ask lsblk too where sysfs doesn't show every declared serial or WWN.
    """
    devices, asked = look(witness)
    testimonies = [asked]
    wanted = witness.host.declared.disks
    unseen = [disk for disk in wanted if (disk.serial or disk.wwn) and not matching(disk, devices)]
    if unseen:
        more, asked_too = by_lsblk(witness)
        devices = (*devices, *(each for each in more if any(matching(d, [each]) for d in unseen)))
        testimonies.append(asked_too)
    found = [each for disk in wanted for each in _told(disk, matching(disk, devices))]
    return answer(found, *testimonies)


def _told(disk: Disk, devices: tuple[BlockDevice, ...]) -> Iterator[Reading]:
    yield reading("disk.present", bool(devices), item=disk.id)
    if not devices:
        for measure in DISK_MEASURES[1:]:
            yield reading(measure, None, f"no disk answers to '{disk.id}'", item=disk.id)
        return
    names = ", ".join(device.name for device in devices)
    models = {device.model for device in devices}
    sizes = {device.size_bytes for device in devices}
    model = models.pop() if len(models) == 1 else None
    yield reading("disk.model", model, f"{names}: no model, or several, told", item=disk.id)
    size = sizes.pop() if len(sizes) == 1 else None
    why = f"{names} answer to '{disk.id}' with different sizes: declare the WWN of each"
    yield reading("disk.size", None if size is None else shifted(size, 9, "GB"), why, item=disk.id)


def nvme_names(
    witness: Witness, devices: tuple[BlockDevice, ...]
) -> Iterator[tuple[str, str | None]]:
    """Yield every declared NVMe drive and its block device's name, None where it is absent."""
    for disk in witness.host.declared.disks:
        if disk.nvme:
            names = [each.name for each in matching(disk, devices) if each.nvme]
            yield disk.id, names[0] if names else None


def per_drive(
    name: str,
    measures: tuple[str, ...],
    argv: Callable[[Host, str], tuple[str, ...]],
    read: ReadItem,
    *,
    tool: str = "nvme",
    package: str = "nvme-cli",
    ends_with_findings: bool = False,
) -> Probe:
    """Return the probe that reads `measures` of every declared NVMe drive from its own answer.

    `argv` makes the command, which runs `tool`, from the name of the drive's block device; its form
    was checked by `BlockDevice.nvme`. `ends_with_findings` as `read_or_untold`.
    """

    def ask(witness: Witness) -> Answer:
        if not witness.host.items("nvme"):
            return Answer((), ())
        devices, asked = look(witness)
        readings: list[Reading] = []
        testimonies = [asked]
        for item, device in nvme_names(witness, devices):
            if device is None:
                readings += untold(measures, f"no NVMe disk answers to '{item}'", [item])
                continue
            told = witness.ask(argv(witness.host, device), timeout_s=SHORT_S, env=PLAIN)
            testimonies.append(told)
            readings += read_or_untold(
                told, measures, item, read, package, ends_with_findings=ends_with_findings
            )
        return answer(readings, *testimonies)

    def commands(host: Host) -> tuple[Command, ...]:
        each = (Command(argv=SYSFS), Command(argv=argv(host, "{}"), each=NAMESPACES))
        return each if host.items("nvme") else ()

    return Probe(
        name=name, measures=measures, ask=ask, commands=commands, tools=(tool,), items="nvme"
    )


def smart_argv(host: Host, name: str) -> tuple[str, ...]:
    """Return the command for the SMART log page."""
    return host.as_root("nvme", "smart-log", f"/dev/{name}", "-o", "json")


def _smart(told: bytes, item: str) -> Iterator[Reading]:
    for name, value in _values(smart.smart_log(told)).items():
        yield reading(name, value, "the drive's SMART log does not tell it", item=item)


def _values(log: smart.SmartLog) -> dict[str, Quantity | None]:
    written = (
        None
        if log.data_units_written is None
        else (shifted(log.data_units_written * smart.DATA_UNIT_BYTES, 12, "TB"))
    )
    return {
        "nvme.critical_warning": Quantity.of(log.critical_warning, ""),
        "nvme.media_errors": Quantity.of(log.media_errors, ""),
        "nvme.percentage_used": Quantity.of(log.percentage_used, "%"),
        "nvme.available_spare": Quantity.of(log.available_spare_pct, "%"),
        "nvme.spare_threshold": Quantity.of(log.spare_threshold_pct, "%"),
        "nvme.power_on_hours": Quantity.of(log.power_on_hours, "h"),
        "nvme.data_written": written,
        "nvme.unsafe_shutdowns": counted(log.unsafe_shutdowns),
        "nvme.error_log_entries": counted(log.error_log_entries),
        "nvme.temperature": (
            None if log.temperature_c is None else Quantity.of(log.temperature_c, "degC")
        ),
        "nvme.hot_time": _minutes(log.warning_temp_min),
        "nvme.critical_time": _minutes(log.critical_temp_min),
        "nvme.throttled": _throttled(log),
    }


def _minutes(number: int | None) -> Quantity | None:
    return None if number is None else Quantity.of(number, "min")


def _throttled(log: smart.SmartLog) -> Quantity | None:
    """Return how often the drive slowed itself down for heat, lightly or heavily."""
    both = (log.thermal_transitions_1, log.thermal_transitions_2)
    return None if None in both else Quantity.of(sum(each or 0 for each in both), "")


DISKS: tuple[Probe, ...] = (
    Probe(
        name="disks",
        measures=DISK_MEASURES,
        ask=ask_disks,
        commands=asks(SYSFS, LSBLK),
        tools=("lsblk",),
        items="disk",
    ),
)
HEALTH: tuple[Probe, ...] = (per_drive("nvme smart", SMART_MEASURES, smart_argv, _smart),)
PROBES = DISKS + HEALTH
