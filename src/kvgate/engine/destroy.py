"""What people consent to have written over: serials given by ``--yes-destroy``, and nothing else.

They stand in the manifest, which a resumed run takes them from, and in the journal. No plan and no
environment can give them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvgate.errors import UsageError
from kvgate.spec.declared import Disk
from kvgate.spec.inventory import Host, Inventory, Role
from kvgate.spec.load import nearest
from kvgate.store.reader import RunReader
from kvgate.workloads.devices import Consent

KEY = "yes_destroy"
"""The manifest's key, and the field of the journal's event ``destroy_consent``."""


def disks(inventory: Inventory, serials: Sequence[str]) -> list[tuple[Host, Disk]]:
    """Return the declared disks that `serials` (or WWNs) name, in the inventory's order."""
    named = set(serials)
    return [
        (host, disk)
        for host in inventory.hosts.values()
        for disk in host.declared.disks
        if named & {disk.serial, disk.wwn}
    ]


def refuse_unfit(inventory: Inventory, serials: Sequence[str]) -> None:
    """Raise UsageError, with every reason, unless each of `serials` is one that may be written."""
    reasons = [reason for serial in serials for reason in _unfit(inventory, serial)]
    if reasons:
        raise UsageError(
            "; ".join(f"--yes-destroy {reason}" for reason in reasons),
            hint="nothing was run; `kvgate plan` names the devices that are declared destructive",
        )


def _unfit(inventory: Inventory, serial: str) -> Iterator[str]:
    found = disks(inventory, [serial])
    if not found:
        known = [
            told
            for host in inventory.hosts.values()
            for disk in host.declared.disks
            for told in (disk.serial, disk.wwn)
            if told
        ]
        where = f"no disk of inventory '{inventory.inventory}' is declared by this serial or WWN"
        yield f"{serial}: {where}{nearest(serial, known) if known else ''}"
        return
    if len(found) > 1:
        names = ", ".join(host.name for host, _ in found)
        yield f"{serial}: is declared {len(found)} times ({names}): one device has one host"
    for host, disk in found:
        if not disk.destructive:
            yield f"{serial}: is not declared 'destructive: true' on {host.name}"
        if Role.SERVING not in host.roles:
            yield f"{serial}: {host.name} has not the role serving"
        if disk.size is None:
            yield f"{serial}: no size is declared on {host.name}; declare it in bytes"


def places(inventory: Inventory, serials: Sequence[str]) -> dict[str, str]:
    """Return what to hold (`engine.holding`) so that no other kvgate here works on these disks."""
    return {
        f"disk:{disk.id}": f"{host.name}: {disk.id}" for host, disk in disks(inventory, serials)
    }


def consented(reader: RunReader) -> tuple[str, ...]:
    """Return what ``--yes-destroy`` gave when the run was begun."""
    return tuple(str(each) for each in reader.manifest.get(KEY, ()))


def consent(reader: RunReader, host: Host) -> Consent:
    """Return what is known of a host's disks: people's consent, and what gates of the run found.

    A disk counts as found if every gate of this run that asked the host until now saw it.
    """
    seen = [
        frozenset(str(each) for each in event.fields["serials"])
        for event in reader.events("identity")
        if event.fields["host"] == host.name
    ]
    always = frozenset.intersection(*seen) if seen else frozenset()
    found = frozenset(each.removeprefix("disk:") for each in always if each.startswith("disk:"))
    return Consent(frozenset(consented(reader)), found)


def told(inventory: Inventory, serials: Sequence[str]) -> tuple[str, ...]:
    """Return a line for each disk that is declared destructive: what would be written of it."""
    asked = {id(disk) for _, disk in disks(inventory, serials)}
    return tuple(
        f"{host.name}: {disk.id}: "
        + (
            f"may be written over, all of its {disk.size}"
            if id(disk) in asked
            else f"is not written to without --yes-destroy {disk.id}"
        )
        for host in inventory.hosts.values()
        for disk in host.declared.disks
        if disk.destructive
    )
