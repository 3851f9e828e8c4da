"""What each host is expected to answer, and which hosts and items a criterion covers.

The inventory and its baseline, flattened into requirements by measure and item, so that the
judge stays pure: it sees only criteria, coverage, requirements and measurements.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvgate.model.part import AS_ORDERED, NO_SURPLUS
from kvgate.model.quantity import counted
from kvgate.model.record import ALL_HOSTS, Value
from kvgate.spec.baseline import Baseline
from kvgate.spec.bom import Bom
from kvgate.spec.declared import Declared
from kvgate.spec.expect_device import declared_of
from kvgate.spec.expect_fabric import expected_of
from kvgate.spec.gate import Criterion
from kvgate.spec.inventory import Inventory
from kvgate.spec.matrix import settings_of
from kvgate.spec.requirement import Requirement, given

__all__ = ["Coverage", "Expectations", "Key", "Requirement", "coverage", "expectations"]

Key = tuple[str, str, str]  # host, measure, item
Expectations = dict[Key, Requirement]

PART_STATUS = "part.status"
PARTS_SURPLUS = "parts.surplus"


def expectations(
    inventory: Inventory, baseline: Baseline | None, bom: Bom | None = None
) -> Expectations:
    """Return every requirement that inventory, baseline and bill of materials declare."""
    found: Expectations = dict(_of_bom(inventory, bom)) if bom else {}
    for name, host in inventory.hosts.items():
        if baseline and host.baseline:
            for measure, item, need in settings_of(host, baseline, bom):
                found[name, measure, item] = need
        have = declared_of(host) if host.is_device else _declared(host.declared)
        for measure, item, value in have:
            agreed = found.get((name, measure, item))
            found[name, measure, item] = Requirement(
                "equals", (value,), agreed.same if agreed else ""
            )
        found |= {(name, measure, item): need for measure, item, need in expected_of(host)}
    return found


def _of_bom(inventory: Inventory, bom: Bom) -> Iterator[tuple[Key, Requirement]]:
    """Yield what is required of ordered parts, and that nothing else is on the hosts they name.

    A bill that names no host speaks of all of them.
    """
    for each in bom.judged():
        yield (
            (each.host or ALL_HOSTS, PART_STATUS, each.item),
            Requirement("equals", (AS_ORDERED,)),
        )
    named = {each.host for each in bom.ordered() if each.host} or set(inventory.hosts)
    for host in inventory.hosts:
        if host in named:
            yield (host, PARTS_SURPLUS, ""), Requirement("equals", (NO_SURPLUS,))


def _declared(have: Declared) -> Iterator[tuple[str, str, Value]]:
    """Yield (measure, item, value) for everything a host is declared to have."""
    single: list[tuple[str, Value | None]] = [
        ("memory.size", have.memory),
        ("numa.nodes", counted(have.numa_nodes)),
        ("gpu.count", counted(have.gpus.count) if have.gpus else None),
        ("gpu.driven", counted(have.gpus.count) if have.gpus else None),
    ]
    if have.cpu:
        single += [
            ("cpu.model", have.cpu.model),
            ("cpu.sockets", counted(have.cpu.sockets)),
            ("cpu.threads", counted(have.cpu.threads)),
        ]
    yield from ((measure, "", value) for measure, value in single if value is not None)
    for disk in have.disks:
        yield "disk.present", disk.id, True
        yield from given(disk.id, ("disk.model", disk.model), ("disk.size", disk.size))
    for nic in have.nics:
        yield "nic.present", nic.name, True
        yield from given(
            nic.name,
            ("nic.mac", nic.mac),
            ("nic.speed", nic.speed),
            ("nic.mtu", nic.mtu),
            ("nic.fec", nic.fec),
            ("nic.neighbour", nic.neighbour),
        )
    for address in have.gpus.addresses if have.gpus else ():
        yield "card.present", address, True
    for link in have.pcie:
        yield "pcie.present", link.address, True
        yield from given(
            link.address,
            ("pcie.id", link.id),
            ("pcie.speed", link.speed),
            ("pcie.width", counted(link.width)),
        )


Coverage = dict[str, tuple[str, ...]]
"""Host → the items that must have been measured there (``("",)``: the host itself)."""


def coverage(criterion: Criterion, inventory: Inventory, expected: Expectations) -> Coverage:
    """Return which hosts and items `criterion` covers; empty where nothing is declared for it."""
    hosts = inventory.with_role(criterion.hosts)
    if criterion.scope == "all hosts":
        return {ALL_HOSTS: ("",)} if hosts else {}
    matched = any(limit.matches_inventory for limit in criterion.limits.values())
    if matched or criterion.each == "part":
        return _expecting(criterion, inventory, expected)
    if criterion.each:
        return {host.name: items for host in hosts if (items := host.items(criterion.each))}
    return {host.name: ("",) for host in hosts}


def _expecting(criterion: Criterion, inventory: Inventory, expected: Expectations) -> Coverage:
    """Return where the criterion's measure is declared: only what is declared is judged."""
    hosts = inventory.with_role(criterion.hosts)
    found: dict[str, list[str]] = {}
    each = None if criterion.each == "part" else criterion.each
    wanted = {host.name: host.items(each) if each else None for host in hosts}
    if criterion.each == "part" and criterion.hosts == "all":
        wanted |= dict.fromkeys((*inventory.hosts, ALL_HOSTS))  # devices too, and anywhere
    for host, name, item in expected:
        if name != criterion.measure or host not in wanted:
            continue
        items = wanted[host]
        if items is None or item in items:
            found.setdefault(host, []).append(item)
    return {host: tuple(items) for host, items in found.items()}
