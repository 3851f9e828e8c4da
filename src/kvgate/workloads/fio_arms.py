"""Storage arms of a host: what device each lies on, proven, and whether they are two at all.

A comparison of two folders on one disk would say nothing, whatever their names: the block device
behind a folder is found from its file system's number (st_dev) through sysfs down to serials.
"""

from __future__ import annotations

import dataclasses

from kvgate.errors import NotRunError, ParseError
from kvgate.model.record import Reading
from kvgate.parse.storage_way import SCRIPT, Leaf, Way, way
from kvgate.spec.declared import Disk
from kvgate.spec.inventory import ArmPlace, Host
from kvgate.spec.ratio import AGAIN
from kvgate.witness import Answer, Witness
from kvgate.workloads import devices
from kvgate.workloads.fio_logs import GAP, HALVES

FIGURES = ("bw", "iops", "clat_p50", "clat_p99", "clat_p99_peak")
PLACE, APART = "arms.place", "arms.apart"
_ASK_S = 30.0
_NETWORKED = ("tcp", "rdma", "fc")


@dataclasses.dataclass(frozen=True, slots=True)
class Lies:
    """What an arm lies on: ``devices`` by serial, WWN or name; or ``unknown``: why not known."""

    told: str
    devices: frozenset[str]
    unknown: str = ""


def place_of(host: Host, arm: str) -> ArmPlace:
    """Return where an arm (``local``, or ``local-again``) is; arm local may be the host's scratch.

    Raises NotRunError where the inventory does not say.
    """
    name = arm.removesuffix(AGAIN)
    known = {str(each): place for each, place in host.arms.items()}
    if name in known:
        return known[name]
    if name == "local" and host.scratch and not host.arms:
        return ArmPlace(scratch=host.scratch)
    raise NotRunError(
        (f"{host.name}: the inventory does not say where arm '{name}' lies",),
        hint=f"add 'arms: {{{name}: {{scratch: /a/folder}}}}' to the host",
    )


def on(witness: Witness, folder: str) -> Witness:
    """Return `witness` with `folder` as the host's scratch folder."""
    return dataclasses.replace(
        witness, host=witness.host.model_copy(update={"scratch": folder, "arms": {}})
    )


def under_test(witness: Witness) -> Witness:
    """Return `witness` with the folder of the storage under test: arm device's, where it has one.

    Else the host's scratch folder is on it. Raises NotRunError where arm device is a disk alone.
    """
    device = witness.host.arms.get("device")
    if device is None:
        return witness
    if device.scratch is None:
        raise NotRunError(
            (f"{witness.host.name}: arm 'device' is disk {device.disk}; these jobs take files",),
            hint="give the arm a 'scratch' folder on it too, or scope these criteria out",
        )
    return on(witness, device.scratch)


def disk_of(host: Host, place: ArmPlace) -> Disk:
    """Return the declared disk of a place that names one; raises NotRunError for none."""
    for disk in host.declared.disks:
        if place.disk and place.disk in (disk.serial, disk.wwn):
            return disk
    raise NotRunError((f"{host.name}: {place.disk} is none of its declared disks",))


def ask(witness: Witness, place: ArmPlace) -> tuple[Lies, tuple[str, ...]]:
    """Return what a place lies on, and the evidence; raises TransportError."""
    if place.scratch is None:
        return _device(witness, disk_of(witness.host, place))
    kind = witness.ask(["stat", "-f", "-c", "%T", "--", place.scratch], timeout_s=_ASK_S)
    asked = witness.ask(["sh", "-c", SCRIPT, "sh", place.scratch], timeout_s=_ASK_S)
    refs = (kind.ref, asked.ref)
    if not kind.result.ok or not asked.result.ok:
        return Lies("", frozenset(), f"what {place.scratch} lies on is not told"), refs
    try:
        found = way(asked.stdout)
    except ParseError as err:
        return Lies("", frozenset(), err.message), refs
    return lies(found, kind.stdout.decode("utf-8", "replace").strip()[:40], place), refs


def _device(witness: Witness, disk: Disk) -> tuple[Lies, tuple[str, ...]]:
    """Return that an arm is a whole disk, if it is there; whether it is free is asked later."""
    try:
        found = devices.recognise(witness, disk)
    except devices.DeviceRefusedError as err:
        return Lies("", frozenset(), err.message), err.evidence
    return Lies(f"disk {disk.id}", frozenset({disk.id})), found.evidence


def lies(found: Way, file_system: str, place: ArmPlace) -> Lies:
    """Return what a folder on `file_system`, whose way down is `found`, lies on."""
    if not found.leaves:
        why = f"{place.scratch} lies on no block device ({file_system})"
        return Lies("", frozenset(), why)
    over = f" under {', '.join(found.over)}" if found.over else ""
    told = f"{', '.join(map(_named, found.leaves))}{over}, {file_system}"
    devices = frozenset(_identity(leaf) for leaf in found.leaves)
    every = {name for leaf in found.leaves for name in (leaf.serial, leaf.wwid) if name}
    if place.disk and place.disk not in every:
        return Lies(told, devices, f"{place.scratch} does not lie on {place.disk}, but on {told}")
    return Lies(told, devices)


def _identity(leaf: Leaf) -> str:
    return leaf.serial or leaf.wwid or leaf.name


def _named(leaf: Leaf) -> str:
    known = f"serial {leaf.serial}" if leaf.serial else f"wwid {leaf.wwid}" if leaf.wwid else ""
    by = next((f"by {each}" for each in leaf.transports if each in _NETWORKED), "")
    return f"{leaf.name} ({', '.join(filter(None, (known or 'tells no serial', by)))})"


def why_not_two(found: dict[str, Lies]) -> str:
    """Return why arms are not surely on devices of their own; "" where they are (or are one)."""
    unknown = [f"{arm}: {each.unknown}" for arm, each in found.items() if each.unknown]
    if unknown:
        return "; ".join(unknown)
    both = [each.devices for each in found.values()]
    shared = frozenset.intersection(*both) if len(both) > 1 else frozenset()
    return f"both arms are the same device: {', '.join(sorted(shared))}" if shared else ""


def place_reading(found: Lies) -> Reading:
    """Return what an arm lies on as a reading."""
    return Reading(name=PLACE, value=None if found.unknown else found.told, problem=found.unknown)


def of_arm(answer: Answer) -> Answer:
    """Return fio's readings as those of an arm: ``arms.read_bw``, not ``fio.read_bw``.

    Limits on the storage under test are on ``fio.*``, and not meant for the arm beside it.
    """
    named = [
        dataclasses.replace(each, name=f"arms.{each.name.removeprefix('fio.')}")
        for each in answer.readings
    ]
    return Answer(tuple(named), answer.evidence)


def unfit(directions: tuple[str, ...], why: str) -> tuple[Reading, ...]:
    """Return the readings of a job that was not run because the arms can't be compared."""
    names = [GAP.removeprefix("fio."), HALVES.removeprefix("fio."), "errors"]
    names += [f"{direction}_{name}" for direction in directions for name in FIGURES]
    return tuple(Reading(name=f"arms.{name}", value=None, problem=why) for name in names)
