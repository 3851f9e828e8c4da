"""G2: SNIA's performance tests on whole drives, or shaped like them on files, until steady."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
from collections.abc import Iterable, Iterator

from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Reading
from kvgate.spec.declared import Disk
from kvgate.spec.inventory import Host
from kvgate.spec.pts import PtsWorkload
from kvgate.suite import Bench, Block, NotRunError, one_by_one, settles
from kvgate.witness import Answer
from kvgate.workloads import pts, pts_place, pts_progress, pts_run
from kvgate.workloads.fio import Place, Told
from kvgate.workloads.pts import Loop
from kvgate.workloads.pts_progress import Progress

FILE = "file"


@settles("G2.60", "G2.61", "G2.62", "G2.63", "G2.64")
def test_snia_tests_until_steady(bench: Bench) -> None:
    """Purge, precondition and repeat rounds on each target until SNIA's rule says steady."""
    workload = _workload(bench)
    one_by_one(_targets(bench, workload), lambda target: target.measure())


def _workload(bench: Bench) -> PtsWorkload:
    workload = bench.plan.workloads.pts
    if workload is None:
        raise NotRunError(("the plan sets no workloads.pts",), hint="see docs/pts.md for one")
    return workload


def _targets(bench: Bench, workload: PtsWorkload) -> Iterator[_Target]:
    """Yield a file on each serving host, or the drives that the plan names by serial."""
    hosts = bench.hosts("serving")
    if workload.serials is None:
        yield from (_Target(bench, host, None, workload) for host in hosts)
        return
    disks = {disk.id: (host, disk) for host in hosts for disk in host.declared.disks}
    bench.require(
        *(
            f"workloads.pts.serials: no serving host declares a disk '{serial}'"
            for serial in workload.serials
            if serial not in disks
        )
    )
    yield from (_Target(bench, *disks[serial], workload) for serial in workload.serials)


@dataclasses.dataclass(frozen=True)
class _Target:
    """One target on one host, and what is done to it."""

    bench: Bench
    host: Host
    disk: Disk | None
    workload: PtsWorkload
    ready: list[str] = dataclasses.field(default_factory=list)  # by which test it was prepared

    @property
    def device(self) -> str:
        """Return what its measurements are labelled with."""
        return self.disk.id if self.disk else FILE

    @property
    def told(self) -> Told:
        """Return what fio is run in, and who is told of its progress."""
        around = functools.partial(self.bench.child, "fio", host=self.host.name)
        return around, self._say, None

    def _say(self, said: str) -> None:
        self.bench.progress(said, host=self.host.name, awaits="fio")

    def measure(self) -> None:
        """Run every test that has not ended, then record what each came to."""
        left = [loop for loop in pts.loops(self.workload) if not self._why_ended(loop)]
        if left:
            with contextlib.ExitStack() as held:
                held.enter_context(self.bench.asking_for("pts", host=self.host.name))
                place = held.enter_context(self._place())
                for loop in left:
                    self._until_ended(loop, place)
        for loop in pts.loops(self.workload):
            self._conclude(loop)

    def _place(self) -> contextlib.AbstractContextManager[Place]:
        witness, seed = self.bench.witness(self.host), self.bench.seed % 2**31
        if self.disk is None:
            return pts_place.on_file(witness, self.workload, seed=seed, told=self.told)
        return pts_place.on_device(
            witness, self.disk, self.workload, self.bench.consent(self.host), seed=seed
        )

    def _known(self, loop: Loop) -> Progress:
        return pts_progress.so_far(self._taken(loop), loop, self.host.name, self.device)

    def _taken(self, loop: Loop, *more: str) -> list[Measurement]:
        """Return what this run has recorded of a test on this target."""
        names = dict.fromkeys((loop.measure, "pts.purge", "pts.written", *more))
        return [
            each
            for name in names
            for each in self.bench.measurements(name, test=loop.name, device=self.device)
            if each.host == self.host.name
        ]

    def _why_ended(self, loop: Loop, known: Progress | None = None) -> str:
        known = known or self._known(loop)
        capacity = self.disk.size if self.disk else self.workload.file
        most = pts.SATURATION_PASSES * pts.size_bytes(
            self.workload, int(capacity.base if capacity else 0)
        )
        return pts_progress.ended(
            loop,
            known,
            most_rounds=self.workload.most_rounds,
            saturation=(pts.saturation_rounds(self.workload), most),
        )

    def _until_ended(self, loop: Loop, place: Place) -> None:
        """Begin a series, or go on with one that was interrupted shortly; round after round."""
        known = self._known(loop)
        now = datetime.datetime.now(datetime.UTC)
        again = pts_progress.why_again(
            known,
            now,
            most_gap_s=self.workload.most_gap.to("s"),
            survives=self.disk is not None,
        )
        gap = (now - known.latest).total_seconds() if known.latest and not again else None
        if not known.series or again:
            self._begin(loop, place, known.series + 1, again)
            known, gap = self._known(loop), None
        while not self._why_ended(loop, known):
            number = len(known.rounds) + 1
            for block in self._blocks("pts-round", loop, known.series, round=[number]):
                with block:
                    self._round(loop, place, block, gap)
            known, gap = self._known(loop), None

    def _blocks(self, name: str, loop: Loop, series: int, **more: Iterable[int]) -> Iterator[Block]:
        return self.bench.blocks(
            name,
            shuffled=False,
            host=[self.host.name],
            device=[self.device],
            test=[loop.name],
            series=[series],
            **more,
        )

    def _begin(self, loop: Loop, place: Place, series: int, again: str) -> None:
        """Purge and precondition, and record how, and what it is done to."""
        for block in self._blocks("pts-precondition", loop, series):
            with (
                block,
                self.bench.step(
                    f"Purge and precondition {self.device} for PTS {loop.title}",
                    host=self.host.name,
                    awaits="fio",
                ),
            ):
                about, refs = pts_place.about(
                    self.bench.witness(self.host), self.workload, place, self.disk
                )
                done = pts_run.precondition(
                    self.bench.witness(self.host),
                    self.workload,
                    loop,
                    place,
                    self.told,
                    as_left=self._as_left(loop),
                )
                self.ready[:] = [loop.name] if loop.precondition_block else []
                why = [Reading(name="pts.again", value=again)] if again else []
                self._record(Answer((*about, *done.readings, *why), (*refs, *done.evidence)), block)

    def _as_left(self, loop: Loop) -> bool:
        """Tell whether the quick profile takes the target as the test before has left it.

        Only what this process has preconditioned itself, and has not purged since, is known.
        """
        quick = self.workload.profile == "quick" and loop.precondition_block is not None
        return quick and bool(self.ready)

    def _round(self, loop: Loop, place: Place, block: Block, gap: float | None) -> None:
        if gap is not None:
            value = Quantity.of(round(gap, 3), "s")
            self._record(Answer((Reading(name="pts.gap", value=value),), ()), block)
        for point in loop.points:
            answer = pts_run.point(
                self.bench.witness(self.host),
                loop,
                point,
                place,
                self.told,
                round_=int(block["round"]),
            )
            self._record(answer, block, **point.labels)

    def _record(self, answer: Answer, block: Block, **labels: str) -> None:
        named = {name: text for name, text in block.labels.items() if name != "host"}
        self.bench.record(answer, host=self.host, phase="precondition", **named, **labels)

    def _conclude(self, loop: Loop) -> None:
        """Record what the rounds come to; a resumed run doesn't record it twice."""
        known = self._known(loop)
        for block in self._blocks("pts-result", loop, known.series):
            taken = self._taken(loop, *pts_progress.FIGURES)
            evidence = pts_progress.cited(loop, known, taken)
            labels = {name: text for name, text in block.labels.items() if name != "host"}
            with block:
                for each in (
                    *pts_progress.results(loop, known, self._why_ended(loop, known)),
                    *pts_progress.figures(loop, known, taken),
                ):
                    self.bench.compute(
                        each.reading,
                        inputs=each.inputs,
                        phase="steady_state",
                        host=self.host.name,
                        evidence=evidence,
                        labels={**labels, **each.labels},
                    )
