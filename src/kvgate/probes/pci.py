"""PCIe devices: is every declared one there, how its link runs; and how many GPUs there are."""

from __future__ import annotations

from collections.abc import Iterator

from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Reading
from kvgate.parse import pci
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    asks,
    class_argv,
    once,
    reading,
)
from kvgate.spec.declared import PcieLink
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

MEASURES = (
    "pcie.present",
    "pcie.id",
    "pcie.speed",
    "pcie.width",
    "pcie.speed_max",
    "pcie.width_max",
)


SYSFS = class_argv(
    "/sys/bus/pci/devices",
    "*/vendor",
    "*/device",
    "*/class",
    "*/current_link_speed",
    "*/current_link_width",
    "*/max_link_speed",
    "*/max_link_width",
)
_functions = once(pci.functions)


def look(witness: Witness) -> tuple[tuple[pci.Function, ...], Testimony]:
    """Return the PCI functions that sysfs shows, and what was asked."""
    asked = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    return _functions(asked.stdout), asked


def ask_links(witness: Witness) -> Answer:
    """Return pcie.present, its id, and speed and width (now and at most) of every declared link."""
    functions, asked = look(witness)
    by_address = {function.address: function for function in functions}
    found = [
        each
        for link in witness.host.declared.pcie
        for each in _told(link, by_address.get(link.address))
    ]
    return answer(found, asked)


def _told(link: PcieLink, function: pci.Function | None) -> Iterator[Reading]:
    at = link.address
    yield reading("pcie.present", function is not None, item=at)
    if function is None:
        for measure in MEASURES[1:]:
            yield reading(measure, None, f"there is no PCI device {at}", item=at)
        return
    yield reading("pcie.id", function.id, item=at)
    for measure, speed in (
        ("pcie.speed", function.speed_gts),
        ("pcie.speed_max", function.speed_max_gts),
    ):
        value = None if speed is None else Quantity.of(speed, "GT/s")
        yield reading(measure, value, f"{at} reports no link speed", item=at)
    for measure, width in (("pcie.width", function.width), ("pcie.width_max", function.width_max)):
        lanes = counted(width)
        yield reading(measure, lanes, f"{at} reports no link width", item=at)


def ask_gpus(witness: Witness) -> Answer:
    """Return gpu.count: PCI devices of the declared id (nothing where no GPU is declared).

    A device of another id is not counted: it is not what was ordered.
    """
    wanted = witness.host.declared.gpus
    if wanted is None:
        return Answer((), ())
    functions, asked = look(witness)
    count = sum(function.id == wanted.id for function in functions)
    return answer([reading("gpu.count", Quantity.of(count, ""))], asked)


def _gpu_commands(host: Host) -> tuple[Command, ...]:
    return (Command(argv=SYSFS),) if host.declared.gpus else ()


LINKS: tuple[Probe, ...] = (
    Probe(name="pcie links", measures=MEASURES, ask=ask_links, commands=asks(SYSFS), items="pcie"),
)
GPUS: tuple[Probe, ...] = (
    Probe(name="gpus", measures=("gpu.count",), ask=ask_gpus, commands=_gpu_commands),
)
PROBES = LINKS + GPUS
