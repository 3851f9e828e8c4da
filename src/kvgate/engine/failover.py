"""Does one fault under verified load: watches the paths, loads, breaks, repairs, and tells.

Nothing is concluded from a fault that was not proven; one whose repair is not proven stops the
run (RepairError).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from kvgate.engine import failover_told as told_of
from kvgate.engine.failover_told import Times
from kvgate.errors import HarnessError, KvgateError, NotRunError
from kvgate.faults import array, paths
from kvgate.faults.base import Injection
from kvgate.faults.command import Doing
from kvgate.faults.paths import Loss
from kvgate.model.record import EvidenceRef, Reading
from kvgate.probes import nvmeof
from kvgate.spec.failover import FailoverWorkload
from kvgate.spec.faults import FaultTemplate
from kvgate.telemetry.paths import PathWatch
from kvgate.telemetry.paths_seen import Moment
from kvgate.witness import Answer, Witness
from kvgate.workloads import acknowledged, failover
from kvgate.workloads.acknowledged import Writer, Writing
from kvgate.workloads.failover import Met
from kvgate.workloads.fio import Place, Told

FIRST_S = 60.0
"""Within so many seconds the watcher says its first line, and the load begins."""
_WAIT_S = 0.1
_END_S = 600.0

Journal = Callable[[str, Injection, float], None]
"""Told ``fault_begin`` to ``fault_repaired`` as they happen, with the initiator's uptime."""

Watching = Callable[[], PathWatch]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Under:
    """The load that faults are done under, and who is told what."""

    witness: Witness  # of the initiator
    workload: FailoverWorkload
    place: Place
    watching: Watching
    told: Told
    folder: Path  # of faults that may still stand
    run: str
    journal: Journal

    def hold_s(self, template: FaultTemplate) -> float:
        """Return how long a fault lasts."""
        return (template.hold or self.workload.hold).to("s")


@dataclasses.dataclass(slots=True, kw_only=True)
class _Fault:
    """One fault under way: what it takes away, and what it has left so far."""

    under: Under
    template: FaultTemplate
    on: Witness
    watch: PathWatch
    loss: Loss
    times: Times = dataclasses.field(default_factory=Times)
    evidence: list[EvidenceRef] = dataclasses.field(default_factory=list)
    problem: str = ""  # why it is not proven

    @property
    def hold_s(self) -> float:
        """Return how long it lasts."""
        return self.under.hold_s(self.template)

    @property
    def most_s(self) -> float:
        """Return after what time its load ends at the latest."""
        return failover.most_s(self.under.workload, self.template, self.hold_s)

    @property
    def after_s(self) -> float:
        """Return how long the load goes on after the repair; there is nothing to see without."""
        return 0.0 if self.problem else self.under.workload.after.to("s")

    def suffer(self) -> None:
        """Do it for its time, once the load has run ahead; raises RepairError."""
        _pause(self.under.workload.lead.to("s"), self.watch)
        try:
            with self._held():
                _pause(self.hold_s, self.watch)
        except HarnessError as err:
            self.problem = err.message

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the fault for the block; `times` and `evidence` are added to as it goes on."""
        under, template = self.under, self.template
        doing = Doing(
            template=template,
            witness=dataclasses.replace(self.on, store=self._kept),
            folder=under.folder,
            run=under.run,
            hold_s=self.hold_s,
            on_event=self._event,
        )
        if template.takes_paths:
            initiator = dataclasses.replace(under.witness, store=self._kept)
            with paths.paths_lost(doing, self.loss, self.watch, initiator):
                yield
        else:
            with array.broken_inside(doing, self.loss.before, self.watch):
                yield

    def _event(self, kind: str, injection: Injection) -> None:
        now = self.watch.now_s()
        moment = kind.removeprefix("fault_")
        setattr(self.times, "begun" if moment == "begin" else moment, now)
        self.under.journal(kind, injection, now)

    def _kept(self, piece: object) -> EvidenceRef:
        self.evidence.append(self.on.store(piece))  # type: ignore[arg-type]  # what a Witness keeps
        return self.evidence[-1]


def quiet(under: Under) -> Answer:
    """Load for the plan's time without a fault: what shows then is no fault of ours.

    Raises NotRunError where there are no paths, HarnessError, TransportError.
    """
    with under.watching() as watch:
        before = _first(watch)
        with _Load(under, under.workload.quiet.to("s")) as load:
            met = load.met(watch)
        moments = watch.since(before.uptime_s)
    readings = [
        *told_of.of_fio(met, moments, None),
        *told_of.of_paths(moments, Loss(before=before, taken=frozenset()), Times(), None),
    ]
    return Answer(tuple(readings), (*under.place.evidence, *met.evidence, *watch.evidence))


def under_fio(under: Under, template: FaultTemplate, on: Witness) -> Answer:
    """Do the fault of `template` (on host `on`) while fio writes and verifies; return what it met.

    A fault that is not proven leaves readings without a value, with the reason. Raises RepairError,
    NotRunError where paths are not as they must be (nothing was broken), TransportError.
    """
    with under.watching() as watch:
        fault = _begun(under, template, on, watch)
        with _Load(under, fault.most_s) as load:
            load.begun(watch)
            fault.suffer()
            load.go_on(fault.after_s, watch)
            met = load.enough(watch)
        moments = watch.since(fault.loss.before.uptime_s)
    evidence = (*under.place.evidence, *fault.evidence, *met.evidence, *watch.evidence)
    if fault.problem:
        return Answer(told_of.missing(_names(template, told_of.FIO), fault.problem), evidence)
    return Answer(tuple(_readings(template, moments, fault.loss, fault.times, met)), evidence)


def _readings(
    template: FaultTemplate, moments: tuple[Moment, ...], loss: Loss, times: Times, met: Met
) -> Iterator[Reading]:
    recovered = told_of.recovered_at(moments, loss.before, times)
    idle = "" if template.takes_paths else told_of.not_under_load(met, moments, times)
    yield from told_of.of_repair(recovered, times, idle)
    yield from told_of.of_fio(met, moments, times.begun)
    if template.takes_paths:
        yield told_of.left_after(moments, loss, times)
    yield from _of_paths(template, moments, loss, times, recovered)
    if template.loss == "all":
        until = told_of.all_away_until(moments, loss.before, times)
        yield told_of.resumed(met, moments, until)


def _of_paths(
    template: FaultTemplate,
    moments: tuple[Moment, ...],
    loss: Loss,
    times: Times,
    recovered: float | None,
) -> Iterator[Reading]:
    """Yield flaps and shares; a fault inside the array may take any path along."""
    if not template.takes_paths:
        loss = Loss(before=loss.before, taken=frozenset(loss.before.paths))
    yield from told_of.of_paths(moments, loss, times, recovered)


def under_writer(under: Under, template: FaultTemplate, on: Witness, writer: Writer) -> Answer:
    """Do the fault of `template` under writes whose acknowledgements are kept, then read all back.

    For what fio can't outlive or can't prove: loss of power, of all paths beyond their time-out.
    Raises as `under_fio` does.
    """
    with under.watching() as watch:
        fault = _begun(under, template, on, watch)
        with _writing(writer, under.workload.rate, fault.most_s) as writing:
            if not writing.began.wait(FIRST_S):
                raise HarnessError(f"{watch.host}: no write was acknowledged within {FIRST_S:g} s")
            fault.suffer()
            _ended(writing, fault)
        fate, refs = writer.verify(writing.written)
        moments = watch.since(fault.loss.before.uptime_s)
    found = (*fault.evidence, *writing.evidence, *refs, *watch.evidence)
    evidence = (*under.place.evidence, *writer.there.evidence, *found)
    if fault.problem:
        names = _names(template, told_of.ACKNOWLEDGED)
        return Answer(told_of.missing(names, fault.problem), evidence)
    loss, times = fault.loss, fault.times
    readings = [
        *told_of.of_repair(told_of.recovered_at(moments, loss.before, times), times),
        *told_of.of_writer(writing.written, times.begun or 0.0),
        *acknowledged.readings(writing.written, fate),
        *([told_of.left_after(moments, loss, times)] if template.takes_paths else ()),
        *([told_of.clear_error(writing.written, writing.hung)] if template.beyond else ()),
    ]
    return Answer(tuple(readings), evidence)


def _ended(writing: Writing, fault: _Fault) -> None:
    """Let the writer go on after the repair, then end it.

    Where all paths were lost for too long, an error has ended it by then: else an I/O hangs.
    """
    if fault.template.beyond:
        writing.end(fault.after_s)
        return
    until = time.monotonic() + fault.after_s
    while not writing.poll() and time.monotonic() < until:
        fault.watch.check()
        time.sleep(_WAIT_S)
    writing.enough()
    writing.end(_END_S)


def _begun(under: Under, template: FaultTemplate, on: Witness, watch: PathWatch) -> _Fault:
    """Return the fault, not done yet; raises NotRunError where paths are not as they must be."""
    loss = paths.lost_by(template, _first(watch), under.witness.host.name)
    _fits(under, template)
    return _Fault(under=under, template=template, on=on, watch=watch, loss=loss)


def _names(template: FaultTemplate, load: tuple[str, ...]) -> tuple[str, ...]:
    """Return what would have been told of a fault that was not proven."""
    names = (*told_of.REPAIR[:1], *told_of.REPAIR[2:], *load)
    if template.takes_paths:
        names += told_of.LEFT
    if load == told_of.FIO:
        names += told_of.PATHS
    if template.beyond:
        names += told_of.CLEAR
    return (*names, *(told_of.RESUMED if template.loss == "all" else ()))


def _first(watch: PathWatch) -> Moment:
    """Return the first moment that is seen; raises NotRunError where there is no path in it."""
    seen = watch.wait(lambda _: True, FIRST_S)
    if seen is None:
        raise HarnessError(f"{watch.host}: the watcher of paths says nothing")
    if not seen.paths:
        raise NotRunError(
            (f"{watch.host}: no path to subsystem {watch.nqn}",),
            hint="connect it, or see workloads.failover.nqn",
        )
    return seen


def _fits(under: Under, template: FaultTemplate) -> None:
    """Raise NotRunError where all paths are lost for longer, or shorter, than the fault means.

    I/O is held until ctrl_loss_tmo, or fast_io_fail_tmo where that is set and shorter.
    """
    if template.kind != "both_paths":
        return
    found, _ = nvmeof.look(under.witness)
    limits = [_patience_s(each) for each in nvmeof.of_nqn(found, under.workload.nqn)]
    hold, where = under.hold_s(template), under.witness.host.name
    if template.beyond and max(limits, default=0.0) >= hold:
        raise NotRunError(
            (f"{where}: I/O is held for {max(limits):g} s, the fault lasts {hold:g} s",),
            hint="'beyond' takes a longer 'hold', or a shorter ctrl_loss_tmo or fast_io_fail_tmo",
        )
    if not template.beyond and min(limits, default=math.inf) <= hold:
        raise NotRunError(
            (f"{where}: I/O is held for {min(limits):g} s only, the fault lasts {hold:g} s",),
            hint="give the fault a shorter 'hold', or see ctrl_loss_tmo and fast_io_fail_tmo",
        )


def _patience_s(path: nvmeof.Controller) -> float:
    """Return for how many seconds the kernel holds I/O of a path that is gone."""
    told = (path.ctrl_loss_tmo, path.fast_io_fail_tmo)
    return min((float(each) for each in told if each not in (None, "off")), default=math.inf)


def _pause(seconds: float, watch: PathWatch) -> None:
    """Wait for what was asked for: the load runs meanwhile, and the paths are watched."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        watch.check()
        time.sleep(min(_WAIT_S, left))


@contextlib.contextmanager
def _writing(writer: Writer, rate: float, seconds: float) -> Iterator[Writing]:
    """Keep a writer at work for the block; it has ended on every way out."""
    writing = writer.start(rate=rate, seconds=seconds)
    try:
        yield writing
    except BaseException:
        with contextlib.suppress(KvgateError):
            writing.end(0)
        raise


class _Load:
    """fio at work in a thread for a block; it has ended on every way out."""

    def __init__(self, under: Under, most_s: float) -> None:
        around, self._tell, _ = under.told
        self._cancel = threading.Event()
        self._begun = threading.Event()
        self._met: Met | None = None
        self._error: BaseException | None = None
        told: Told = (around, self._said, self._cancel)
        self._load = failover.Load(under.witness, under.place, under.workload, told)
        self._thread = threading.Thread(
            target=self._work, args=(most_s,), name="failover-load", daemon=True
        )

    def _work(self, most_s: float) -> None:
        try:
            self._met = self._load.run(most_s)
        except BaseException as err:  # noqa: BLE001  raised again by `met`, in the other thread
            self._error = err
        finally:
            self._begun.set()

    def _said(self, text: str) -> None:
        self._begun.set()
        if self._tell is not None:
            self._tell(text)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._cancel.set()
        self._thread.join()

    def begun(self, watch: PathWatch) -> None:
        """Wait until fio works; raises HarnessError where it does not begin."""
        until = time.monotonic() + FIRST_S
        while not self._begun.wait(_WAIT_S):
            watch.check()
            if time.monotonic() > until:
                raise HarnessError(f"{watch.host}: fio did not begin within {FIRST_S:g} s")
        if self._error is not None:
            raise self._error

    def go_on(self, seconds: float, watch: PathWatch) -> None:
        """Let it go on for so long, if it does."""
        until = time.monotonic() + seconds
        while self._thread.is_alive() and (left := until - time.monotonic()) > 0:
            watch.check()
            self._thread.join(min(_WAIT_S, left))

    def enough(self, watch: PathWatch) -> Met:
        """Let fio end now, and return what it met; raises what `failover.Load` does."""
        self._load.enough()
        return self.met(watch)

    def met(self, watch: PathWatch) -> Met:
        """Return what fio met, when it has ended; raises what `failover.Load` does."""
        while self._thread.is_alive():
            self._thread.join(_WAIT_S)
            watch.check()
        if self._error is not None:
            raise self._error
        if self._met is None:
            raise HarnessError(f"{watch.host}: fio told nothing")
        return self._met
