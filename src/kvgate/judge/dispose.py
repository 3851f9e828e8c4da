"""From verdicts and what people agreed on to a disposition. A waiver never changes a verdict.

Accepted: every criterion passes, or only class C failed (listed). Accepted with conditions: every
failure is covered by a waiver that holds, or is class B and an open item with owner and date.
Anything else is rejected; so is what could not be decided, as nobody can accept what isn't known.
Basis: acceptance practice of FAT and SAT (IEC 62381), class A blocks, B has a date, C is cosmetic.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence

from kvgate.judge import waived
from kvgate.judge.waived import Granted, told_place
from kvgate.model.disposed import Condition, Disposed, Effect, GateDisposed, Standing
from kvgate.model.finding import Attempt, Finding, GateResult, HostFinding, RunResult
from kvgate.model.verdict import Disposition, Verdict
from kvgate.spec.gate import Criterion

_GRAVITY = list(Disposition)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a disposition is made from beside the findings.

    ``runs`` are the names of the run and those it retests; ``began`` is when the first of them
    did; ``at`` is the claimed time; ``serials`` are what each host is known by.
    """

    runs: tuple[str, ...]
    began: datetime.datetime
    at: datetime.datetime
    criteria: Mapping[str, Criterion]
    attempts: Mapping[str, Attempt]
    serials: Mapping[str, tuple[str, ...]]


def dispose(result: RunResult, granted: Iterable[Granted], case: Case) -> Disposed:
    """Return the disposition of every judged gate and of the run, with all that it rests on.

    The same findings, waivers and time give the same; the order of `granted` changes nothing.
    """
    findings = {each.criterion: each for gate in result.gates for each in gate.findings}
    judged = {gate.gate for gate in result.gates}
    effects = tuple(
        waived.effect(each, findings.get(each.waiver.criterion), _where(case, each))
        for each in sorted(granted, key=lambda each: each.waiver.waiver)
        if waived.concerns(each.waiver, judged, case.runs)
    )
    gates = tuple(_gate(gate, effects, case) for gate in result.gates)
    dispositions = [gate.disposition for gate in gates] or [Disposition.REJECTED]
    return Disposed(
        run=result.run,
        at=case.at,
        verdict=result.verdict,
        disposition=max(dispositions, key=_GRAVITY.index),
        gates=gates,
        effects=effects,
    )


def _where(case: Case, granted: Granted) -> waived.Where:
    criterion = case.criteria.get(granted.waiver.criterion)
    return waived.Where(
        severity=criterion.severity if criterion else "A",
        serials=case.serials,
        began=case.began,
        at=case.at,
    )


def _gate(gate: GateResult, effects: Sequence[Effect], case: Case) -> GateDisposed:
    conditions: list[Condition] = []
    blocking: list[Standing] = []
    remarks: list[Standing] = []
    for finding in gate.findings:
        if finding.verdict is Verdict.PASS:
            continue
        severity = case.criteria[finding.criterion].severity
        attempt = case.attempts.get(finding.criterion)
        own = [each for each in effects if each.criterion == finding.criterion and each.holds]
        if why := _undecided(finding, attempt) or _uncovered(finding, own, severity):
            blocking.append(_standing(finding, why))
        elif own:
            conditions += [_condition(finding, each) for each in own]
        else:
            remarks.append(_standing(finding, f"class C: {finding.because}"))
    disposition, because = _concluded(gate, conditions, blocking, remarks)
    return GateDisposed(
        gate=gate.gate,
        verdict=gate.verdict,
        disposition=disposition,
        because=because,
        conditions=tuple(conditions),
        blocking=tuple(blocking),
        remarks=tuple(remarks),
    )


def _undecided(finding: Finding, attempt: Attempt | None) -> str:
    """Return why a finding can't be accepted by anybody: it is not known; "" where it is."""
    if finding.verdict is not Verdict.FAIL:
        return finding.because
    if attempt is not None and attempt.outcome != "ran":
        return f"its test did not come to its end: {finding.because}"
    unknown = [h for h in finding.hosts if h.verdict not in (Verdict.PASS, Verdict.FAIL)]
    if unknown:
        return f"{_place(unknown[0])} is {unknown[0].verdict}: {unknown[0].because}"
    return ""


def _uncovered(finding: Finding, own: Sequence[Effect], severity: str) -> str:
    """Return why a failure blocks: where no waiver covers it; "" where nothing does."""
    if severity == "C" and not own:
        return ""
    covered = {place for each in own for place in each.places}
    open_ = [h for h in finding.hosts if h.verdict is Verdict.FAIL and _place(h) not in covered]
    if own and open_:
        return f"no waiver covers {_place(open_[0])}: {open_[0].because}"
    return "" if own else finding.because


def _place(host: HostFinding) -> str:
    return told_place(host.host, host.item)


def _standing(finding: Finding, because: str) -> Standing:
    return Standing(criterion=finding.criterion, verdict=finding.verdict, because=because)


def _condition(finding: Finding, effect: Effect) -> Condition:
    return Condition(
        criterion=finding.criterion,
        waiver=effect.waiver,
        kind=effect.kind,
        what=finding.because,
        owner=effect.owner,
        until=effect.until,
    )


def _concluded(
    gate: GateResult,
    conditions: Sequence[Condition],
    blocking: Sequence[Standing],
    remarks: Sequence[Standing],
) -> tuple[Disposition, str]:
    """Return a gate's disposition and the reason for it as one sentence."""
    if gate.forced:
        return Disposition.REJECTED, f"it was opened by force: {gate.forced}"
    if not gate.findings:
        return Disposition.REJECTED, gate.because
    if blocking:
        named = ", ".join(each.criterion for each in blocking[:8])
        more = f" and {len(blocking) - 8} more" if len(blocking) > 8 else ""
        return Disposition.REJECTED, f"blocked by {named}{more}"
    if conditions:
        told = ", ".join(f"{each.waiver} until {each.until}" for each in conditions)
        return Disposition.ACCEPTED_WITH_CONDITIONS, f"under {told}"
    listed = f"; class C, only listed: {', '.join(e.criterion for e in remarks)}" if remarks else ""
    return Disposition.ACCEPTED, f"nothing is open{listed}"
