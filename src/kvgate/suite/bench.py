"""The bench: the inventory, connected and recording, as a suite's test receives it."""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import itertools
import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from kvgate.engine.gate import MOST_TEXT
from kvgate.engine.progress import Progress
from kvgate.engine.scope import connect, kept_in
from kvgate.engine.workspace import Setup
from kvgate.errors import HarnessError, KvgateError, NotRunError
from kvgate.model.record import ALL_HOSTS, EvidenceRef, Measurement, Reading
from kvgate.probes import ALL
from kvgate.probes.base import Probe
from kvgate.probes.gather import Facts
from kvgate.spec.baseline import Baseline
from kvgate.spec.expect import coverage
from kvgate.spec.inventory import Host, Inventory
from kvgate.spec.plan import Plan
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.suite.blocks import Block, key_of
from kvgate.suite.looks import Looks
from kvgate.suite.reach import OUT_OF_REACH, Questioning, Reach
from kvgate.untrusted import mask, plain
from kvgate.witness import Answer, Witness

_HOSTS_AT_ONCE = 64
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
        self._connections = connect(setup, RunReader(run.path), scope=self._scope)
        self._keep = kept_in(run, self._scope)
        self._steps = itertools.count(1)
        self._facts: dict[str, Facts] = {}
        self._facts_lock = threading.Lock()
        self._reach = Reach()
        self._looks = Looks(gate, setup, run)

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
        return Witness(host, self._connections.to(host), self._keep, adapter)

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

    def asks_for(self, block: Block) -> None:
        """Say that this thread asks hosts for `block`, which is opened when its work is done."""
        _asking_for.set(block.key)

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
        left = [
            (host, block)
            for host in hosts
            for block in self.blocks("survey", probes=[_title(probes)], host=[host.name])
        ]
        if not left:
            return
        with ThreadPoolExecutor(min(_HOSTS_AT_ONCE, len(left))) as pool:
            answers = pool.map(lambda part: self._ask_all(probes, *part), left)
            for (host, block), found in zip(left, answers, strict=True):
                with block:
                    for answer in found:
                        self.record(answer, host=host, phase=phase)

    def _ask_all(self, probes: Sequence[Probe], host: Host, block: Block) -> list[Answer]:
        """Return each probe's answer; once the host is out of reach it is not tried again."""
        self.asks_for(block)
        found: list[Answer] = []
        asking = Questioning(self.witness(host), self._reach)
        self.progress("facts", host=host.name, awaits="the host's answers")
        try:
            asking.begin()
            if host.transport != "recorded" and not host.is_device:  # these answer one by one
                asking.over(self._facts_of(host).answered(probes))
        except OUT_OF_REACH as err:
            asking.lost = err
        except KvgateError as err:  # no folder for answers, or a shell that is none
            self.run.event("note", text=f"asked one by one, as facts failed: {err.message}")
        for probe in probes:
            self.progress(f"{probe.name}", host=host.name, awaits="the host's answer")
            try:
                found.append(self._checked(probe, asking.put(probe)))
            except KvgateError as err:
                found.append(self._problems(probe, host, err.message, asking.refs))
            except Exception as err:  # noqa: BLE001  our own fault costs one answer, not a gate
                told = f"{host.name}: kvgate broke over the answer: {type(err).__name__}: {err}"
                self.run.event("note", text=mask(f"{probe.name}: {told}"))
                found.append(self._problems(probe, host, plain(told), asking.refs))
        asking.end()
        return found

    def _facts_of(self, host: Host) -> Facts:
        """Return what `host` tells for the probes whose measures this gate judges."""
        with self._facts_lock:
            if host.name not in self._facts:
                judged = {each.measure for each in self.setup.gates[self.gate].value.criteria}
                probes = [probe for probe in ALL if judged.intersection(probe.measures)]
                self._facts[host.name] = Facts(host, self._connections.to(host), probes)
            return self._facts[host.name]

    def _checked(self, probe: Probe, answer: Answer) -> Answer:
        strange = sorted({r.name for r in answer.readings} - set(probe.measures))
        if strange:
            raise HarnessError(
                f"probe {probe.name} returned {strange[0]}, which it doesn't declare"
            )
        return answer

    def _problems(
        self, probe: Probe, host: Host, because: str, evidence: tuple[EvidenceRef, ...]
    ) -> Answer:
        """Return a problem for every item of every measure that `probe` was to answer for."""
        wanted: dict[tuple[str, str], None] = {}
        for gate in self.setup.gates.values():
            for criterion in gate.value.criteria:
                if criterion.measure in probe.measures:
                    covered = coverage(criterion, self.inventory, self.setup.expected)
                    for item in covered.get(host.name, ()):
                        wanted[criterion.measure, item] = None
        readings = [
            Reading(name=name, value=None, item=item, problem=because) for name, item in wanted
        ]
        return Answer(tuple(readings), evidence)

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
        """Close every connection; what was started on them ends."""
        self._connections.close()


def _title(probes: Sequence[Probe]) -> str:
    return "+".join(probe.name for probe in probes)
