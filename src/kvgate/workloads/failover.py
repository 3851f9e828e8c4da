"""fio that writes and verifies while paths fail: its jobs, and what it met, from its own logs.

The whole target is written once with checksums. Then each fault gets a run of its own: random
writes until it is over and repaired, every few of them read back and compared, and after it all of
the target read back once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator

import fiopy
from fiopy.sense import SYNCHRONOUS
from kvgate.errors import NotRunError, ParseError
from kvgate.model.record import EvidenceRef
from kvgate.spec.declared import Disk
from kvgate.spec.failover import FailoverWorkload
from kvgate.spec.faults import FaultTemplate
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
_AVERAGED_MS = 10  # at least, over so many
_SLOWEST_B_PER_S = 1e6
_SLACK_S = 120.0
_PROVEN_S = 30.0
_MOST_ALLOWED_S = 3600.0
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


def churn(place: Place, workload: FailoverWorkload, runtime_s: float) -> fiopy.Job:
    """Return the job of one fault: writes, verified as they go, for at most that time.

    The latency log has every I/O, or averages over some ms where there would be too many.
    """
    ios = 2 * workload.rate * runtime_s
    averaged_ms = max(_AVERAGED_MS, math.ceil(2000 * runtime_s / _MOST_LINES))
    return dataclasses.replace(
        _job(place, workload, "under-fault"),
        runtime_s=runtime_s,
        time_based=True,
        rate_iops=workload.rate,
        verify_backlog=BACKLOG,
        verify_fatal=True,
        latency_log=f"{place.folder}/{_LOG}",
        log_since_1970=True,
        log_every_ms=averaged_ms if ios > _MOST_LINES else None,
        log_maximum=True if ios > _MOST_LINES else None,
    )


def _read_back(place: Place, workload: FailoverWorkload) -> fiopy.Job:
    """Return the job that reads all of the target once, and compares it."""
    return dataclasses.replace(
        _job(place, workload, "read-back"),
        pattern=fiopy.Pattern.READ,
        fallocate=None,
        continue_on_error="verify",
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What fio met while a fault was there, and when it read all back after it.

    ``course`` None: it left no log that can be read.
    """

    outputs: tuple[fiopy.Output, ...]
    course: fiopy.Course | None
    problem: str
    evidence: tuple[EvidenceRef, ...]


class Load:
    """The load of one fault, which goes on until it is told that it is `enough`.

    `run` may be another thread's than `enough`.
    """

    def __init__(
        self, witness: Witness, place: Place, workload: FailoverWorkload, told: Told
    ) -> None:
        self._witness = witness
        self._place = place
        self._workload = workload
        self._told = told
        self._stop_file = f"{place.folder}/enough"  # removed again: one load after the other

    def enough(self) -> None:
        """Let it end now: it has nothing more to measure. Raises TransportError, CommandError."""
        asked = self._witness.ask(["touch", self._stop_file], timeout_s=_SLACK_S)
        asked.result.expect_ok()

    def run(self, most_s: float) -> Met:
        """Run it to its end, after `most_s` at the latest, and read all of the target back.

        I/O errors and wrong data are part of what it met. Raises what `fio.run` does.
        """
        total = int(self._workload.size.base)
        under = churn(self._place, self._workload, most_s)
        met, refs = self._fio(under, _deadline_s(total, most_s), self._stop_file)
        runner = HostRunner(self._witness)
        course, problem = _course([under], self._stop_file, runner)
        back, more = self._fio(_read_back(self._place, self._workload), _deadline_s(total, 0))
        return Met(
            outputs=(met, back),
            course=course,
            problem=problem,
            evidence=(*refs, *runner.evidence, *more),
        )

    def _fio(
        self, job: fiopy.Job, deadline_s: float, stop_file: str | None = None
    ) -> tuple[fiopy.Output, tuple[EvidenceRef, ...]]:
        return fio.output_of(
            self._witness,
            [job],
            self._place,
            self._told,
            deadline_s=deadline_s,
            stop_file=stop_file,
        )


def _course(
    some: list[fiopy.Job], stop_file: str, runner: HostRunner
) -> tuple[fiopy.Course | None, str]:
    """Return what the jobs' latency log tells, or why it tells nothing; remove what they left."""
    logs = [path for kind in ("lat", "clat", "slat") for path in fiopy.log_files(some, kind)]
    done = runner.run(["sh", "-c", FETCH, "sh", logs[0]], timeout_s=_SLACK_S)
    runner.run(["rm", "-f", "--", *logs, stop_file], timeout_s=_SLACK_S)
    if done.exit_status != 0 or done.dropped_bytes:
        return None, "fio left no whole log"
    try:
        return course_of(done.stdout), ""
    except ParseError as err:
        return None, err.message


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
    """Return for how long the load of a fault that is held for `hold_s` runs, its commands apart.

    They, and until both its ends are proven, take what they take.
    """
    return workload.lead.to("s") + hold_s + workload.after.to("s")


def most_s(workload: FailoverWorkload, template: FaultTemplate, hold_s: float) -> float:
    """Return after what time the load of a fault ends at the latest.

    Commands and proofs may take what the fault allows them, an hour of that at most: a rebuild that
    takes longer is under load for all of its time only with a long enough 'after'.
    """
    commands = 2 * template.times * (template.within.to("s") + template.between.to("s"))
    allowed = commands + template.back_within.to("s") + max(hold_s, _PROVEN_S)
    return runtime_s(workload, hold_s) + min(allowed, _MOST_ALLOWED_S)


def estimate(workload: FailoverWorkload, holds_s: list[float]) -> Estimate:
    """Return what the watch without a fault and the faults, held for `holds_s`, take and write."""
    total = int(workload.size.base)
    times = [workload.quiet.to("s"), *(runtime_s(workload, each) for each in holds_s)]
    seconds = sum(times) + (len(times) + 1) * (total / _ESTIMATED_B_PER_S + _AROUND_S)
    return Estimate(seconds, round(total + sum(times) * workload.rate * workload.block.to("B")))
