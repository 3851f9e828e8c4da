"""Undoes, before a gate measures anything, the faults that a killed run may have left standing."""

from __future__ import annotations

from collections.abc import Callable

from kvgate.faults import standing
from kvgate.faults.standing import Standing
from kvgate.spec.inventory import Host, Inventory
from kvgate.store.run import RunWriter
from kvgate.witness import Witness


def undo_left(
    run: RunWriter, inventory: Inventory, witness: Callable[[Host], Witness]
) -> tuple[Standing, ...]:
    """Undo and prove every fault that is noted for a host of `inventory`; return them.

    Each is journalled (``fault_left``). The hosts are held by this run, so that no other run can
    be in the midst of it. Raises RepairError where an undo is not proven, StoreError for a note
    that can't be read.
    """
    hosts = {standing.place_of(host): host for host in inventory.hosts.values()}
    done = []
    for each in standing.left(run.path.parent / standing.FOLDER):
        host = hosts.get(each.place)
        if host is None or host.transport == "recorded":
            continue
        run.event("fault_left", fault=each.fault, host=host.name, of=each.run)
        standing.undone(each, witness(host))
        run.event("fault_repaired", fault=each.fault, host=host.name)
        done.append(each)
    return tuple(done)
