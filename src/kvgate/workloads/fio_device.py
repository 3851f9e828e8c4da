"""fio's KV-shaped jobs on a whole device: cleared before each start, or read as it is.

Jobs that write, and those that read what they have laid out, need a device that `devices.clear`
clears; what is left on it is ours (``fio.left_behind``). On a device that is not declared
destructive only restores run, on what lies there, by ``fio --readonly``.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator

import fiopy
from kvgate.errors import NotRunError
from kvgate.model.record import Reading
from kvgate.spec.declared import Disk
from kvgate.spec.workload import FioWorkload
from kvgate.witness import Answer, Witness
from kvgate.workloads import devices, fio, fio_errors, shapes
from kvgate.workloads.base import OnProgress, scratch_folder
from kvgate.workloads.devices import Consent, KnownDevice
from kvgate.workloads.devices_runner import Look
from kvgate.workloads.devices_script import FD_PATH, Places
from kvgate.workloads.fio import Around, Place
from kvgate.workloads.host_runner import HostRunner
from kvgate.workloads.target import Target

_JOB_FILES_BYTES = 10**6


@contextlib.contextmanager
def prepare(
    witness: Witness,
    disk: Disk,
    workload: FioWorkload,
    consent: Consent,
    *,
    seed: int = 1,
    on_progress: OnProgress | None = None,
    around: Around = contextlib.nullcontext,
    cancel: threading.Event | None = None,
    places: Places | None = None,
) -> Iterator[Place]:
    """Look at the device, find out what fio there can do, and lay out what restores read.

    Raises DeviceRefusedError with every reason (nothing was written), and what `fio.prepare` does.
    """
    look = _look(witness, disk, workload, consent, places)
    found = look()
    total = shapes.file_bytes(int(workload.size.base), fio.kv_of(workload))
    if total > found.size_bytes:
        raise NotRunError(
            (f"{witness.host.name}: {disk.id} has {found.size_bytes} B, the plan asks {total} B",),
            hint="make workloads.fio_devices.size smaller",
        )
    setting = shapes.Setting(
        engine="",
        direct=False,
        ramp_s=workload.ramp.to("s"),
        runtime_s=workload.runtime.to("s"),
        total_bytes=total,
        seed=seed,
        kv=fio.kv_of(workload),
    )
    with settled(witness, found, look, setting) as place:
        if found.may_write and any(shapes.shape(name).on_data for name in workload.jobs):
            fio.lay_out(witness, place, (around, on_progress, cancel))
        yield place


@contextlib.contextmanager
def settled(
    witness: Witness,
    found: KnownDevice,
    look: Look,
    setting: shapes.Setting,
    *,
    purpose: str = "fio",
    needs_bytes: int = _JOB_FILES_BYTES,
) -> Iterator[Place]:
    """Find out what fio there can do, to work on the first bytes of the device that was `found`.

    As `fio.settled`, `setting` comes without engine and direct. A folder for `purpose` has room for
    job files and logs of `needs_bytes`. Raises NotRunError (no fio, no scratch folder, no room),
    TransportError.
    """
    runner = HostRunner(witness)
    with scratch_folder(witness, purpose, needs_bytes=needs_bytes) as folder:
        with fio_errors.translated(witness):
            tool = fiopy.find(runner)
            tool.check(())
        yield Place(
            folder=folder.path,
            setting=fio.able(setting, tool, direct=True),
            found=tool,
            evidence=(*found.evidence, *folder.evidence, *runner.evidence),
            target=Target(
                path=FD_PATH, size_bytes=setting.total_bytes, direct=True, token=found.id
            ),
            look=look,
        )


def run(
    witness: Witness,
    job_name: str,
    *,
    workload: FioWorkload,
    place: Place,
    disk: Disk,
    on_progress: OnProgress | None = None,
    around: Around = contextlib.nullcontext,
    cancel: threading.Event | None = None,
) -> Answer:
    """Run a job on the device of `place`; return its readings, and what is left on the device.

    Raises what `fio.run` does, and DeviceRefusedError where the device is not what it was.
    """
    answer = fio.run(
        witness,
        job_name,
        workload=workload,
        place=place,
        on_progress=on_progress,
        around=around,
        cancel=cancel,
    )
    left = "ours" if disk.destructive else "as found"
    return Answer((*answer.readings, Reading(name="fio.left_behind", value=left)), answer.evidence)


def writes(workload: FioWorkload) -> bool:
    """Tell whether a job of `workload` writes by itself (layout aside)."""
    wanted = [shapes.shape(name) for name in workload.jobs]
    return any(shape.pattern.writes or shape.verify for shape in wanted)


def _look(
    witness: Witness,
    disk: Disk,
    workload: FioWorkload,
    consent: Consent,
    places: Places | None,
) -> Look:
    if disk.destructive or writes(workload):
        return functools.partial(devices.clear, witness, disk, consent, places=places)
    return functools.partial(devices.recognise, witness, disk, places=places)
