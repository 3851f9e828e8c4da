"""Finds what is wrong with a plan's load before any host is touched: names, times, sizes, fit."""

from __future__ import annotations

from collections.abc import Iterator

from kvgate.engine import failover_plan
from kvgate.engine.estimate import cost_of
from kvgate.engine.workspace import Setup
from kvgate.errors import KvgateError
from kvgate.faults.base import all_faults
from kvgate.model.quantity import Quantity
from kvgate.spec.load import nearest
from kvgate.spec.workload import SoakWorkload
from kvgate.spec.yamlfile import Where
from kvgate.workloads import fio


def problems(setup: Setup) -> Iterator[str]:
    """Yield every problem of the plan's load, with file, line and next step."""
    yield from _fit(setup)
    load = setup.plan.value.workloads
    if load.fio:
        for index, job in enumerate(load.fio.jobs):
            yield from _job(setup, ("workloads", "fio", "jobs", index), job)
    if load.soak:
        yield from _job(setup, ("workloads", "soak", "fio_job"), load.soak.fio_job)
        yield from _soak(setup, load.soak)
    if load.failover:
        for where, what in failover_plan.problems(setup, load.failover):
            yield _said(setup, ("workloads", "failover", *where), what)
    yield from _time(setup)


def _said(setup: Setup, where: Where, what: str) -> str:
    """Return the error for a key of the plan, in the file (the plan or its base) that has it."""
    files = setup.plan.files
    file = next((each for each in files if where in each.lines), files[0])
    return file.error(where, what).message


def _fit(setup: Setup) -> Iterator[str]:
    """Yield a plan that was drafted for another inventory, or a profile that no limit knows."""
    plan, inventory = setup.plan.value, setup.inventory.value
    if plan.drafted_for and plan.drafted_for != inventory.inventory:
        yield _said(
            setup,
            ("drafted_for",),
            f"this plan was drafted for inventory '{plan.drafted_for}', not for "
            f"'{inventory.inventory}': what it scopes out holds there; name another with --plan",
        )
    known = {
        name
        for gate in setup.gates.values()
        for criterion in gate.value.criteria
        for name in criterion.limits
    }
    if plan.profile not in known:
        yield _said(
            setup,
            ("profile",),
            f"no criterion has a limit for profile '{plan.profile}'{nearest(plan.profile, known)}",
        )


def _job(setup: Setup, where: Where, job: str) -> Iterator[str]:
    if job not in fio.names():
        yield _said(setup, where, f"'{job}' is no fio job{nearest(job, fio.names())}")


def _soak(setup: Setup, soak: SoakWorkload) -> Iterator[str]:
    """Yield faults that are unknown or come too late, windows too long, a soak too short."""
    at: Where = ("workloads", "soak")
    if soak.window > soak.duration:
        yield _said(
            setup, (*at, "window"), f"{soak.window} is longer than the soak, {soak.duration}"
        )
    for index, fault in enumerate(soak.faults):
        where = (*at, "faults", index)
        if fault.fault not in all_faults():
            known = nearest(fault.fault, all_faults())
            yield _said(setup, (*where, "fault"), f"'{fault.fault}' is no fault{known}")
        if fault.at.base + fault.back_within.base > soak.duration.base:
            yield _said(
                setup,
                (*where, "at"),
                f"at {fault.at} and back within {fault.back_within} is beyond the soak's end, "
                f"{soak.duration}",
            )
    yield from _too_short(setup, soak)


def _too_short(setup: Setup, soak: SoakWorkload) -> Iterator[str]:
    """Yield criteria on the soak's duration that a soak of this duration could never meet."""
    plan = setup.plan.value
    for gate in setup.gates.values():
        for criterion in gate.value.criteria:
            limit = criterion.limits.get(plan.profile)
            least = limit.at_least if limit and criterion.measure == "soak.duration" else None
            if least and least > soak.duration and criterion.id not in plan.scoped_out():
                yield _said(
                    setup,
                    ("workloads", "soak", "duration"),
                    f"{soak.duration} can never meet {criterion.id}, at least {least}",
                )


def _time(setup: Setup) -> Iterator[str]:
    """Yield gates that take longer than the plan gives them, and loads that can't be estimated."""
    plan = setup.plan.value
    for index, entry in enumerate(plan.gates):
        try:
            cost = cost_of(plan, entry.gate, setup.inventory.value)
        except KvgateError as err:
            yield _said(setup, ("workloads",), err.message)
            continue
        if Quantity.of(round(cost.longest), "s") > entry.give_up_after:
            yield _said(
                setup,
                ("gates", index, "give_up_after"),
                f"{entry.gate} takes {cost.time}, and is given up after {entry.give_up_after}",
            )
