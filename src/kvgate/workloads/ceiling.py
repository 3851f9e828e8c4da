"""What the storage under a folder can carry at most, from what its host tells about the way there.

Where no fact gives a ceiling (a virtual disk, a port without a speed) the reading says so: none
is made up. The values are bounds to judge figures by, not figures to be expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvgate.errors import ParseError
from kvgate.kv import ceiling
from kvgate.kv.ceiling import Branch, Ceiling
from kvgate.model.record import Reading
from kvgate.parse.storage_way import SCRIPT, Leaf, Way, way
from kvgate.spec.declared import Disk
from kvgate.witness import Answer, Testimony, Witness

READ, WRITE, TOLD = "path.read_ceiling", "path.write_ceiling", "path.way"
MEASURES = (READ, WRITE, TOLD)
_WITHIN_S = 30.0


def ask(witness: Witness, folder: str) -> Answer:
    """Return the read and write ceiling of the path to `folder`, in B/s, and the way as text.

    A host that can't tell the way leaves readings that say why. Raises CommandError where the
    host does not answer at all.
    """
    asked = witness.ask(["sh", "-c", SCRIPT, "sh", folder], timeout_s=_WITHIN_S)
    if asked.result.exit_status != 0:
        return _untold(f"the way to {folder} is not told: {asked.result.describe()}", asked)
    try:
        found = way(asked.stdout)
    except ParseError as err:
        return _untold(err.message, asked)
    return Answer(tuple(readings(found, witness.host.declared.disks)), (asked.ref,))


def _untold(why: str, asked: Testimony) -> Answer:
    told = [Reading(name=name, value=None, problem=why) for name in MEASURES]
    return Answer(tuple(told), (asked.ref,))


def readings(found: Way, disks: Sequence[Disk]) -> Iterator[Reading]:
    """Yield the readings for a way, with the datasheet figures that the inventory quotes."""
    told = []
    for name, figure in ((READ, "read_bw"), (WRITE, "write_bw")):
        best, why = _of(found, disks, figure)
        told.append(
            f"{'reads' if name == READ else 'writes'}: {best or f'no ceiling known: {why}'}"
        )
        yield Reading(name=name, value=best.quantity if best else None, problem="" if best else why)
    over = f" under {', '.join(found.over)}" if found.over else ""
    names = ", ".join(leaf.name for leaf in found.leaves) or f"no block device ({found.device})"
    yield Reading(name=TOLD, value=f"{names}{over}; {'; '.join(told)}")


def _of(found: Way, disks: Sequence[Disk], figure: str) -> tuple[Ceiling | None, str]:
    """Return the ceiling of the whole way, or why there is none."""
    if not found.leaves:
        return None, "the folder lies on no block device (network, memory or stacked file system)"
    branches = []
    for leaf in found.leaves:
        branch = _branch(leaf, disks, figure)
        if not branch.links and branch.end is None:
            return None, _silent(leaf)
        branches.append(branch)
    return ceiling.of_tree(branches), ""


def _silent(leaf: Leaf) -> str:
    if leaf.emulated:
        return f"{leaf.name} is {leaf.emulated}, and so is what its link tells"
    if leaf.ports:
        return f"{leaf.name}: port {leaf.ports[0][0]} tells no speed"
    return f"{leaf.name} tells no link, and the inventory quotes no datasheet"


def _branch(leaf: Leaf, disks: Sequence[Disk], figure: str) -> Branch:
    """Return a device's part of the tree: ports or links down to it, and its own figure."""
    disk = next((each for each in disks if _is(each, leaf)), None)
    quoted = getattr(disk.datasheet, figure) if disk and disk.datasheet else None
    end = ceiling.datasheet(quoted, disk.id) if disk and quoted else None
    ports = {name: (speed, transport) for name, speed, transport in leaf.ports}
    if ports:
        parts = [ceiling.port(speed, how) for speed, how in ports.values() if speed is not None]
        together = ceiling.side_by_side(parts) if len(parts) == len(ports) else None
        return Branch((("+".join(sorted(ports)), together),) if together else (), end)
    links = []
    for address, speed, width in [] if leaf.emulated else reversed(leaf.links):
        if (own := ceiling.pcie(speed, width)) is not None:
            links.append((address, own))
    return Branch(tuple(links), end)


def _is(disk: Disk, leaf: Leaf) -> bool:
    known = {each for each in (leaf.serial, leaf.wwid, leaf.name) if each}
    return bool(known & {each for each in (disk.serial, disk.wwn) if each}) or (
        disk.serial is None and disk.wwn is None and disk.name == leaf.name
    )
