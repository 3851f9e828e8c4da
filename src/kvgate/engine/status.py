"""What is missing before a run can be signed: each thing, whose it is, and the command for it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvgate.engine import attested, disposing, signing, waivers
from kvgate.engine.lineage import Lineage, lineage
from kvgate.engine.scope_out import parent
from kvgate.engine.signing import Step
from kvgate.engine.workspace import frozen_setup
from kvgate.errors import KvgateError
from kvgate.model.disposed import Disposed, Effect, Standing
from kvgate.model.verdict import Disposition, Verdict
from kvgate.spec.gate import Criterion
from kvgate.spec.waiver import APPROVERS
from kvgate.store import attested as answers_of
from kvgate.store.reader import RunReader

_NAMED = 6


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where a run stands: what is proposed about it, and every step, in the order of doing."""

    run: str
    lineage: tuple[str, ...]
    disposed: Disposed
    steps: tuple[Step, ...]

    @property
    def open(self) -> tuple[Step, ...]:
        """Return the steps that are missing."""
        return tuple(step for step in self.steps if step.state == "missing")


def status(run: Path, folder: Path | None, at: datetime.datetime) -> Status:
    """Return where `run` stands at the time `at`, with the waivers in `folder` and in the run."""
    found = lineage(run)
    known = waivers.read(folder) if folder else waivers.Found((), ())
    own = waivers.read(run / waivers.FOLDER)
    outside = {each.waiver.waiver for each in known.held}
    held = (*known.held, *(each for each in own.held if each.waiver.waiver not in outside))
    disposed = disposing.propose(run, held, at, known=found)
    name = run.name
    ended = (*_ended(found, name), *_later(run, name))
    if len(ended) > 1:
        return Status(run=name, lineage=found.names, disposed=disposed, steps=ended)
    steps = (
        *ended,
        *_answers(found),
        *_blocking(found, disposed, name),
        *(Step(what=text, state="missing", by="whoever wrote it") for text in known.problems),
        *(_waiver(each) for each in disposed.effects),
        *_frozen(run, disposed, name),
        *signing.steps(found),
    )
    return Status(run=name, lineage=found.names, disposed=disposed, steps=steps)


def _ended(found: Lineage, name: str) -> Iterator[Step]:
    if found.runs[-1].sealed():
        yield Step(what="the run came to its end and is sealed", state="done")
    else:
        yield Step(
            what="the run has not come to its end",
            state="missing",
            by="who runs the test",
            next=f"kvgate run --resume {name}",
        )


def later(run: Path) -> tuple[str, ...]:
    """Return the names of the runs beside `run` that retest it."""
    found = []
    for path in sorted(run.parent.glob("*/manifest.json")):
        try:
            reader = RunReader(path.parent)
        except KvgateError:
            continue  # what can't be read retests nothing
        if parent(reader) == run.name:
            found.append(path.parent.name)
    return tuple(found)


def _later(run: Path, name: str) -> Iterator[Step]:
    for each in later(run):
        yield Step(
            what=f"{name} was tested again in {each}: what counts is decided there",
            state="missing",
            by="who signs",
            next=f"kvgate status {each}",
        )


def _answers(found: Lineage) -> Iterator[Step]:
    """Yield whether the manual checks are answered: of the first run, which retests don't ask."""
    reader = found.runs[0]
    asked = attested.questions(reader, frozen_setup(reader))
    if not asked:
        return
    told = attested.counting(answers_of.answers(reader.path))
    open_ = [each for each in asked if each.key not in told]
    if not open_:
        yield Step(what=f"all {len(asked)} manual checks are answered", state="done")
        return
    yield Step(
        what=f"{len(open_)} of {len(asked)} manual checks are not answered: "
        f"{_few([each.key for each in open_])}",
        state="missing",
        by="who inspects the delivery",
        next=f"kvgate attest {reader.path.name}",
    )


def _blocking(found: Lineage, disposed: Disposed, name: str) -> Iterator[Step]:
    """Yield what blocks, what failed one by one, what was not decided together."""
    known = {each.id: each for g in found.setup.gates.values() for each in g.value.criteria}
    manual = {id_ for id_, each in known.items() if each.method == "manual"}
    undecided: list[Standing] = []
    for gate in disposed.gates:
        if gate.disposition is not Disposition.REJECTED:
            yield Step(what=f"{gate.gate}: {gate.disposition}: {gate.because}", state="done")
        elif not gate.blocking:
            yield Step(what=f"{gate.gate}: {gate.because}", state="barred")
        for each in gate.blocking:
            if each.verdict is Verdict.FAIL:
                yield _failed(each, name, known[each.criterion])
            elif each.criterion not in manual:
                undecided.append(each)
    if undecided:
        ids = [each.criterion for each in undecided]
        chosen = ",".join(ids[:_NAMED])
        yield Step(
            what=f"not decided: {_few(ids)}; {undecided[0].criterion}: {undecided[0].because}",
            state="missing",
            by="who runs the test",
            next=f"kvgate retest {name} --criterion {chosen}",
        )


def _failed(standing: Standing, name: str, criterion: Criterion) -> Step:
    again = criterion.method != "manual"
    kind = " --kind open_item" if criterion.severity == "B" else ""
    waive = f"kvgate waive {name} --criterion {standing.criterion}{kind}"
    retest = f"kvgate retest {name} --criterion {standing.criterion}"
    return Step(
        what=f"{standing.criterion} failed: {standing.because}",
        state="missing",
        by="supplier" if again else "buyer and supplier",
        next=f"mend it, then {retest}; or accept it: {waive}" if again else waive,
    )


def _waiver(effect: Effect) -> Step:
    """Return what a waiver does, or the next step where it does nothing."""
    about = f"{effect.kind.replace('_', ' ')} {effect.waiver} for {effect.criterion}"
    if effect.holds:
        until = f"{effect.owner} until {effect.until}"
        return Step(what=f"{about} holds: {until}; the FAIL stays beside it", state="done")
    good = {each.role for each in effect.signed if not each.problem}
    missing = [role for role in APPROVERS if role not in good and effect.kind != "open_item"]
    only_unsigned = missing and not any(
        word in effect.because for word in ("over-wide", "expired", "not the unit", "passes")
    )
    return Step(
        what=f"{about} has no effect: {effect.because}",
        state="missing",
        by=" and ".join(missing) or effect.owner,
        next=f"kvgate waive --sign {effect.waiver} --role {missing[0]} --key KEY"
        if only_unsigned
        else "draft another that says it rightly: kvgate waive",
    )


def _frozen(run: Path, disposed: Disposed, name: str) -> Iterator[Step]:
    every = disposing.disposals(run)
    if every and _same(every[-1], disposed):
        last = every[-1]
        yield Step(
            what=f"disposition {last.number} is frozen: {last.disposition}, "
            f"as of {last.at:%Y-%m-%d %H:%M} UTC",
            state="done",
        )
        return
    told = "is not what was frozen last" if every else "is not frozen yet"
    yield Step(
        what=f"the proposed disposition ({disposed.disposition}) {told}",
        state="missing",
        by="who signs",
        next=f"kvgate dispose {name}",
    )


def _same(last: disposing.Disposal, disposed: Disposed) -> bool:
    """Tell whether what was frozen is what would be now, but for the time."""
    now = {**disposing.told(disposed), "at": ""}
    return bool(disposing.plain(now) == disposing.plain({**last.stored["disposed"], "at": ""}))


def _few(ids: Sequence[str]) -> str:
    more = len(ids) - _NAMED
    return ", ".join(ids[:_NAMED]) + (f" and {more} more" if more > 0 else "")
