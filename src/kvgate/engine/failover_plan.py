"""Which faults a plan asks for, with their commands, and on which disk: checked before any host."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kvgate.engine.workspace import Setup
from kvgate.errors import NotRunError
from kvgate.spec.declared import Disk
from kvgate.spec.failover import FailoverWorkload
from kvgate.spec.faults import FaultTemplate, filled
from kvgate.spec.inventory import Host, Role
from kvgate.spec.load import nearest


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """The faults of a plan, in its order, and where the load under them is."""

    workload: FailoverWorkload
    faults: tuple[FaultTemplate, ...]
    host: Host  # the initiator, which is under load
    disk: Disk | None  # None: a file


def planned(setup: Setup) -> Planned | None:
    """Return what the plan asks for, or None; raises NotRunError with everything that is wrong."""
    workload = setup.plan.value.workloads.failover
    if workload is None:
        return None
    wrong = [why for _, why in problems(setup, workload)]
    place = _place(setup, workload)
    if wrong or place is None:
        raise NotRunError(
            tuple(wrong), hint="see workloads.failover, and 'faults' of the inventory"
        )
    faults = tuple(_template(setup, name) for name in workload.faults)
    return Planned(workload, faults, *place)


def problems(
    setup: Setup, workload: FailoverWorkload
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield (where below workloads.failover, what) of all that the inventory does not fit."""
    known = {each.fault for each in setup.inventory.value.faults}
    for index, name in enumerate(workload.faults):
        if name not in known:
            yield ("faults", index), f"'{name}' is no fault of the inventory{nearest(name, known)}"
            continue
        try:
            _template(setup, name)
        except ValueError as err:
            yield ("faults", index), f"'{name}': {err}"
    if _place(setup, workload) is None:
        if workload.serial:
            yield ("serial",), f"no serving host declares disk '{workload.serial}'"
        else:
            yield ("host",), f"host '{workload.host}' is no serving host of the inventory"


def _template(setup: Setup, name: str) -> FaultTemplate:
    """Return a fault with its commands; raises ValueError where its adapter has no such one."""
    inventory = setup.inventory.value
    template = next(each for each in inventory.faults if each.fault == name)
    way = None
    if template.by is not None:
        adapter = setup.adapter(inventory.hosts[template.on])
        ways = {each.fault: each for each in adapter.faults} if adapter else {}
        way = ways.get(template.by)
        if way is None:
            raise ValueError(f"by: '{template.by}' is no fault of its adapter")
    return filled(template, way)


def _place(setup: Setup, workload: FailoverWorkload) -> tuple[Host, Disk | None] | None:
    """Return the initiator and the disk under load; None where the inventory has it not."""
    for host in setup.inventory.value.with_role(Role.SERVING.value):
        if workload.file and host.name == workload.host:
            return host, None
        for disk in host.declared.disks:
            if workload.serial and workload.serial in (disk.serial, disk.wwn):
                return host, disk
    return None
