"""Judges what is stored: a gate after its tests, a whole run at its end or years later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvgate.engine import attested
from kvgate.engine.scope_out import left_out
from kvgate.engine.workspace import Setup, frozen_setup
from kvgate.judge.comparison import Planned
from kvgate.judge.gate import judge_gate, judge_run
from kvgate.model.finding import Attempt, GateResult, RunResult
from kvgate.model.verdict import Verdict
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter


def judge_gate_of(reader: RunReader, setup: Setup, gate: str) -> GateResult:
    """Return the verdict on one gate from what the run holds so far."""
    return judge_gate(
        setup.gates[gate].value,
        profile=setup.plan.value.profile,
        inventory=setup.inventory.value,
        expected=setup.expected,
        taken=reader.measurements(),
        attempts=reader.attempts(),
        scoped_out=left_out(reader, setup),
        forced=forced(reader).get(gate, ""),
        planned=_planned(setup),
    )


def compared_so_far(
    reader: RunReader, setup: Setup, gate: str, *, kind: str, host: str
) -> dict[str, Verdict]:
    """Return how the criteria that compare arms stand on `host`, by what is measured until now.

    `kind` is the first word of their measures. Scoped-out ones, those without a limit for the
    plan's profile and those that do not cover the host are left out.
    """
    spec, plan = setup.gates[gate].value, setup.plan.value
    out = left_out(reader, setup)
    chosen = [
        each
        for each in spec.criteria
        if each.ratio and each.measure.partition(".")[0] == kind and plan.profile in each.limits
    ]
    result = judge_gate(
        spec.model_copy(update={"criteria": chosen}),
        profile=plan.profile,
        inventory=setup.inventory.value,
        expected=setup.expected,
        taken=reader.measurements(),
        attempts=[Attempt(criterion=each.id, outcome="ran") for each in chosen],
        scoped_out=out,
        planned=_planned(setup),
    )
    found = {}
    for finding in result.findings:
        here = [each.verdict for each in finding.hosts if each.host == host]
        if here:
            found[finding.criterion] = Verdict.worst(here)
    return found


def _planned(setup: Setup) -> Planned:
    return Planned(setup.plan.value.workloads.looks(), setup.criteria_digest())


def judge_stored(path: Path, *, gates: Path | None = None, attestations: bool = False) -> RunResult:
    """Return the verdict on a stored run, by its own frozen gates or by those in `gates`.

    With `attestations`, what people answered since (`kvgate attest`) counts too; what a run was
    sealed with never had them. Needs no hardware; the same run, gates and answers give the same
    result, byte for byte.
    """
    reader = RunReader(path)
    setup = frozen_setup(reader, gates)
    taken, attempts = attested.taken(reader, setup) if attestations else ((), ())
    return judge_run(
        [setup.gates[str(gate)].value for gate in reader.manifest["gates"]],
        run=str(reader.manifest["run"]),
        profile=setup.plan.value.profile,
        inventory=setup.inventory.value,
        expected=setup.expected,
        taken=(*reader.measurements(), *taken),
        attempts=(*reader.attempts(), *attempts),
        scoped_out=left_out(reader, setup),
        forced=forced(reader),
        criteria_digest=setup.criteria_digest(),
        journal_digest=reader.journal_digest(),
        looks=setup.plan.value.workloads.looks(),
    )


def journal(run: RunWriter, result: GateResult) -> None:
    """Write a gate's verdict, disposition and findings in short to the journal."""
    run.event(
        "gate_judged",
        gate=result.gate,
        verdict=str(result.verdict),
        disposition=str(result.disposition) if result.disposition else "",
        because=result.because,
        findings={finding.criterion: str(finding.verdict) for finding in result.findings},
    )


def forced(reader: RunReader) -> dict[str, str]:
    """Return gate → the reason it was forced open with."""
    return {str(e.fields["gate"]): str(e.fields["reason"]) for e in reader.events("forced")}


def verdicts(reader: RunReader) -> Iterator[tuple[str, str, str]]:
    """Yield (gate, verdict, disposition) of every gate judged in the run so far."""
    for event in reader.events("gate_judged"):
        yield tuple(str(event.fields[key]) for key in ("gate", "verdict", "disposition"))  # type: ignore[misc]  # three keys
