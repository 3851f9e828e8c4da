"""fio that writes and verifies while paths fail: its jobs, and what it met, from its own logs.

The whole target is written once with checksums. Then each fault gets a run of its own: random
writes until its time is over, every few of them read back and compared, and after it all of the
target read back once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator

import fiopy
from fiopy.sense import SYNCHRONOUS
from kvgate.errors import NotRunError, ParseError
from kvgate.model.record import EvidenceRef
from kvgate.spec.declared import Disk
from kvgate.spec.failover import FailoverWorkload
from kvgate.witness import Witness
from kvgate.workloads import devices, fio, fio_device
from kvgate.workloads.base import Estimate
from kvgate.workloads.devices import Consent
from kvgate.workloads.devices_runner import Look
from kvgate.workloads.devices_script import Places
from kvgate.workloads.fio import Place, Told
from kvgate.workloads.fio_logs import FETCH
from kvgate.workloads.host_runner import HostRunner
from kvgate.workloads.shapes import Setting, depth_by

BACKLOG = 64
"""So many writes are done before they are read back; the last ones are by the read of all."""

_JOB_FILES_BYTES = 64 * 10**6
_MOST_LINES = 200_000  # of the latency log, above which it averages
_AVERAGED_MS = 10
_SLOWEST_B_PER_S = 1e6
_SLACK_S = 120.0
_ESTIMATED_B_PER_S = 200e6
_AROUND_S = 3.0
_LOG = "failover"


@contextlib.contextmanager
def prepare(
    witness: Witness,
    workload: FailoverWorkload,
    disk: Disk | None,
    consent: Consent,
    *,
    seed: int,
    told: Told,
    places: Places | None = None,
) -> Iterator[Place]:
    """Find out what fio there can do, and write all of the target with checksums.

    A file is made in the host's scratch folder and removed; a device must be cleared for writing.
    Raises DeviceRefusedError with every reason (nothing was written), NotRunError, TransportError.
    """
    setting = _setting(workload, seed)
    with contextlib.ExitStack() as held:
        if disk is None:
            place = held.enter_context(fio.settled(witness, setting, 1, False, told))
        else:
            look = functools.partial(devices.clear, witness, disk, consent, places=places)
            place = held.enter_context(_on_device(witness, look, setting))
        refs = lay_out(witness, workload, place, told)
        yield dataclasses.replace(place, evidence=(*place.evidence, *refs))


def lay_out(
    witness: Witness, workload: FailoverWorkload, place: Place, told: Told
) -> tuple[EvidenceRef, ...]:
    """Write all of the target with checksums; raises NotRunError where that meets an error."""
    total = int(workload.size.base)
    output, refs = fio.output_of(
        witness, [_layout(place, workload)], place, told, deadline_s=_deadline_s(total, 0)
    )
    if output.failed:
        raise NotRunError(
            (f"{witness.host.name}: the target can't be written: {output.why()}",),
            hint="nothing was broken yet: the load must run before a fault can be judged",
        )
    return refs


@contextlib.contextmanager
def _on_device(witness: Witness, look: Look, setting: Setting) -> Iterator[Place]:
    found, total = look(), setting.total_bytes
    if total > found.size_bytes:
        raise NotRunError(
            (f"{witness.host.name}: {found.id} has {found.size_bytes} B, the plan asks {total} B",),
            hint="make workloads.failover.size smaller",
        )
    with fio_device.settled(witness, found, look, setting, needs_bytes=_JOB_FILES_BYTES) as place:
        yield place


def _setting(workload: FailoverWorkload, seed: int) -> Setting:
    return Setting(
        engine="",
        direct=False,
        ramp_s=0,
        runtime_s=0,
        total_bytes=int(workload.size.base),
        seed=seed,
    )


def _layout(place: Place, workload: FailoverWorkload) -> fiopy.Job:
    """Return the job that writes everything once, in the blocks that are verified."""
    return dataclasses.replace(
        _job(place, workload, "layout"),
        pattern=fiopy.Pattern.WRITE,
        do_verify=False,
        end_fsync=True,
    )


def _job(place: Place, workload: FailoverWorkload, name: str) -> fiopy.Job:
    engine = place.setting.engine
    depth = 1 if engine in SYNCHRONOUS else workload.queue_depth
    return fiopy.Job(
        name=name,
        pattern=fiopy.Pattern.RANDWRITE,
        filename=place.data.path,
        block_bytes=int(workload.block.base),
        size_bytes=int(workload.size.base),
        queue_depth=depth_by(engine, depth, name),
        engine=engine,
        direct=place.data.direct,
        threads=True,
        fallocate="none" if place.data.is_ours else None,
        verify="crc32c",
        save_verify_state=False,
        seed=place.setting.seed,
    )


def jobs(place: Place, workload: FailoverWorkload, runtime_s: float) -> list[fiopy.Job]:
    """Return the jobs of one fault: writes, verified as they go, for the time; then a read of all.

    The latency log has every I/O, or averages over some ms where there would be too many.
    """
    base = _job(place, workload, "under-fault")
    averaged = 2 * workload.rate * runtime_s > _MOST_LINES
    churn = dataclasses.replace(
        base,
        runtime_s=runtime_s,
        time_based=True,
        rate_iops=workload.rate,
        verify_backlog=BACKLOG,
        verify_fatal=True,
        latency_log=f"{place.folder}/{_LOG}",
        log_since_1970=True,
        log_every_ms=_AVERAGED_MS if averaged else None,
        log_maximum=True if averaged else None,
    )
    back = dataclasses.replace(
        base,
        name="read-back",
        pattern=fiopy.Pattern.READ,
        wait_for_earlier=True,
        fallocate=None,
        continue_on_error="verify",
    )
    return [churn, back]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What fio met while a fault was there. ``course`` None: it left no log that can be read."""

    output: fiopy.Output
    course: fiopy.Course | None
    problem: str
    evidence: tuple[EvidenceRef, ...]


def run(
    witness: Witness, place: Place, workload: FailoverWorkload, runtime_s: float, told: Told
) -> Met:
    """Run the load of one fault to its end; I/O errors and wrong data are part of what it met.

    Raises what `fio.run` does.
    """
    some = jobs(place, workload, runtime_s)
    total = int(workload.size.base)
    output, refs = fio.output_of(
        witness, some, place, told, deadline_s=_deadline_s(total, runtime_s)
    )
    runner = HostRunner(witness)
    path = fiopy.log_files(some, "lat")[0]
    done = runner.run(["sh", "-c", FETCH, "sh", path], timeout_s=_SLACK_S)
    fiopy.remove_logs(some, runner)
    course, problem = None, "fio left no whole log"
    if done.exit_status == 0 and not done.dropped_bytes:
        try:
            course, problem = course_of(done.stdout), ""
        except ParseError as err:
            problem = err.message
    return Met(output=output, course=course, problem=problem, evidence=(*refs, *runner.evidence))


def course_of(text: bytes) -> fiopy.Course:
    """Return the course that one log, as `FETCH` prints it, tells; raises ParseError.

    Its times are ms since 1970 by the host's clock; the hundred longest gaps are told.
    """
    _, _, log = text.partition(b"\n")
    try:
        return fiopy.course([[log]], window_s=0.5, gaps=100)
    except fiopy.FioOutputError as err:
        raise ParseError(f"fio's log: {err.message}", hint=err.hint) from err


def _deadline_s(total_bytes: int, runtime_s: float) -> float:
    return runtime_s + 2 * total_bytes / _SLOWEST_B_PER_S + _SLACK_S


def runtime_s(workload: FailoverWorkload, hold_s: float) -> float:
    """Return for how long the load of a fault that is held for `hold_s` runs."""
    return workload.lead.to("s") + hold_s + workload.after.to("s")


def estimate(workload: FailoverWorkload, holds_s: list[float]) -> Estimate:
    """Return what the watch without a fault and the faults, held for `holds_s`, take and write."""
    total = int(workload.size.base)
    times = [workload.quiet.to("s"), *(runtime_s(workload, each) for each in holds_s)]
    seconds = sum(times) + (len(times) + 1) * (total / _ESTIMATED_B_PER_S + _AROUND_S)
    return Estimate(seconds, round(total + sum(times) * workload.rate * workload.block.to("B")))
