"""Where SNIA's tests work on a host: a file of ours, or a whole drive cleared for writing."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from kvgate.errors import NotRunError
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.spec.declared import Disk
from kvgate.spec.pts import PtsWorkload
from kvgate.witness import Witness
from kvgate.workloads import devices, fio, fio_device, pts
from kvgate.workloads.devices import Consent
from kvgate.workloads.devices_script import Places
from kvgate.workloads.fio import Place, Told
from kvgate.workloads.shapes import Setting

_ASK_S = 20.0


@contextlib.contextmanager
def on_file(witness: Witness, workload: PtsWorkload, *, seed: int, told: Told) -> Iterator[Place]:
    """Make a folder for the file of `workload`, and remove it on every way out.

    Raises NotRunError (no fio, no scratch folder, no room), TransportError.
    """
    if workload.file is None:
        raise NotRunError(("workloads.pts names no file",))
    total = pts.size_bytes(workload, int(workload.file.base))
    setting = _setting(workload, total, seed)
    with fio.settled(witness, setting, 1, False, told) as place:
        yield place


@contextlib.contextmanager
def on_device(
    witness: Witness,
    disk: Disk,
    workload: PtsWorkload,
    consent: Consent,
    *,
    seed: int,
    places: Places | None = None,
) -> Iterator[Place]:
    """Look at the drive, which must be cleared for writing over, and find out what fio can do.

    Raises DeviceRefusedError with every reason (nothing was written), NotRunError (no fio, no
    scratch folder for its job file), TransportError.
    """
    look = functools.partial(devices.clear, witness, disk, consent, places=places)
    found = look()
    total = pts.size_bytes(workload, found.size_bytes)
    setting = _setting(workload, total, seed)
    with fio_device.settled(witness, found, look, setting, purpose="pts") as place:
        yield place


def _setting(workload: PtsWorkload, total: int, seed: int) -> Setting:
    return Setting(
        engine="",
        direct=False,
        ramp_s=0,
        runtime_s=workload.per_point.to("s"),
        total_bytes=total,
        seed=seed,
    )


def about(
    witness: Witness, workload: PtsWorkload, place: Place, disk: Disk | None
) -> tuple[tuple[Reading, ...], tuple[EvidenceRef, ...]]:
    """Return what a report's header says of the target, and the evidence asked for it."""
    device = place.look() if place.look else None
    capacity = device.size_bytes if device else place.data.size_bytes
    cache, refs = _write_cache(witness, device.node) if device else (_NO_CACHE, ())
    told = {
        "pts.model": disk.model if disk else "a file",
        "pts.serial": (disk.serial or disk.wwn) if disk else None,
    }
    missing = "the inventory does not declare it" if disk else "a file has none"
    readings = [
        Reading(name="pts.label", value=workload.label),
        Reading(name="pts.capacity", value=Quantity.of(capacity, "B")),
        Reading(name="pts.active_range", value=Quantity.of(place.data.size_bytes, "B")),
        Reading(name="pts.direct", value=place.data.direct),
        Reading(name="fio.version", value=place.found.version.number),
        Reading(name="fio.engine", value=place.setting.engine),
        cache,
    ]
    for name, value in told.items():
        readings.append(Reading(name=name, value=value, problem="" if value else missing))
    return tuple(readings), (*(device.evidence if device else ()), *refs)


_NO_CACHE = Reading(name="pts.write_cache", value=None, problem="a file has none of its own")


def _write_cache(witness: Witness, node: str) -> tuple[Reading, tuple[EvidenceRef, ...]]:
    """Return what the kernel takes the drive's write cache for; it is left as it was found."""
    name = node.rsplit("/", 1)[-1]
    asked = witness.ask(["cat", f"/sys/block/{name}/queue/write_cache"], timeout_s=_ASK_S)
    said = asked.result.stdout.decode("ascii", "replace").strip()
    known = {"write back": "on (write back)", "write through": "off (write through)"}.get(said)
    why = "" if known else f"/sys/block/{name}/queue/write_cache does not say"
    return Reading(name="pts.write_cache", value=known, problem=why), (asked.ref,)
