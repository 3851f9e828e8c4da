"""What a run's hosts and devices told of their parts, put together from its measurements."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from kvgate.judge.bom import Compared, Found, compare
from kvgate.model.part import kind_of, serial_key
from kvgate.model.record import EvidenceRef, Measurement
from kvgate.probes import parts
from kvgate.spec.bom import Bom
from kvgate.spec.inventory import Inventory

OF_DEVICES = {
    "array.serial": "array",
    "switch.serial": "switch",
    "bmc.serial": "server",  # of the machine it manages
    "array.drive.serial": "drive",
}
"""Measures of adapters that tell a serial number → the kind of part that has it."""

_MODELS = ("array.model", "switch.model", "bmc.model", "array.drive.model")
_STATES = ("array.drive.state",)
_WELL = frozenset({"ok", "online", "healthy", "normal", "good", "optimal", "enabled", "in use"})
NAMES = frozenset({*parts.MEASURES, *OF_DEVICES, *_MODELS, *_STATES})
"""Every measure that tells of parts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reported:
    """All parts that were told of, what could not be told, and the evidence, by host.

    ``told`` maps (host, kind) to "" or the reason why that host can't tell of such parts.
    """

    found: tuple[Found, ...]
    told: Mapping[tuple[str, str], str]
    evidence: Mapping[str, tuple[EvidenceRef, ...]]

    def against(self, bom: Bom, inventory: Inventory) -> Compared:
        """Return what became of everything that was ordered."""
        return compare(bom, self.found, self.told, inventory.hosts)

    def cited(self, hosts: Iterable[str]) -> tuple[EvidenceRef, ...]:
        """Return the evidence of what `hosts` told of their parts."""
        return tuple(sorted({ref for host in hosts for ref in self.evidence.get(host, ())}))


def reported(taken: Iterable[Measurement], inventory: Inventory) -> Reported:
    """Return what measurements tell of parts; a BMC's count as those of the host it manages.

    What simulated devices tell is no part of a delivery. A part that a device tells twice, among
    its parts and by a measure of its own, is one.
    """
    simulated = {device.name for device in inventory.devices if device.simulated}
    kept = [each for each in taken if each.name in NAMES and each.host not in simulated]
    texts: dict[tuple[str, str], dict[str, str]] = {}
    told: dict[tuple[str, str], str] = {}
    evidence: dict[str, dict[EvidenceRef, None]] = {}
    for each in kept:
        host = _managed(each.host, inventory)
        evidence.setdefault(host, {}).update(dict.fromkeys(each.evidence))
        if each.name == parts.COUNT:
            _note(told, (host, each.item), each.problem)
        elif each.name in OF_DEVICES:
            _note(told, (host, OF_DEVICES[each.name]), each.problem)
        if isinstance(each.value, str):
            texts.setdefault((each.host, each.item), {})[each.name] = each.value
    found = [part for (host, item), values in texts.items() for part in _parts(host, item, values)]
    placed = tuple(dataclasses.replace(part, host=_managed(part.host, inventory)) for part in found)
    unique = {
        (part.host, part.kind, part.serial or str(number)): part
        for number, part in enumerate(placed)
    }
    refs = {host: tuple(of_host) for host, of_host in evidence.items()}
    return Reported(tuple(unique.values()), told, refs)


def _managed(host: str, inventory: Inventory) -> str:
    """Return the host that a BMC manages, or `host` itself."""
    entry = inventory.hosts.get(host)
    return (entry.of or host) if entry else host


def _note(told: dict[tuple[str, str], str], key: tuple[str, str], problem: str) -> None:
    """Remember what is known of a kind; one who can tell is enough."""
    if not problem or key not in told:
        told[key] = problem


def _parts(host: str, item: str, values: Mapping[str, str]) -> Iterator[Found]:
    """Yield the parts that the texts of one item tell of."""
    if place := values.get(parts.PLACE):
        yield Found(
            host=host,
            kind=kind_of(item),
            serial=serial_key(values.get("part.serial", "")),
            model=values.get("part.model", ""),
            part_number=values.get("part.part_number", ""),
            places=tuple(place.split(", ")),
            fault=values.get("part.fault", ""),
        )
    for name, kind in OF_DEVICES.items():
        if name in values:
            what = name.removesuffix("serial")
            state = values.get(f"{what}state", "")
            yield Found(
                host=host,
                kind=kind,
                serial=serial_key(values[name]),
                model=values.get(f"{what}model", ""),
                places=(item,) if item else (),
                fault=f"its state is '{state}'" if state and not _well(state) else "",
            )


def _well(state: str) -> bool:
    return state.strip().casefold() in _WELL
