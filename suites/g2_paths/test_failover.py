"""G2: paths and the array fail, one thing at a time, while fio writes and verifies."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable

from kvgate.engine import failover
from kvgate.engine.failover import Under
from kvgate.engine.failover_plan import Planned, planned
from kvgate.faults import standing
from kvgate.faults.base import Injection
from kvgate.model.record import ALL_HOSTS
from kvgate.spec.faults import FaultTemplate
from kvgate.suite import Bench, Block, NotRunError, settles
from kvgate.telemetry.paths import PathWatch
from kvgate.witness import Answer
from kvgate.workloads import acknowledged
from kvgate.workloads import failover as load
from kvgate.workloads.fio import Place

QUIET = "none"
"""What the watch without a fault is called beside the faults' names."""

WRITTEN = ("power", "beyond")
"""Losses under which writes are acknowledged one by one, and all are looked for afterwards."""


@settles(
    "G2.170", "G2.171", "G2.172", "G2.173", "G2.174", "G2.175", "G2.176", "G2.177", "G2.178",
    "G2.179", "G2.180", "G2.181", "G2.182", "G2.183", "G2.184", "G2.185", "G2.186", "G2.187",
)  # fmt: skip
def test_faults_under_verified_load(bench: Bench) -> None:
    """Watch without a fault, then do each fault of the plan under load, and prove both its ends."""
    plan = _plan(bench)
    left = [
        *bench.blocks("failover", fault=[QUIET]),
        *bench.blocks("failover", fault=[each.fault for each in plan.faults]),
    ]
    if not left:
        return
    with contextlib.ExitStack() as held:
        held.enter_context(bench.asking_for("failover", host=plan.host.name))
        under = _under(bench, plan, held)
        for block in left:
            _measure(bench, plan, under, block)


def _plan(bench: Bench) -> Planned:
    plan = planned(bench.setup)
    if plan is None:
        raise NotRunError(
            ("the plan sets no workloads.failover",), hint="see docs/failover.md for one"
        )
    return plan


def _under(bench: Bench, plan: Planned, held: contextlib.ExitStack) -> Under:
    """Return the load: all of its target is written with checksums now."""
    witness, workload = bench.witness(plan.host), plan.workload
    around = functools.partial(bench.child, "fio", host=plan.host.name)
    told = (around, functools.partial(bench.progress, host=plan.host.name, awaits="fio"), None)
    with bench.step("Write the load's target with checksums", host=plan.host.name, awaits="fio"):
        place = held.enter_context(
            load.prepare(
                witness,
                workload,
                plan.disk,
                bench.consent(plan.host),
                seed=bench.seed % 2**31,
                told=told,
            )
        )
    return Under(
        witness=witness,
        workload=workload,
        place=place,
        watching=functools.partial(
            PathWatch,
            witness,
            workload.nqn,
            workload.namespace,
            every_s=workload.sample_every.to("s"),
        ),
        told=told,
        folder=bench.run.path.parent / standing.FOLDER,
        run=bench.run.path.name,
        journal=_journal(bench),
    )


def _journal(bench: Bench) -> Callable[[str, Injection, float], None]:
    def note(kind: str, injection: Injection, uptime_s: float) -> None:
        bench.run.event(
            kind, fault=injection.fault, host=injection.host, uptime_s=round(uptime_s, 3)
        )
        bench.progress(f"{injection.fault}: {kind.removeprefix('fault_')}", host=injection.host)

    return note


def _measure(bench: Bench, plan: Planned, under: Under, block: Block) -> None:
    """Do what `block` is for, and record it for all hosts: one initiator stands for them."""
    name = block["fault"]
    if name == QUIET:
        labels = {"kind": QUIET, "loss": "quiet"}
        work = functools.partial(failover.quiet, under)
    else:
        template = next(each for each in plan.faults if each.fault == name)
        labels = {"kind": template.kind, "loss": template.loss}
        work = functools.partial(_suffer, bench, under, template)
    with block, bench.step(f"Fault {name} under load", host=plan.host.name, awaits="its repair"):
        answer = work()
        for reading in answer.readings:
            bench.compute(
                reading,
                inputs=f"paths and load of {plan.host.name}, fault {name}",
                phase="fault",
                host=ALL_HOSTS,
                evidence=answer.evidence,
                labels={"fault": name, "on": plan.host.name, **labels},
            )


def _suffer(bench: Bench, under: Under, template: FaultTemplate) -> Answer:
    on = bench.witness(bench.inventory.hosts[template.on])
    if template.loss not in WRITTEN:
        return failover.under_fio(under, template, on)
    with acknowledged.writer(
        under.witness,
        look=under.place.look,
        path=functools.partial(_target, under.place),
        block_bytes=int(under.workload.block.base),
        size_bytes=int(under.workload.size.base),
        seed=bench.seed,
    ) as writer:
        answer = failover.under_writer(under, template, on, writer)
    return _laid_out_again(under, answer)


def _target(place: Place, folder: str) -> str:
    return f"{folder}/acknowledged" if place.look is None else place.data.path


def _laid_out_again(under: Under, answer: Answer) -> Answer:
    """Write checksums over what the writer left, so that the next fault's load can verify."""
    if under.place.look is None:
        return answer
    refs = load.lay_out(under.witness, under.workload, under.place, under.told)
    return dataclasses.replace(answer, evidence=(*answer.evidence, *refs))
