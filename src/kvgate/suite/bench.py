"""The bench: the inventory, connected and recording, as a suite's test receives it."""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kvgate.engine import destroy
from kvgate.engine.gate import MOST_TEXT
from kvgate.engine.left_faults import undo_left
from kvgate.engine.progress import Progress
from kvgate.engine.scope import connect, kept_in
from kvgate.engine.workspace import Setup
from kvgate.errors import NotRunError
from kvgate.model.record import ALL_HOSTS, EvidenceRef, Measurement, Reading
from kvgate.probes.base import Probe
from kvgate.spec.baseline import Baseline
from kvgate.spec.inventory import Host, Inventory
from kvgate.spec.plan import Plan
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.suite.blocks import Block, key_of
from kvgate.suite.kernel_window import KernelWindow
from kvgate.suite.looks import Looks
from kvgate.suite.survey import Surveys
from kvgate.suite.timings import Timings
from kvgate.untrusted import mask
from kvgate.witness import Answer, Witness
from kvgate.workloads.devices import Consent

if TYPE_CHECKING:
    from kvgate.telemetry.watching import Watching

_asking_for: contextvars.ContextVar[str] = contextvars.ContextVar("asking_for", default="")


class Bench:
    """What a test has in hand: hosts to ask, blocks to measure in, a run to record to."""

    def __init__(self, gate: str, setup: Setup, run: RunWriter, progress: Progress) -> None:
        self.gate = gate
        self.setup = setup
        self.run = run
        self.progress_to = progress
        self.open_block = ""
        self._around = ""
        self.connections = connect(setup, RunReader(run.path), scope=self._scope)
        self._keep = kept_in(run, self._scope)
        self._steps = itertools.count(1)
        self._surveys = Surveys(self, self.connections)
        self._kernel = KernelWindow(self, self.connections)
        self._looks = Looks(gate, setup, run)
        self._watching: Watching | None = None
        self.timings = Timings(gate)

    # what the run was told

    @property
    def plan(self) -> Plan:
        """Return the plan."""
        return self.setup.plan.value

    @property
    def inventory(self) -> Inventory:
        """Return the inventory."""
        return self.setup.inventory.value

    @property
    def baseline(self) -> Baseline | None:
        """Return the baseline that the inventory cites."""
        return self.setup.baseline.value if self.setup.baseline else None

    @property
    def seed(self) -> int:
        """Return the run's seed; every random choice starts from it."""
        return self.plan.seed

    # hosts

    def hosts(self, role: str = "all") -> tuple[Host, ...]:
        """Return the hosts with `role`; ``all`` is every computer, and no device."""
        return self.inventory.with_role(role)

    def witness(self, host: Host) -> Witness:
        """Return `host` ready to be asked; its connection is opened at first use and shared."""
        adapter = self.setup.adapter(host)
        return Witness(host, self.connections.to(host), self._keep, adapter)

    def consent(self, host: Host) -> Consent:
        """Return which disks of `host` people let be written over, and which its gates found."""
        self.run.sync()
        return destroy.consent(RunReader(self.run.path), host)

    def _scope(self) -> str:
        """Return in which block is being asked, or for what (`asking_for`), or in which gate."""
        return _asking_for.get() or self.open_block or self._around or self.gate

    @contextlib.contextmanager
    def asking_for(self, name: str, **labels: object) -> Iterator[None]:
        """Say what hosts are asked for outside of blocks, until this ends.

        A resumed run asks it all again: recordings then keep what the last process was told.
        """
        before = self._around
        named = {label: str(value) for label, value in labels.items()}
        self._around = key_of(self.gate, name, named)
        try:
            yield
        finally:
            self._around = before

    def asks_for(self, block: Block | None) -> None:
        """Say that this thread asks hosts for `block`, which is opened when its work is done.

        None: for none any more.
        """
        _asking_for.set(block.key if block else "")

    def require(self, *reasons: str) -> None:
        """Raise NotRunError with every reason that is not empty."""
        unmet = tuple(reason for reason in reasons if reason)
        if unmet:
            raise NotRunError(unmet)

    # measuring

    def blocks(
        self, name: str, *, shuffled: bool = False, **dimensions: Iterable[object]
    ) -> Iterator[Block]:
        """Yield a block for every point of `dimensions` that is not finished yet, in order.

        `shuffled` puts them into an order drawn from the run's seed, the same on every resume.
        """
        names = list(dimensions)
        points = list(itertools.product(*(list(values) for values in dimensions.values())))
        if shuffled:
            random.Random(f"{self.seed}/{self.gate}/{name}").shuffle(points)  # noqa: S311
        for point in points:
            labels = dict(zip(names, map(str, point), strict=True))
            block = Block(self, key_of(self.gate, name, labels), labels)
            if block.key not in self.run.finished_blocks():
                yield block

    def record(
        self, answer: Answer, *, host: Host, phase: str, block: str | None = None, **labels: object
    ) -> None:
        """Record every reading of `answer` as a measurement on `host`, with its evidence."""
        for reading in answer.readings:
            self._measure(reading, host.name, phase, labels, answer.evidence, "", block)

    def compute(
        self,
        reading: Reading,
        *,
        inputs: str,
        phase: str,
        host: str = ALL_HOSTS,
        evidence: Sequence[EvidenceRef] = (),
        labels: Mapping[str, object] | None = None,
    ) -> None:
        """Record a value computed from other measurements; `inputs` says which and how.

        Outside a block it makes one of its own, so that a resumed run doesn't record it twice.
        """
        marks = dict(labels or {})
        if self.open_block:
            self._measure(reading, host, phase, marks, tuple(evidence), inputs, None)
            return
        point = {**marks, "host": host, "item": reading.item, "phase": phase}
        named = {name: str(value) for name, value in point.items()}
        block = Block(self, key_of(self.gate, f"compute/{reading.name}", named), named)
        if block.key not in self.run.finished_blocks():
            with block:
                self._measure(reading, host, phase, marks, tuple(evidence), inputs, None)

    def _measure(
        self,
        reading: Reading,
        host: str,
        phase: str,
        labels: Mapping[str, object],
        evidence: tuple[EvidenceRef, ...],
        inputs: str,
        block: str | None,
    ) -> None:
        self.run.measure(
            Measurement(
                name=reading.name,
                value=reading.value,
                host=host,
                phase=phase,
                taken_at=datetime.datetime.now(datetime.UTC),
                item=reading.item,
                labels={name: str(value) for name, value in labels.items()},
                evidence=evidence,
                inputs=inputs,
                problem=reading.problem[:MOST_TEXT],
                block=self.open_block if block is None else block,
            )
        )

    def measurements(self, name: str, **labels: object) -> tuple[Measurement, ...]:
        """Return the committed measurements of `name` whose labels are those given."""
        self.run.sync()
        wanted = {label: str(value) for label, value in labels.items()}
        return tuple(
            m
            for m in RunReader(self.run.path).measurements()
            if m.name == name and all(m.labels.get(k) == v for k, v in wanted.items())
        )

    # comparing arms

    def plan_looks(self, kind: str) -> None:
        """Journal after which rounds arms are compared (`kind`: first word of the measures)."""
        self._looks.plan(kind)

    def look(self, kind: str, *, after: int, host: Host) -> bool:
        """Tell whether every comparison on `host` is decided, if a look is planned `after` it."""
        return self._looks.look(kind, after=after, host=host.name)

    def decided_after(self, kind: str, host: Host) -> int | None:
        """Return the round whose look decided all on `host`; None where none did."""
        return self._looks.decided_after(kind, host.name)

    # asking many hosts at once

    def survey(self, probes: Sequence[Probe], hosts: Sequence[Host], *, phase: str) -> None:
        """Ask every probe on every host, hosts in parallel; a dead host delays only itself.

        What the gate's probes ask of a host is gathered in one round trip at the first survey.
        A probe that can't answer leaves a problem for each of its measures, so that what was not
        learnt is inconclusive with its reason.
        """
        self._surveys.survey(probes, hosts, phase=phase)

    def undo_left_faults(self) -> None:
        """Undo what a run that was killed in the midst of a fault has left on these hosts.

        Raises RepairError where that can't be proven: nothing may be measured then.
        """
        undo_left(self.run, self.inventory, self.witness)

    def mark_kernel_logs(self) -> None:
        """Mark where the kernel logs end that this gate judges; once a run, before any block."""
        self._kernel.mark()

    def survey_kernel_logs(self, *, phase: str) -> None:
        """Record what the kernels have logged since the gate began: a window over all its blocks.

        Raises NotRunError where the plan judges nothing of it.
        """
        self._kernel.survey(phase=phase)

    # watching

    @contextlib.contextmanager
    def telemetry(
        self,
        hosts: Sequence[Host] | None = None,
        *,
        every_s: float = 1.0,
        deadline_s: float = 86400.0,
    ) -> Iterator[Watching]:
        """Record what `hosts` (default: all) do each second, until the block ends.

        Recorded hosts are left out: what they did is over. Nothing that goes wrong with telemetry
        ends the block; it is noted in the journal. `Watching.scrape` adds an engine's metrics, the
        inventory (``telemetry``) those that the host itself reaches.
        Inside a block that records already that one goes on, of the hosts it has.
        """
        if self._watching is not None:
            yield self._watching
            return
        from kvgate.telemetry.channel import Settings  # with NumPy, and few gates record
        from kvgate.telemetry.watching import Watching

        sampled = [
            host
            for host in (self.hosts() if hosts is None else hosts)
            if host.transport != "recorded" and not host.is_device
        ]
        settings = Settings(every_s=every_s, deadline_s=deadline_s)
        with Watching(
            self.run.path,
            [self.connections.to(host) for host in sampled],
            journal=self.run.event,
            settings=settings,
            settings_of={host.name: settings.of(host) for host in sampled},
        ) as watching:
            self._watching = watching
            try:
                yield watching
            finally:
                self._watching = None

    # telling

    @contextlib.contextmanager
    def step(self, text: str, *, host: str = "", awaits: str = "") -> Iterator[None]:
        """Say and journal that something is being done, until the block ends."""
        number = f"{self.gate}.{next(self._steps)}"
        self.run.event("step_begin", id=number, text=text, host=host, awaits=awaits)
        self.progress_to.send("step", text, host=host, awaits=awaits)
        try:
            yield
        except BaseException as err:
            self.run.event("step_end", id=number, outcome=mask(f"{type(err).__name__}: {err}"))
            raise
        self.run.event("step_end", id=number, outcome="done")

    @contextlib.contextmanager
    def child(self, what: str, *, host: str = "") -> Iterator[None]:
        """Journal that a child (fio, an engine) works until the block ends: not our own time."""
        number = f"{self.gate}.{next(self._steps)}"
        self.run.event("child_begin", id=number, what=what, host=host)
        try:
            yield
        finally:
            self.run.event("child_end", id=number)

    def progress(self, text: str, *, host: str = "", awaits: str = "") -> None:
        """Show `text` as what is going on; not recorded."""
        self.progress_to.send("progress", text, host=host, awaits=awaits)

    def close(self) -> None:
        """Close every connection; what was started on them ends. Write what was timed."""
        self.connections.close()
        self.timings.write(self.run.path)
