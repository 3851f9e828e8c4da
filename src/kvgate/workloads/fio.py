"""fio on files of a host: KV-shaped jobs by name (`shapes.SHAPES`), each to readings and evidence.

Files in a folder that this run made and removes; a device only by `fio_device`. O_DIRECT where the
file system takes it, found by trying, and said in the reading ``fio.direct``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import fiopy
from kvgate.errors import HarnessError
from kvgate.model.record import EvidenceRef, Reading
from kvgate.spec.ratio import AGAIN
from kvgate.spec.workload import FioWorkload
from kvgate.witness import Answer, Witness
from kvgate.workloads import fio_errors, fio_logs, fio_readings, shapes
from kvgate.workloads.base import Estimate, OnProgress, scratch_folder
from kvgate.workloads.devices_runner import DeviceRunner, Look
from kvgate.workloads.host_runner import HostRunner
from kvgate.workloads.shapes import SHAPES, Setting, Shape
from kvgate.workloads.target import Target

ENGINES = ("libaio", "io_uring", "psync")
"""I/O engines in the order of preference; psync is in every fio."""

Around = Callable[[], AbstractContextManager[object]]
"""Makes the context in which a child works (``bench.child``), entered around fio alone."""

_SLOWEST_B_PER_S = 20e6  # deadlines of jobs that end by size; slower than this is a hang
_SLACK_S = 60.0
_ESTIMATED_B_PER_S = 500e6  # of parts that end by size, for estimates only
_LINE_RATE_B_PER_S = 12.5e9  # 100 Gb/s: most that a sustained job can write a second
_AROUND_S = 1.0  # to start fio, to fetch its logs and to remove its files, over SSH
_SPARE_BYTES = 64 * 10**6  # left free on the file system beyond our files


@dataclasses.dataclass(kw_only=True)
class Place:
    """Where fio works on one host: a folder of ours, what fio and its file system can do.

    ``layout`` is what fio said when it wrote the file that restores read; None where none of the
    jobs reads it. One that failed stands for the jobs that would have read it. ``look`` gives the
    device that ``target`` is; None for files.
    """

    folder: str
    setting: Setting
    found: fiopy.Found
    evidence: tuple[EvidenceRef, ...]
    layout: fiopy.Output | None = None
    layout_evidence: tuple[EvidenceRef, ...] = ()
    target: Target | None = None
    look: Look | None = None

    @property
    def data(self) -> Target:
        """Return what is laid out once and read by several jobs."""
        return self.target or Target(
            path=f"{self.folder}/data",
            size_bytes=self.setting.total_bytes,
            direct=self.setting.direct,
        )

    def runner(self, witness: Witness) -> HostRunner:
        """Return what runs fio here: on a device, only under its guard."""
        return DeviceRunner(witness, self.look) if self.look else HostRunner(witness)


@contextlib.contextmanager
def prepare(
    witness: Witness,
    workload: FioWorkload,
    *,
    seed: int = 1,
    on_progress: OnProgress | None = None,
    around: Around = contextlib.nullcontext,
    cancel: threading.Event | None = None,
) -> Iterator[Place]:
    """Make a folder on the host for the jobs of `workload`, and remove it on every way out.

    What the host can do is found out, and the file that restores read is laid out if a job reads
    it, so that every job's measurement is of the job alone.

    Raises NotRunError (no fio, no scratch folder, no room, size too small), SpecError for a job
    name that is not known, TransportError where the host can't be asked.
    """
    wanted = [shapes.shape(name) for name in workload.jobs]
    kv = kv_of(workload)
    total = shapes.file_bytes(int(workload.size.base), kv)
    # the file that restores read stays; a job's own file is removed after it
    files = len({shape.on_data for shape in wanted})
    setting = Setting(
        engine="",
        direct=False,
        ramp_s=workload.ramp.to("s"),
        runtime_s=workload.runtime.to("s"),
        total_bytes=total,
        seed=seed,
        kv=kv,
    )
    lays_out = any(shape.on_data for shape in wanted)
    with settled(witness, setting, files, lays_out, (around, on_progress, cancel)) as place:
        yield place


def kv_of(workload: FioWorkload) -> shapes.Kv:
    """Return the KV whose traffic `workload` asks for: the published one but for what it sets."""
    published = shapes.AS_PUBLISHED
    token = workload.token
    return shapes.Kv(
        token_bytes=published.token_bytes if token is None else int(token.base),
        ranks=workload.ranks or published.ranks,
        queue_depth=workload.queue_depth,
    )


Told = tuple[Around, OnProgress | None, threading.Event | None]
"""What to enter around fio alone, whom to tell of progress, and what cancels it."""


@contextlib.contextmanager
def settled(
    witness: Witness, setting: Setting, files: int, lays_out: bool, told: Told
) -> Iterator[Place]:
    """Make the folder for `files` of the setting's size, find out what fio there can do, lay out.

    `setting` comes without engine and direct: what the host has is what is taken.
    """
    runner = HostRunner(witness)
    needs = setting.total_bytes * files + _SPARE_BYTES
    with scratch_folder(witness, "fio", needs_bytes=needs) as folder:
        with fio_errors.translated(witness):
            found = fiopy.find(runner)
            found.check(())  # its version: before anything is written
        direct, ref = _takes_direct(witness, folder.path)
        place = Place(
            folder=folder.path,
            setting=able(setting, found, direct=direct),
            found=found,
            evidence=(*folder.evidence, *runner.evidence, ref),
        )
        if lays_out:
            lay_out(witness, place, told)
        yield place


def able(setting: Setting, found: fiopy.Found, *, direct: bool) -> Setting:
    """Return `setting` with the engines that this fio has."""
    return dataclasses.replace(
        setting,
        engine=next((each for each in ENGINES if each in found.engines), "psync"),
        direct=direct,
        gpu_engine=next((each for each in shapes.GPU_ENGINES if each in found.engines), None),
    )


def lay_out(witness: Witness, place: Place, told: Told) -> None:
    """Write what restores read, and keep in `place` what fio said of it."""
    child = _Child(witness, place, place.runner(witness), *told)
    place.layout = child.lay_out()
    place.layout_evidence = tuple(child.runner.evidence)


def run(
    witness: Witness,
    job_name: str,
    *,
    workload: FioWorkload,
    place: Place | None = None,
    on_progress: OnProgress | None = None,
    around: Around = contextlib.nullcontext,
    cancel: threading.Event | None = None,
    sustained: bool = False,
    rate_bytes_per_s: int | None = None,
) -> Answer:
    """Run the job called `job_name` and return its readings; evidence: job file and fio's output.

    Without `place` one is prepared for this job alone. `sustained` runs for all of the
    workload's runtime and lifts the bound on bytes written (a soak), then best with
    `rate_bytes_per_s`, the most in each direction.

    I/O errors and failed verifications are readings (``fio.errors``, ``verify.errors``), and the
    figures beside them are no measurements. Raises HarnessError where fio itself broke off,
    NotRunError (also for a file system that ran full), SpecError, ParseError, TransportError.
    """
    shape = shapes.shape(job_name)
    with contextlib.ExitStack() as stack:
        if place is None:
            alone = workload.model_copy(update={"jobs": [job_name]})
            place = stack.enter_context(
                prepare(witness, alone, on_progress=on_progress, around=around, cancel=cancel)
            )
        setting = dataclasses.replace(
            place.setting,
            ramp_s=workload.ramp.to("s"),
            runtime_s=workload.runtime.to("s"),
            sustained=sustained,
            rate_bytes_per_s=rate_bytes_per_s,
        )
        return measured(witness, shape, setting, place, (around, on_progress, cancel))


def measured(witness: Witness, shape: Shape, setting: Setting, place: Place, told: Told) -> Answer:
    """Run `shape` in `place` and return its readings, with all that they rest on as evidence."""
    child = _Child(witness, place, place.runner(witness), *told)
    output, over_time = child.go(shape, setting)
    readings = (*_about(place, shape), *fio_readings.readings(shape, output), *over_time)
    laid_out = place.layout_evidence if shape.on_data else ()
    return Answer(readings, (*place.evidence, *laid_out, *child.runner.evidence))


def output_of(
    witness: Witness,
    jobs: Sequence[fiopy.Job],
    place: Place,
    told: Told,
    *,
    deadline_s: float,
    stop_file: str | None = None,
) -> tuple[fiopy.Output, tuple[EvidenceRef, ...]]:
    """Run `jobs` in `place`; return what fio said, also of I/O errors, and the evidence of it.

    They end early, and well, once the host has a file `stop_file`. Raises what `run` does.
    """
    child = _Child(witness, place, place.runner(witness), *told)
    output = child.measure(jobs, deadline_s, stop_file)
    return output, tuple(child.runner.evidence)


def estimate(workload: FioWorkload, *, arms: Sequence[str] = ("",)) -> Estimate:
    """Return what all jobs and rounds of `workload` take; bytes written are an upper bound.

    `arms` are what each job is run on in a round; what restores read is laid out once on each
    that is no second run. Raises SpecError for a job that is not known, NotRunError for a size
    that is too small.
    """
    total = shapes.file_bytes(int(workload.size.base), kv_of(workload))
    wanted = [shapes.shape(name) for name in workload.jobs]
    layouts = sum(not arm.endswith(AGAIN) for arm in arms) * any(each.on_data for each in wanted)
    seconds, written = layouts * (total / _ESTIMATED_B_PER_S + _AROUND_S), float(layouts * total)
    times = workload.rounds * len(arms)
    for shape in wanted:
        moved = total * (2 if shape.verify else shape.passes or 0)
        limit = workload.runtime.to("s")
        by_size = moved / _ESTIMATED_B_PER_S
        seconds += times * (
            _AROUND_S + by_size
            if shape.verify
            else _AROUND_S + min(limit, by_size)
            if moved
            else _AROUND_S + limit + workload.ramp.to("s")
        )
        written += times * (total if shape.verify else moved * shape.write_share)
    return Estimate(seconds, round(written))


def written_at_most(job_name: str, seconds: float, rate_bytes_per_s: int | None = None) -> int:
    """Return the most bytes that a sustained job writes in `seconds`, by its rate or a port's."""
    shape = shapes.shape(job_name)
    if not shape.pattern.writes:
        return 0
    if rate_bytes_per_s is not None:
        return round(seconds * rate_bytes_per_s)
    return round(seconds * _LINE_RATE_B_PER_S * shape.write_share)


@dataclasses.dataclass(frozen=True, slots=True)
class _Child:
    """fio, run in a place on a host for one call of `run`."""

    witness: Witness
    place: Place
    runner: HostRunner
    around: Around
    on_progress: OnProgress | None
    cancel: threading.Event | None

    def go(self, shape: Shape, setting: Setting) -> tuple[fiopy.Output, tuple[Reading, ...]]:
        """Return what fio said of `shape` and what its logs tell.

        Where the layout before it met errors: what it said of that.
        """
        layout = self.place.layout
        if shape.on_data and layout is not None and layout.failed:
            # the storage's I/O errors, which are readings
            why = f"not a measurement: {layout.why()}"
            return layout, tuple(fio_logs.readings(shape.directions, why))
        data = self.place.data
        shared = shape.on_data or not data.is_ours
        path = data.path if shared else f"{self.place.folder}/{shape.name}"
        jobs = shapes.jobs(shape, path, setting)
        logs = setting.logs and not shape.verify and not setting.sustained
        jobs = fio_logs.logged(jobs, self.place.folder) if logs else jobs
        try:
            output = self.measure(jobs, _deadline_s(shape, setting))
            if not logs:
                return output, ()
            text = fio_logs.fetch(self.runner, jobs)
            text = f"not a measurement: {output.why()}" if output.failed else text
            return output, tuple(fio_logs.readings(shape.directions, text))
        finally:
            if not shared:
                self.runner.remove_file(path)

    def lay_out(self) -> fiopy.Output:
        """Write the file that restores read and return what fio said of it."""
        setting = self.place.setting
        return self.measure(
            shapes.layout(self.place.data.path, setting),
            setting.total_bytes / _SLOWEST_B_PER_S + _SLACK_S,
        )

    def measure(
        self, jobs: Sequence[fiopy.Job], deadline_s: float, stop_file: str | None = None
    ) -> fiopy.Output:
        """Return what fio said, also where it met I/O errors or wrong data."""
        with fio_errors.translated(self.witness), self.around():
            try:
                done = fiopy.run(
                    jobs,
                    self.runner,
                    folder=self.place.folder,
                    deadline_s=deadline_s,
                    found=self.place.found,
                    on_progress=self._say if self.on_progress else None,
                    cancel=self.cancel,
                    stop_file=stop_file,
                ).output
            except (fiopy.FioCancelled, fiopy.FioTimeout):
                raise
            except fiopy.FioFailed as err:
                done = fio_errors.what_it_met(err)
        if done is None:
            raise HarnessError(f"{self.witness.host.name}: fio's result was not read")
        return done

    def _say(self, progress: fiopy.Progress) -> None:
        if self.on_progress:
            self.on_progress(str(progress))


def _takes_direct(witness: Witness, folder: str) -> tuple[bool, EvidenceRef]:
    """Return whether the file system takes O_DIRECT, by writing one block that way."""
    tried = witness.ask(
        ["dd", "if=/dev/zero", f"of={folder}/direct", "bs=4096", "count=1", "oflag=direct"],
        timeout_s=20,
    )
    return tried.result.ok, tried.ref


def _deadline_s(shape: Shape, setting: Setting) -> float:
    """Return when a job that should have ended hangs."""
    if shape.verify:
        return 2 * setting.total_bytes / _SLOWEST_B_PER_S + _SLACK_S
    return setting.ramp_s + setting.runtime_s + _SLACK_S


def _about(place: Place, shape: Shape) -> tuple[Reading, ...]:
    engine = place.setting.gpu_engine if shape.gpu else place.setting.engine
    return (
        Reading(name="fio.version", value=place.found.version.number),
        Reading(name="fio.engine", value=engine or place.setting.engine),
        Reading(name="fio.direct", value=place.data.direct and not shape.buffered),
    )


def names() -> tuple[str, ...]:
    """Return the names of all jobs."""
    return tuple(SHAPES)
