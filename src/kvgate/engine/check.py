"""Finds what is wrong across files before any host is touched: plan, gates, suites, inventory."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator

from kvgate.engine import check_load
from kvgate.engine.suitefiles import SuiteTest, tests_in
from kvgate.engine.workspace import Setup, Workspace
from kvgate.errors import SpecError
from kvgate.spec.expect import coverage
from kvgate.spec.gate import Criterion, Gate
from kvgate.spec.load import nearest


def check(workspace: Workspace, setup: Setup) -> tuple[str, ...]:
    """Return every problem found, each with file, line and next step; none means: can be run."""
    problems: list[str] = []
    for part in (
        _gates_of_plan(setup),
        check_load.problems(setup),
        _scope(setup),
        _limits(setup),
        _suites(workspace, setup),
    ):
        problems += part
    return tuple(dict.fromkeys(problems))


def refuse_unsound(workspace: Workspace, setup: Setup) -> None:
    """Raise SpecError with every problem of `setup`, if it has any."""
    problems = check(workspace, setup)
    if problems:
        raise SpecError("\n".join(problems), hint="nothing was run; `kvgate check` tries again")


def _gates_of_plan(setup: Setup) -> Iterator[str]:
    """Yield planned gates that are unknown, double, or stand before what they open on."""
    plan, file = setup.plan.value, setup.plan.files[0]
    before: list[str] = []
    for index, planned in enumerate(plan.gates):
        where = ("gates", index, "gate")
        if planned.gate not in setup.gates:
            yield file.error(
                where, f"no gate file decides '{planned.gate}'{nearest(planned.gate, setup.gates)}"
            ).message
            continue
        if planned.gate in before:
            yield file.error(where, f"'{planned.gate}' stands twice").message
        for entry in setup.gates[planned.gate].value.entry:
            later = [each.gate for each in plan.gates[index:]]
            if entry in later:
                yield file.error(
                    where, f"'{planned.gate}' opens on {entry}, which comes later"
                ).message
        before.append(planned.gate)
    for gate in setup.gates.values():
        for index, entry in enumerate(gate.value.entry):
            if entry not in setup.gates:
                yield (
                    gate.files[0]
                    .error(("entry", index), f"'{entry}' is no gate{nearest(entry, setup.gates)}")
                    .message
                )


def _scope(setup: Setup) -> Iterator[str]:
    """Yield scoped-out criteria that do not exist."""
    known = {c.id for gate in setup.gates.values() for c in gate.value.criteria}
    for criterion in setup.plan.value.scoped_out():
        if criterion not in known:
            yield (
                f"{setup.plan.files[0].name}: scope_out: '{criterion}' is no criterion"
                f"{nearest(criterion, known)}"
            )


def _limits(setup: Setup) -> Iterator[str]:
    """Yield criteria that nothing could pass: no limit in the profile, or nothing declared."""
    plan = setup.plan.value
    if not any(plan.profile in c.limits for g in setup.gates.values() for c in g.value.criteria):
        return  # said once, of the profile
    expected = setup.expected
    for gate, index, criterion in _judged(setup):
        file = setup.gates[gate.gate].files[0]
        if plan.profile not in criterion.limits:
            yield file.error(
                ("criteria", index, "limits"),
                f"{criterion.id} has no limit for profile '{plan.profile}'; give one, or scope it "
                f"out in {setup.plan.files[0].name}",
            ).message
        elif not coverage(criterion, setup.inventory.value, expected):
            yield (
                f"{setup.inventory.files[0].name}: nothing is declared that {criterion.id} "
                f"({criterion.text}) could judge; declare it, or scope it out in "
                f"{setup.plan.files[0].name}"
            )


def _judged(setup: Setup) -> Iterator[tuple[Gate, int, Criterion]]:
    out = setup.plan.value.scoped_out()
    for planned in setup.plan.value.gates:
        if planned.gate in setup.gates:
            gate = setup.gates[planned.gate].value
            yield from ((gate, i, c) for i, c in enumerate(gate.criteria) if c.id not in out)


def _suites(workspace: Workspace, setup: Setup) -> Iterator[str]:
    """Yield criteria that no test settles, and tests that settle what is not there."""
    for planned in setup.plan.value.gates:
        if planned.gate not in setup.gates:
            continue
        try:
            tests = tests_in(workspace.root / planned.suite, name=planned.suite)
        except SpecError as err:
            yield err.message
            continue
        ids = {c.id for c in setup.gates[planned.gate].value.criteria}
        yield from _unsettled(setup, planned.gate, planned.suite, tests, ids)


def _unsettled(
    setup: Setup, gate: str, suite: str, tests: tuple[SuiteTest, ...], ids: set[str]
) -> Iterator[str]:
    settled = {criterion for test in tests for criterion in test.settles}
    for test in tests:
        for criterion in test.settles:
            if criterion not in ids:
                yield (
                    f"{test.file}:{test.line}: settles '{criterion}', which {gate} has not"
                    f"{nearest(criterion, ids)}"
                )
    out = setup.plan.value.scoped_out()
    by_people = {c.id for c in setup.gates[gate].value.criteria if c.method == "manual"}
    for criterion in sorted(ids - settled - by_people - set(out)):
        yield f"{setup.gates[gate].files[0].name}: no test in {suite} settles {criterion}"


def version() -> str:
    """Return kvgate's installed version."""
    return importlib.metadata.version("kvgate")
