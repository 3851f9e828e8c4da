"""NVMe drives beside SMART: firmware, LBA format, error log, self-test log."""

from __future__ import annotations

from collections.abc import Iterable

from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Reading
from kvgate.parse import nvme_errors, nvme_selftest, sysfs
from kvgate.parse.block import BlockDevice
from kvgate.probes import drives
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    class_argv,
    reading,
    untold,
)
from kvgate.probes.drives import nvme_names, per_drive
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Witness

IDENTITY = ("nvme.firmware", "nvme.lba_size", "nvme.namespaces")
SYSFS = class_argv("/sys/block", "nvme*/device/firmware_rev", "nvme*/queue/logical_block_size")
ERRORS = ("nvme.errors_logged",)
TESTS = ("nvme.self_test_running", "nvme.self_test_last", "nvme.self_test_failures")


def ask_identity(witness: Witness) -> Answer:
    """Return firmware, size of a logical block and namespaces of every declared NVMe drive."""
    if not witness.host.items("nvme"):
        return Answer((), ())
    devices, asked = drives.look(witness)
    told = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    found = sysfs.attributes(told.stdout, "NVMe in sysfs") if told.result.ok else {}
    readings: list[Reading] = []
    for item, name in nvme_names(witness, devices):
        if name is None:
            readings += untold(IDENTITY, f"no NVMe disk answers to '{item}'", [item])
            continue
        values = found.get(name, {})
        firmware = sysfs.text(values, "device/firmware_rev", name)
        size = sysfs.text(values, "queue/logical_block_size", name)
        block = Quantity.of(int(size), "B") if size and size.isascii() and size.isdigit() else None
        readings += [
            reading(IDENTITY[0], firmware or None, f"{name} tells no firmware", item=item),
            reading(IDENTITY[1], block, f"{name} tells no logical block size", item=item),
            _namespaces(item, name, devices),
        ]
    return answer(readings, asked, told)


def _namespaces(item: str, name: str, devices: tuple[BlockDevice, ...]) -> Reading:
    """Return how many namespaces of the drive's serial number are there."""
    serial = next(each.serial for each in devices if each.name == name)
    known = sum(each.nvme and each.serial == serial for each in devices) if serial else None
    count = counted(known)
    return reading(IDENTITY[2], count, f"{name} tells no serial number", item=item)


def _error_argv(host: Host, name: str) -> tuple[str, ...]:
    return host.as_root("nvme", "error-log", f"/dev/{name}", "-e", "64", "-o", "json")


def _test_argv(host: Host, name: str) -> tuple[str, ...]:
    return host.as_root("nvme", "self-test-log", f"/dev/{name}", "-o", "json")


def _errors(told: bytes, item: str) -> Iterable[Reading]:
    found = nvme_errors.error_log(told)
    yield reading(ERRORS[0], Quantity.of(len(found.errors), ""), item=item)


def _tests(told: bytes, item: str) -> Iterable[Reading]:
    found = nvme_selftest.self_test_log(told)
    last = found.entries[0].text if found.entries else None
    failed = sum(each.result in (5, 6, 7) for each in found.entries)
    yield reading(TESTS[0], found.running != 0, item=item)
    yield reading(TESTS[1], last, "the drive has never tested itself", item=item)
    yield reading(TESTS[2], Quantity.of(failed, ""), item=item)


def _identity_commands(host: Host) -> tuple[Command, ...]:
    if not host.items("nvme"):
        return ()
    return (Command(argv=drives.SYSFS), Command(argv=SYSFS))


PROBES: tuple[Probe, ...] = (
    Probe(
        name="nvme identity",
        measures=IDENTITY,
        ask=ask_identity,
        commands=_identity_commands,
        items="nvme",
    ),
    per_drive("nvme error log", ERRORS, _error_argv, _errors),
    per_drive("nvme self-test log", TESTS, _test_argv, _tests),
)
