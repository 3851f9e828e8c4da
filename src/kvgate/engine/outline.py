"""What a run would do, said before it does anything: gates, tests, hosts, criteria, cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kvgate.engine import destroy
from kvgate.engine.estimate import Cost, cost_of, long_of, tests_of
from kvgate.engine.suitefiles import SuiteTest, tests_in
from kvgate.engine.workspace import Setup, Workspace
from kvgate.judge.comparison import Planned
from kvgate.judge.sequential import levels
from kvgate.model.record import ALL_HOSTS
from kvgate.spec.expect import Coverage, Expectations, coverage
from kvgate.spec.gate import Criterion, Gate
from kvgate.spec.plan import PlannedGate
from kvgate.spec.ratio import LEAST_BLOCKS

_NAMED = 4  # hosts or items that a cell names before "and N more"


@dataclasses.dataclass(frozen=True, slots=True)
class GateOutline:
    """One gate of the plan: what it asks, its tests, and a row for each judged criterion."""

    title: str
    summary: str
    criteria: tuple[tuple[str, str, str, str, str], ...]  # id, text, limit, hosts, tests
    scoped_out: tuple[str, ...]
    long: tuple[str, ...] = ()  # what takes its time, and how long


@dataclasses.dataclass(frozen=True, slots=True)
class Outline:
    """The whole plan as text blocks."""

    title: str
    head: tuple[str, ...]
    gates: tuple[GateOutline, ...]
    foot: str


def outline(workspace: Workspace, setup: Setup, yes_destroy: Sequence[str] = ()) -> Outline:
    """Return what a run of `setup` would do; raises SpecError if a suite can't be read.

    `yes_destroy` are the serials of devices that people would let be written over.
    """
    plan, inventory = setup.plan.value, setup.inventory.value
    known = [entry for entry in plan.gates if entry.gate in setup.gates]
    costs = [cost_of(plan, setup.gates[entry.gate].value.gate, inventory) for entry in known]
    devices = destroy.told(inventory, yes_destroy)
    head = (
        f"profile {plan.profile}"
        + (": a rehearsal, never an acceptance" if plan.rehearsal else "")
        + (": on recorded hosts, never an acceptance" if inventory.recorded else "")
        + (": with simulated devices, never an acceptance" if inventory.simulated else ""),
        f"inventory {inventory.inventory}: "
        + _some(
            tuple(f"{host.name} ({', '.join(host.roles)})" for host in inventory.hosts.values())
        ),
        "destructive devices: "
        + (
            "; ".join(devices)
            if devices
            else "none declared; only files in the hosts' scratch folders"
        ),
    )
    expected = setup.expected
    gates = tuple(
        _gate(workspace, setup, entry, cost, expected)
        for entry, cost in zip(known, costs, strict=True)
    )
    total = sum(costs, start=Cost(0.0, 0))
    return Outline(f"{plan.title} ({setup.plan.files[0].name})", head, gates, f"in all: {total}")


def _gate(
    workspace: Workspace, setup: Setup, entry: PlannedGate, cost: Cost, expected: Expectations
) -> GateOutline:
    gate = setup.gates[entry.gate].value
    tests = tests_in(workspace.root / entry.suite, name=entry.suite)
    out = setup.plan.value.scoped_out()
    rows = tuple(
        (c.id, c.text, _limit(setup, c, covered, expected), _hosts(covered), _tests(tests, c))
        for c in gate.criteria
        if c.id not in out
        for covered in [coverage(c, setup.inventory.value, expected)]
    )
    opens = f"opens on {', '.join(gate.entry)}" if gate.entry else "opens at once"
    return GateOutline(
        title=f"{gate.gate}  {gate.title}: {gate.question}",
        summary=f"{opens}; {len(tests)} tests in {entry.suite}; {cost}; "
        f"given up after {entry.give_up_after}",
        criteria=rows,
        scoped_out=_left_out(gate, out),
        long=(
            *(
                f"{name}: {each if each.bytes_written else each.time}"
                for name, each in long_of(setup.plan.value, gate.gate, setup.inventory.value)
            ),
            *tests_of(setup.plan.value, gate.gate, setup.inventory.value),
        ),
    )


def _left_out(gate: Gate, out: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{c.id} {c.text}: {out[c.id]}" for c in gate.criteria if c.id in out)


def _limit(setup: Setup, criterion: Criterion, covered: Coverage, expected: Expectations) -> str:
    limit = criterion.limits.get(setup.plan.value.profile)
    if limit is None:
        return f"none for profile {setup.plan.value.profile}"
    if not limit.matches_inventory:
        return str(limit) + _compared(setup, criterion) + _margin(criterion)
    wanted = {
        str(requirement)
        for (host, measure, _), requirement in expected.items()
        if measure == criterion.measure and host in covered
    }
    return f"{limit}: {_some(tuple(sorted(wanted)))}"


def _compared(setup: Setup, criterion: Criterion) -> str:
    """Return between which arms and over how many blocks is compared, and when is looked."""
    ratio = criterion.ratio
    if ratio is None:
        return ""
    between = f" for {ratio.of} against {ratio.to}"
    looks = Planned(setup.plan.value.workloads.looks()).of(criterion.measure)
    if not looks or looks[0] < LEAST_BLOCKS:
        few = f"{looks[0] if looks else 0} blocks planned, an interval takes {LEAST_BLOCKS}"
        return f"{between} ({few}: will be inconclusive)"
    sure = ", ".join(
        f"after {look} ({100 * (1 - 2 * level):.5g} %)"
        for look, level in zip(looks, levels(looks), strict=True)
    )
    return f"{between}, {looks[-1]} blocks, looked at {sure}"


def _margin(criterion: Criterion) -> str:
    if criterion.margin is None or criterion.claim is None:
        return ""
    return f"; margin {criterion.margin} of the claim {criterion.claim.number}"


def _hosts(covered: Coverage) -> str:
    if not covered:
        return "nothing declared"
    names = (
        "all hosts together"
        if host == ALL_HOSTS
        else f"{host}: {_some(items)}"
        if items != ("",)
        else host
        for host, items in covered.items()
    )
    return _some(tuple(names))


def _tests(tests: tuple[SuiteTest, ...], criterion: Criterion) -> str:
    if criterion.method == "manual":
        return "people, who answer it with the sign-off"
    names = tuple(test.name.removeprefix("test_") for test in tests if criterion.id in test.settles)
    return ", ".join(names) or "no test"


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
