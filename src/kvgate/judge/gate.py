"""Decides a gate from its criteria, and a run from its gates: the gravest verdict wins."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

from kvgate.judge.comparison import Planned
from kvgate.judge.decide import decide
from kvgate.model.finding import IDS_NAMED, Attempt, Finding, GateResult, RunResult, ScopedOut
from kvgate.model.record import Measurement
from kvgate.model.verdict import Disposition, Verdict
from kvgate.spec.expect import Coverage, Expectations, coverage
from kvgate.spec.gate import Criterion, Gate, Limit
from kvgate.spec.inventory import Inventory

UNANSWERED = "people answer it, and nobody has answered yet"
"""Why a manual check is not run."""

DECLARED_NAMED = 3
"""Declared values that a limit's text names before it goes on with "and N more"."""


def judge_gate(
    gate: Gate,
    *,
    profile: str,
    inventory: Inventory,
    expected: Expectations,
    taken: Sequence[Measurement],
    attempts: Sequence[Attempt],
    scoped_out: Mapping[str, str],
    forced: str = "",
    planned: Planned | None = None,
) -> GateResult:
    """Return the verdict on `gate` and on each of its criteria that is not scoped out.

    `scoped_out` maps criterion ids (of any gate) to the plan's reason. `attempts` are in order of
    time: the last one of a criterion counts. `forced` is the reason given with --force-gate,
    `planned` what was fixed beforehand for criteria that compare arms.
    The disposition is the one proposed: accepted on a PASS that was not forced, else rejected.
    """
    last = {attempt.criterion: attempt for attempt in attempts}
    case = _Case(profile, inventory, expected, _by_name(taken), planned or Planned())
    findings = tuple(
        _finding(each, case, last.get(each.id))
        for each in gate.criteria
        if each.id not in scoped_out
    )
    left_out = _left_out(gate, scoped_out)
    verdict = Verdict.worst(finding.verdict for finding in findings)
    accepted = verdict is Verdict.PASS and not forced
    return GateResult(
        gate=gate.gate,
        verdict=verdict,
        because=because_of(verdict, findings, len(left_out)),
        findings=findings,
        scoped_out=left_out,
        disposition=Disposition.ACCEPTED if accepted else Disposition.REJECTED,
        forced=forced,
    )


def _left_out(gate: Gate, scoped_out: Mapping[str, str]) -> tuple[ScopedOut, ...]:
    return tuple(
        ScopedOut(criterion=each.id, reason=scoped_out[each.id])
        for each in gate.criteria
        if each.id in scoped_out
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Case:
    """What the criteria of a gate are judged on."""

    profile: str
    inventory: Inventory
    expected: Expectations
    named: Mapping[str, Sequence[Measurement]]  # measurements by what was measured
    planned: Planned


def _by_name(taken: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """Return measurements by what was measured, so that a criterion looks only at its own."""
    found: dict[str, list[Measurement]] = {}
    for each in taken:
        found.setdefault(each.name, []).append(each)
    return found


def judge_run(
    gates: Sequence[Gate],
    *,
    run: str,
    profile: str,
    inventory: Inventory,
    expected: Expectations,
    taken: Sequence[Measurement],
    attempts: Sequence[Attempt],
    scoped_out: Mapping[str, str],
    forced: Mapping[str, str],
    criteria_digest: str,
    journal_digest: str,
    looks: Mapping[str, tuple[int, ...]] | None = None,
) -> RunResult:
    """Return the verdict on every planned gate and on the run: the gravest of them.

    `gates` are the plan's, in its order, whether they were run or not: a planned gate that never
    ran is not_run. `forced` maps gates opened by force to the reason; `looks` are the plan's, at
    comparisons of arms, by the first word of what is measured.
    """
    judged = functools.partial(
        judge_gate,
        profile=profile,
        inventory=inventory,
        expected=expected,
        taken=taken,
        attempts=attempts,
        scoped_out=scoped_out,
        planned=Planned(dict(looks or {}), criteria_digest),
    )
    results = tuple(judged(gate, forced=forced.get(gate.gate, "")) for gate in gates)
    return RunResult(
        run=run,
        profile=profile,
        verdict=Verdict.worst(result.verdict for result in results),
        gates=results,
        criteria_digest=criteria_digest,
        journal_digest=journal_digest,
    )


def how_to_scope_out(criterion_id: str) -> str:
    """Return the lines of a plan that leave a criterion out, for a message."""
    return (
        "if this site can't or need not settle it, say so in the plan:\n"
        "scope_out:\n"
        f"  - criteria: [{criterion_id}]\n"
        "    reason: why, in a sentence that the signatories will read"
    )


def _finding(criterion: Criterion, case: _Case, attempt: Attempt | None) -> Finding:
    """Return the finding on one criterion, with the way to scope it out where it was not run."""
    limit = criterion.limits.get(case.profile)
    if limit is None:
        return Finding(
            criterion=criterion.id,
            verdict=Verdict.NOT_RUN,
            because=f"it has no limit for profile '{case.profile}', only for "
            f"{', '.join(sorted(criterion.limits))}",
            limit="",
            hint=_hint(criterion),
        )
    expected = case.expected
    covers = coverage(criterion, case.inventory, expected)
    finding = decide(
        criterion,
        limit,
        covers=covers,
        expected=expected,
        taken=case.named.get(criterion.measure, ()),
        attempt=attempt,
        planned=case.planned,
        ceilings=case.named.get(criterion.ceiling, ()) if criterion.ceiling else (),
    )
    if limit.matches_inventory:
        told = _with_declared(criterion.measure, limit, covers, expected)
        finding = dataclasses.replace(finding, limit=told)
    advice = "" if attempt is None or finding.verdict is Verdict.PASS else attempt.hint
    if finding.verdict is not Verdict.NOT_RUN:
        return dataclasses.replace(finding, hint=_lines(advice, finding.hint))
    if criterion.method == "manual" and covers:
        finding = dataclasses.replace(finding, because=UNANSWERED)
    return dataclasses.replace(finding, hint=_lines(advice, _hint(criterion)))


def _with_declared(measure: str, limit: Limit, covers: Coverage, expected: Expectations) -> str:
    """Return the limit's text with what is declared, e.g. ``matches inventory: 2``."""
    wanted = sorted(
        {
            str(expected[host, measure, item])
            for host, items in covers.items()
            for item in items
            if (host, measure, item) in expected
        }
    )
    more = len(wanted) - DECLARED_NAMED
    named = ", ".join(wanted[:DECLARED_NAMED]) + (f" and {more} more" if more > 0 else "")
    tolerance = f" within {limit.tolerance}" if limit.tolerance else ""
    return f"matches inventory: {named}{tolerance}" if named else str(limit)


def _hint(criterion: Criterion) -> str:
    answer = "people answer it: kvgate attest RUN" if criterion.method == "manual" else ""
    return _lines(criterion.hint, answer, how_to_scope_out(criterion.id))


def _lines(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def because_of(verdict: Verdict, findings: Sequence[Finding], left_out: int) -> str:
    """Return a gate's reason: which criteria made it what it is, and how many were left out."""
    if not findings:
        return "every criterion is scoped out: nothing was judged" if left_out else "no criteria"
    tail = f"; {left_out} scoped out" if left_out else ""
    total = f"{len(findings)} criteri{'on' if len(findings) == 1 else 'a'}"
    if verdict is Verdict.PASS:
        close = [finding.criterion for finding in findings if finding.marginal]
        near = f"; close to the limit: {_ids(close)}" if close else ""
        return f"all of {total} hold{near}{tail}"
    groups = []
    for each, word in (
        (Verdict.FAIL, "failed"),
        (Verdict.INCONCLUSIVE, "inconclusive"),
        (Verdict.NOT_RUN, "not run"),
    ):
        ids = [finding.criterion for finding in findings if finding.verdict is each]
        if ids:
            groups.append(f"{word}: {_ids(ids)}")
    return f"of {total} {'; '.join(groups)}{tail}"


def _ids(ids: Sequence[str]) -> str:
    more = len(ids) - IDS_NAMED
    return ", ".join(ids[:IDS_NAMED]) + (f" and {more} more" if more > 0 else "")
