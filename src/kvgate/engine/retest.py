"""Plans a retest: which criteria of a run are tested again, by what, and what forbids it.

A retest is a new run that cites the one it repeats; nothing sealed is touched. Rules of practice
(IEC 62381 retests): the plan limits how often; what is tested again is what the run was told by;
firmware is asked for again each time, so that an update can't go unseen; a soak starts from zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kvgate.engine import soak
from kvgate.engine.lineage import FIRMWARE, Lineage, edges, lineage
from kvgate.engine.scope_out import KEY
from kvgate.engine.start import refuse_changed_suite
from kvgate.engine.status import later
from kvgate.engine.workspace import Setup, Workspace, frozen_setup, load_setup
from kvgate.errors import StoreError, UsageError
from kvgate.judge.lineage import Change, reach
from kvgate.model.finding import Finding
from kvgate.spec.gate import Criterion
from kvgate.spec.load import nearest
from kvgate.store.layout import SUMS
from kvgate.store.sums import hash_file


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Retest:
    """A retest that may begin: its setup, its gates in order, and what its manifest says of it."""

    setup: Setup
    gates: tuple[str, ...]
    told: dict[str, Any]

    @property
    def remark(self) -> str:
        """Return what is tested again, as a sentence."""
        return f"{KEY} of {self.told['of']}: {', '.join(self.told['criteria'])}"


def plan_retest(
    workspace: Workspace,
    run: Path,
    asked: Sequence[str],
    *,
    changed: Sequence[str] = (),
    inventory: Path | None = None,
    reason: str = "",
) -> Retest:
    """Return the retest of the criteria `asked`, and of all that depends on the parts `changed`.

    A part is ``HOST`` or ``HOST/ITEM``; `inventory` has its new serial. Raises UsageError where
    it is not allowed, with the reason, StoreError where the run's suite is another by now.
    """
    found = lineage(run)
    _refuse_early(run, found)
    judged = {each.criterion: each for gate in found.result.gates for each in gate.findings}
    known = _criteria(found)
    for id_ in asked:
        _refuse(id_, judged, known, found)
    touched = [id_ for part in changed for id_ in _touched(part, found, judged.values())]
    named = [id_ for id_ in judged if id_ in {*asked, *touched}]
    if not named:
        raise UsageError("retest needs --criterion ID, or --changed HOST[/ITEM]")
    again = [id_ for id_ in judged if id_ in _whole(named, found, known)]
    gates = tuple(gate.gate for gate in found.result.gates if _any_of(gate.gate, again))
    _same_suites(workspace, found, gates)
    return Retest(
        setup=_setup(workspace, found, inventory),
        gates=gates,
        told={
            "of": found.names[-1],
            "root": found.names[0],
            "seal": hash_file(found.runs[-1].path / SUMS),
            "criteria": again,
            "asked": sorted(set(asked), key=again.index),
            "changed": list(changed),
            "reason": reason,
        },
    )


def _criteria(found: Lineage) -> dict[str, Criterion]:
    gates = found.setup.gates.values()
    return {each.id: each for gate in gates for each in gate.value.criteria}


def _refuse_early(run: Path, found: Lineage) -> None:
    if not found.runs[-1].sealed():
        raise UsageError(
            f"{run.name}: is not sealed yet: there is nothing to test again",
            hint=f"kvgate run --resume {run.name}",
        )
    if any(found.runs[-1].events("forced")):
        raise UsageError(f"{run.name}: was opened by force, which no retest mends: run it anew")
    if newer := later(run):
        raise UsageError(
            f"{run.name}: was tested again in {newer[-1]}: what follows goes on from there",
            hint=f"kvgate retest {newer[-1]} …",
        )


def _refuse(
    id_: str, judged: dict[str, Finding], known: dict[str, Criterion], found: Lineage
) -> None:
    """Raise UsageError where a criterion can't be tested again."""
    if id_ not in judged:
        raise UsageError(f"{id_} was not judged in this run{nearest(id_, judged)}")
    if known[id_].method == "manual":
        name = found.runs[-1].path.name
        raise UsageError(f"{id_} is answered by people", hint=f"kvgate attest {name} --again")
    most, times = found.setup.plan.value.retests.most, found.times(id_)
    if times >= most:
        raise UsageError(
            f"{id_} was tested again {times} time{'s' if times != 1 else ''}, and the plan allows "
            f"{most} (retests.most)",
            hint="it takes a deviation report: agree on a waiver (kvgate waive), or replace the "
            "part and name it with --changed",
        )


def _touched(part: str, found: Lineage, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the criteria with a place that depends on `part`; raises UsageError: no such part."""
    host, _, item = part.partition("/")
    hosts = found.setup.inventory.value.hosts
    if host not in hosts:
        raise UsageError(f"--changed {part}: no host '{host}'{nearest(host, hosts)}")
    items = reach([item] if item else [], edges(hosts[host]))
    change = Change(host=host, items=items, whole=not item, told=part)
    known = {each.item for finding in findings for each in finding.hosts if each.host == host}
    if item and not items & known:
        raise UsageError(
            f"--changed {part}: nothing was judged on it{nearest(item, filter(None, known))}"
        )
    manual = {each.id for each in _criteria(found).values() if each.method == "manual"}
    for finding in findings:
        if finding.criterion not in manual and any(
            change.touches(each.host, each.item) for each in finding.hosts
        ):
            yield finding.criterion


def _whole(named: Sequence[str], found: Lineage, known: dict[str, Criterion]) -> set[str]:
    """Return `named` with all criteria of a soak among them, and those that read firmware."""
    again = set(named)
    for gate in found.result.gates:
        ids = {f.criterion for f in gate.findings if known[f.criterion].method != "manual"}
        if soak.needed(found.setup.plan.value, gate.gate) and again & ids:
            again |= ids
        again |= {id_ for id_ in ids if known[id_].measure.endswith(FIRMWARE)}
    return again


def _any_of(gate: str, criteria: Iterable[str]) -> bool:
    return any(id_.partition(".")[0] == gate for id_ in criteria)


def _same_suites(workspace: Workspace, found: Lineage, gates: Iterable[str]) -> None:
    try:
        for gate in gates:
            refuse_changed_suite(workspace, found.runs[0], found.setup.planned(gate).suite)
    except StoreError as err:
        raise StoreError(
            err.message,
            hint="a retest repeats the test as it was: put it back, or run the gate anew",
        ) from err


def _setup(workspace: Workspace, found: Lineage, inventory: Path | None) -> Setup:
    """Return what the run was told by, with another `inventory` where a part is another now."""
    if inventory is None:
        return frozen_setup(found.runs[-1])
    then = found.setup
    plan = workspace.root / str(found.runs[0].manifest["plan_file"])
    if not plan.is_file():
        raise UsageError(
            f"{plan}: is not there, which a retest with another inventory is loaded by",
            hint="put the run's plan file back",
        )
    now = load_setup(workspace, plan, inventory)
    if now.inventory.value.inventory != then.inventory.value.inventory:
        raise UsageError(
            f"{inventory}: is inventory '{now.inventory.value.inventory}', and the run is of "
            f"'{then.inventory.value.inventory}'"
        )
    return dataclasses.replace(now, plan=then.plan, gates=then.gates)
