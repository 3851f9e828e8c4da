"""What SNIA's tests will cost before they start: from the fewest rounds to the most, and wear."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kvgate.errors import NotRunError
from kvgate.spec.declared import Disk
from kvgate.spec.inventory import Inventory, Role
from kvgate.spec.plan import Plan
from kvgate.spec.pts import PtsWorkload
from kvgate.workloads import pts

LEAST_SHOWN = 0.01  # percent of endurance


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """One test on one target: how long at least and at most, and what it writes at most."""

    target: str
    disk: Disk | None
    cost: pts.Range


def planned(plan: Plan, inventory: Inventory | None) -> tuple[Planned, ...]:
    """Return SNIA's tests of `plan` on each target; of files, those of one host.

    Raises NotRunError for a drive whose size the inventory does not declare.
    """
    workload = plan.workloads.pts
    if workload is None:
        return ()
    if workload.file is not None:
        found = pts.estimate(workload, int(workload.file.base))
        return tuple(Planned("a file", None, each) for each in found)
    return tuple(_of_drives(workload, inventory))


def _of_drives(workload: PtsWorkload, inventory: Inventory | None) -> Iterator[Planned]:
    disks = {
        disk.id: (name, disk)
        for name, host in (inventory.hosts.items() if inventory else ())
        for disk in host.declared.disks
        if Role.SERVING in host.roles
    }
    for serial in workload.serials or ():
        if serial not in disks:
            raise NotRunError((f"workloads.pts: no serving host declares a disk '{serial}'",))
        name, disk = disks[serial]
        if disk.size is None:
            raise NotRunError(
                (f"workloads.pts: {name}: {serial}: its size is not declared",),
                hint="declare it in bytes: what is written, and how long it takes, follow from it",
            )
        rate = pts.LINE_RATE_B_PER_S
        if disk.datasheet and disk.datasheet.write_bw:
            rate = float(disk.datasheet.write_bw.base)
        for each in pts.estimate(workload, int(disk.size.base), write_b_per_s=rate):
            yield Planned(f"{serial} on {name}", disk, each)


def line(workload: PtsWorkload, each: Planned, time: str) -> str:
    """Return what `kvgate plan` says of a test: its loop, its time, its bytes and the wear."""
    least, most = each.cost.rounds
    rounds = f"{least} to {most} rounds" if least != most else f"{most} rounds"
    written = f"at most {each.cost.bytes_written / 10**12:.3g} TB written{_wear(each)}"
    points = f"{each.cost.points} point{'s' if each.cost.points > 1 else ''}"
    return (
        f"PTS {each.cost.title} on {each.target} ({workload.label}): {points} × "
        f"{workload.per_point} × {rounds}, with preconditioning {time}; {written}"
    )


def _wear(each: Planned) -> str:
    """Return the part of the drive's endurance that is, where a datasheet says so."""
    sheet = each.disk.datasheet if each.disk else None
    if each.disk is None:
        return ""
    if sheet is None or sheet.endurance is None:
        return ", wear not known (no endurance declared)"
    share = 100 * each.cost.bytes_written / float(sheet.endurance.base)
    part = f"{share:.2g} %" if share >= LEAST_SHOWN else f"below {LEAST_SHOWN} %"
    return f", {part} of the {sheet.endurance} it endures ({sheet.source})"
