"""G2: the same fio jobs on local NVMe and on the device under test, in random order by round."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import cast

from kvgate.load.workload import in_random_order
from kvgate.model.record import Reading
from kvgate.spec.inventory import Host
from kvgate.spec.ratio import AGAIN
from kvgate.spec.workload import FioArms
from kvgate.suite import Bench, Block, one_by_one, settles
from kvgate.witness import Answer
from kvgate.workloads import ceiling, fio, fio_arms, fio_device, shapes


@settles("G2.30", "G2.31", "G2.32", "G2.33", "G2.34")
def test_jobs_on_each_arm(bench: Bench) -> None:
    """Prove which device each arm lies on, then run every job on every arm, a block a round."""
    _workload(bench)
    bench.plan_looks("arms")
    one_by_one(bench.hosts("serving"), functools.partial(_compare, bench))


def _workload(bench: Bench) -> FioArms:
    workload = bench.plan.workloads.fio_arms
    bench.require("" if workload else "the plan sets no workloads.fio_arms")
    return cast("FioArms", workload)  # bench.require has seen that it is there


def _compare(bench: Bench, host: Host) -> None:
    """Measure what is not finished yet on one host, round by round, up to the deciding look."""
    workload = _workload(bench)
    if why := _places(bench, host):
        _refused(bench, host, why)
        return
    with contextlib.ExitStack() as held:
        places: dict[str, fio.Place] = {}
        for number in range(1, workload.rounds + 1):
            for block in _round(bench, host, number):
                if not places:
                    places = _prepared(bench, host, held)
                with block:
                    _measure(bench, host, block, places[block["arm"].removesuffix(AGAIN)])
            if bench.look("arms", after=number, host=host):
                break


def _round(bench: Bench, host: Host, number: int) -> Iterator[Block]:
    """Yield one round's blocks: jobs in random order, and the arms of each likewise."""
    workload = _workload(bench)
    for job in in_random_order(bench.seed + number, workload.jobs):
        yield from bench.blocks(
            f"arms-round-{number}-{job}",
            shuffled=True,
            host=[host.name],
            round=[number],
            arm=workload.runs,
            job=[job],
        )


def _places(bench: Bench, host: Host) -> str:
    """Record what each arm lies on and what its path carries; return why they are not two."""
    workload, witness = _workload(bench), bench.witness(host)
    found: dict[str, fio_arms.Lies] = {}
    refs: list[str] = []
    with bench.asking_for("arms-places", host=host.name):
        for arm in map(str, workload.arms):
            found[arm], evidence = fio_arms.ask(witness, fio_arms.place_of(host, arm))
            refs += evidence
    why = fio_arms.why_not_two(found) if len(found) > 1 else ""
    for block in bench.blocks("arms-places", host=[host.name]):
        with block:
            for name, each in found.items():
                reading = fio_arms.place_reading(each)
                answer = Answer((reading,), tuple(refs))
                bench.record(answer, host=host, phase="steady_state", arm=name)
                _ceiling(bench, host, name)
            if len(found) > 1:
                apart = Reading(name=fio_arms.APART, value=None if why else True, problem=why)
                bench.record(Answer((apart,), tuple(refs)), host=host, phase="steady_state")
    return why


def _ceiling(bench: Bench, host: Host, arm: str) -> None:
    """Record what the way to an arm's folder can carry at most, and to its second run's."""
    folder = fio_arms.place_of(host, arm).scratch
    if folder is None:
        return
    answer = ceiling.ask(bench.witness(host), folder)
    for run in _workload(bench).runs:
        if run.removesuffix(AGAIN) == arm:
            bench.record(answer, host=host, phase="steady_state", arm=run)


def _refused(bench: Bench, host: Host, why: str) -> None:
    """Record, once, that nothing of the arms was measured: they can't be compared."""
    workload = _workload(bench)
    for block in bench.blocks("arms-unfit", host=[host.name], job=workload.jobs, arm=workload.runs):
        with block:
            readings = fio_arms.unfit(shapes.shape(block["job"]).directions, why)
            bench.record(
                Answer(readings, ()),
                host=host,
                phase="steady_state",
                round=1,
                job=block["job"],
                arm=block["arm"],
            )


def _prepared(bench: Bench, host: Host, held: contextlib.ExitStack) -> dict[str, fio.Place]:
    """Make each arm's folder, or clear its device, and lay out what restores read."""
    made = {}
    for arm in _workload(bench).arms:
        held.enter_context(bench.asking_for("arms-files", host=host.name, arm=arm))
        with bench.step(f"Lay out what fio reads on arm {arm}", host=host.name):
            made[str(arm)] = held.enter_context(_on_arm(bench, host, str(arm)))
    return made


def _on_arm(bench: Bench, host: Host, arm: str) -> AbstractContextManager[fio.Place]:
    """Return where fio works on an arm: a folder, or a device that is cleared for it."""
    workload, witness, place = _workload(bench), bench.witness(host), fio_arms.place_of(host, arm)
    prepare = (
        functools.partial(fio.prepare, fio_arms.on(witness, place.scratch), workload)
        if place.scratch is not None
        else functools.partial(
            fio_device.prepare,
            witness,
            fio_arms.disk_of(host, place),
            workload,
            bench.consent(host),
        )
    )
    return prepare(
        seed=bench.seed % 2**31,
        around=functools.partial(bench.child, "fio", host=host.name),
        on_progress=functools.partial(_say, bench, host),
    )


def _say(bench: Bench, host: Host, said: str) -> None:
    bench.progress(said, host=host.name, awaits="fio")


def _measure(bench: Bench, host: Host, block: Block, place: fio.Place) -> None:
    spot = fio_arms.place_of(host, block["arm"])
    run = (
        fio.run
        if spot.scratch is not None
        else functools.partial(fio_device.run, disk=fio_arms.disk_of(host, spot))
    )
    answer = run(
        bench.witness(host),
        block["job"],
        workload=_workload(bench),
        place=place,
        around=functools.partial(bench.child, f"fio: {block['arm']}", host=host.name),
        on_progress=functools.partial(_say, bench, host),
    )
    bench.record(
        fio_arms.of_arm(answer),
        host=host,
        phase="steady_state",
        job=block["job"],
        arm=block["arm"],
        round=block["round"],
    )
