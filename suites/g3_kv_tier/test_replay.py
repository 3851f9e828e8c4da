"""G3 without a GPU: a model's KV stored and restored on each arm, every chunk checked, cold proven.

A block sends the replay to the host, which stores all sessions anew, restores each at every
concurrency, serially and in parallel, and removes them. Rounds hold each arm once, in random
order. Dedup and parallel reads are told apart by rounds that hold all four of their combinations.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Reading
from kvgate.probes import devices
from kvgate.spec.inventory import Host
from kvgate.spec.ratio import AGAIN
from kvgate.spec.replay import ReplayTier, ReplayWorkload
from kvgate.suite import Bench, Block, NotRunError, evidence_of, one_by_one, settles
from kvgate.witness import Answer, Witness
from kvgate.workloads import fio_arms, replay, replay_result, replay_rounds
from kvgate.workloads.replay_plan import spec_of

PHASE = "steady_state"


@settles("G3.100", "G3.101", "G3.102", "G3.103", "G3.104", "G3.105", "G3.106", "G3.107")
def test_sessions_replayed_on_each_arm(bench: Bench) -> None:
    """Store and restore every session on each arm, a block a round, up to the deciding look."""
    _workload(bench)
    bench.plan_looks("replay")
    with bench.telemetry():
        _on_each(bench, _rounds)


@settles("G3.110")
def test_gains_of_dedup_and_of_parallel_reads(bench: Bench) -> None:
    """Measure all four combinations in each round, and what parallel reads gain on each data."""
    load = _workload(bench)
    bench.require("" if load.dedup_rounds else "the plan sets no workloads.replay.dedup_rounds")
    bench.plan_looks("dedup")
    _on_each(bench, _dedup_rounds)


@settles("G3.111")
def test_planted_faults_are_found(bench: Bench) -> None:
    """Plant faults in what was stored; each must be found and named for what it is."""
    bench.require("" if _workload(bench).plant else "the plan sets no workloads.replay.plant")
    _on_each(bench, _planted)


@settles("G3.112", "G3.113", "G3.114")
def test_tier_that_is_full(bench: Bench) -> None:
    """Use the tier at each fill while it evicts, and let it come to the end of its space."""
    bench.require("" if _workload(bench).tier else "the plan sets no workloads.replay.tier")
    _on_each(bench, _filled)


def _workload(bench: Bench) -> ReplayWorkload:
    load = bench.plan.workloads.replay
    bench.require("" if load else "the plan sets no workloads.replay")
    return cast("ReplayWorkload", load)  # bench.require has seen that it is there


def _on_each(bench: Bench, act: Callable[[Bench, Host], None]) -> None:
    one_by_one(bench.hosts("serving"), functools.partial(act, bench))


def _witness(bench: Bench, host: Host, run: str) -> Witness:
    """Return who asks the host in the folder of an arm; raises NotRunError where it has none."""
    place = fio_arms.place_of(host, run)
    if place.scratch is None:
        raise NotRunError((f"{host.name}: arm '{run}' is a disk alone; replay takes a folder",))
    return fio_arms.on(bench.witness(host), place.scratch)


def _replayed(
    bench: Bench,
    host: Host,
    run: str,
    spec: replay.Spec,
    what: str,
    on_stored: Callable[[], None] = lambda: None,
) -> replay.Told:
    """Replay once, timed as a round of its own name; raises where something was lost."""

    def act() -> replay.Told:
        (told,) = replay.run([_witness(bench, host, run)], spec, on_stored=on_stored)
        return told

    with bench.child(f"replay: {what}", host=host.name):
        told = bench.timings.timed("replay", act, host=host.name, what=what)
    if told.found.problems:
        raise NotRunError(told.found.problems)
    return told


# arms by rounds


def _rounds(bench: Bench, host: Host) -> None:
    load = _workload(bench)
    for number in range(1, load.rounds + 1):
        for block in _round(bench, host, number):
            with block:
                _stored_and_restored(bench, host, block)
        if bench.look("replay", after=number, host=host):
            break


def _stored_and_restored(bench: Bench, host: Host, block: Block) -> None:
    """Replay on one arm; arrays are asked before, and once all is stored, what they hold."""
    arm, number = block["arm"], int(block["round"])
    before, after = _held(bench), dict[str, Answer]()
    spec = spec_of(_workload(bench), _seed(bench, host, number))
    told = _replayed(bench, host, arm, spec, arm, lambda: after.update(_held(bench)))
    _record(bench, host, block, told)
    for name, first in before.items():
        array = bench.inventory.hosts[name]
        grown = tuple(_grown(first, after[name]) if name in after else ())
        answer = Answer(grown, (*first.evidence, *after[name].evidence) if grown else ())
        bench.record(answer, host=array, phase=PHASE, arm=arm, round=number)


_HELD = frozenset({"array.capacity.physical_used", "array.capacity.logical_used"})


def _held(bench: Bench) -> dict[str, Answer]:
    """Return what each array says it holds; simulated ones store nothing and are not asked."""
    arrays = [each for each in bench.hosts("array") if each.adapter and not each.simulated]
    return {each.name: devices.ask_topic(bench.witness(each), _HELD) for each in arrays}


def _grown(before: Answer, after: Answer) -> Iterator[Reading]:
    """Yield by how much an array's own figures have grown, ``replay.array_physical_used``, …."""
    first = {each.name: each for each in before.readings}
    for each in after.readings:
        name = f"replay.array_{each.name.rpartition('.')[2]}"
        was = first[each.name].value if each.name in first else None
        if isinstance(was, Quantity) and isinstance(each.value, Quantity):
            grown = Quantity.of(int(each.value.base - was.base), "B")
            yield Reading(name=name, value=grown)
        else:
            yield Reading(name=name, value=None, problem=each.problem or "not told before")


def _round(bench: Bench, host: Host, number: int) -> Iterator[Block]:
    runs = _workload(bench).runs
    yield from bench.blocks(
        f"replay-round-{number}", shuffled=True, host=[host.name], round=[number], arm=runs
    )


def _seed(bench: Bench, host: Host, number: int) -> int:
    """Return a round's seed: its data is its own, no other host's, and the same on both arms."""
    names = [each.name for each in bench.hosts("serving")]
    return bench.seed % 2**32 * 1009 + number + names.index(host.name) * 2**64


def _record(bench: Bench, host: Host, block: Block, told: replay.Told) -> None:
    """Record every level of a block, and again by how it reads, to compare serial and parallel."""
    arm, number = block["arm"], int(block["round"])
    for level in told.found.of_phase("store"):
        answer = Answer(tuple(replay_result.stored_readings(level)), told.evidence)
        bench.record(answer, host=host, phase=PHASE, arm=arm, round=number)
    for level in told.found.of_phase("restore"):
        reads = _reads(level)
        at = level.line["concurrency"]
        readings = tuple(replay_result.readings(level))
        answer = Answer(readings, told.evidence)
        bench.record(
            answer, host=host, phase=PHASE, arm=arm, round=number, concurrency=at, reads=reads
        )
        if AGAIN not in arm:
            by_reads = tuple(_renamed(each) for each in readings if each.name in _BY_READS)
            answer = Answer(by_reads, told.evidence)
            bench.record(
                answer, host=host, phase=PHASE, arm=reads, round=number, concurrency=at, on=arm
            )


_BY_READS = {"replay.restore_bw": "replay.reads_bw", "replay.restore_time": "replay.reads_time"}


def _renamed(reading: Reading) -> Reading:
    return dataclasses.replace(reading, name=_BY_READS[reading.name])


def _reads(level: replay_result.Level) -> str:
    return "serial" if int(level.line["readers"]) == 1 else "parallel"


# dedup apart from tiering


def _dedup_rounds(bench: Bench, host: Host) -> None:
    load = _workload(bench)
    for number in range(1, (load.dedup_rounds or 0) + 1):
        for data in _kinds(bench, number):
            for block in bench.blocks(
                f"dedup-round-{number}", host=[host.name], round=[number], data=[data]
            ):
                with block:
                    _cell(bench, host, block)
        for data in ("dedup", "unique"):
            _gain(bench, host, number, data)
        bench.look("dedup", after=number, host=host)


def _kinds(bench: Bench, number: int) -> list[str]:
    order = replay_rounds.order(bench.seed, number)
    return ["dedup" if dedup else "unique" for dedup in order]


def _cell(bench: Bench, host: Host, block: Block) -> None:
    """Replay one kind of data, both ways of reading in random order."""
    load, number = _workload(bench), int(block["round"])
    base = spec_of(load, _seed(bench, host, number))
    spec = replay_rounds.kinds(base, number, dedup=block["data"] == "dedup")
    told = _replayed(bench, host, load.last_arm, spec, f"{block['data']} data")
    for level in told.found.of_phase("restore"):
        named = [r for r in replay_result.readings(level) if r.name == "replay.restore_bw"]
        readings = tuple(dataclasses.replace(each, name="dedup.restore_bw") for each in named)
        bench.record(
            Answer(readings, told.evidence),
            host=host,
            phase=PHASE,
            data=block["data"],
            reads=_reads(level),
            round=number,
        )


def _gain(bench: Bench, host: Host, number: int, data: str) -> None:
    """Compute what parallel reads gained in a round on one kind of data."""
    taken = [
        each
        for each in bench.measurements("dedup.restore_bw", data=data, round=number)
        if each.host == host.name
    ]
    rates = {each.labels["reads"]: each for each in taken}
    bench.compute(
        _gained(rates),
        inputs=f"dedup.restore_bw of round {number}, {data} data: parallel over serial",
        phase=PHASE,
        host=host.name,
        evidence=evidence_of(taken),
        labels={"arm": data, "round": number},
    )


def _gained(rates: dict[str, Measurement]) -> Reading:
    name = "dedup.parallel_gain"
    numbers = [
        float(found.value.base) if found and isinstance(found.value, Quantity) else math.nan
        for found in (rates.get("parallel"), rates.get("serial"))
    ]
    if not all(number > 0 for number in numbers):
        why = "; ".join(each.problem for each in rates.values() if each.problem)
        return Reading(name=name, value=None, problem=why or "not both ways were measured")
    return Reading(name=name, value=Quantity.of(f"{numbers[0] / numbers[1]:.6g}", "x"))


# the checks and the tier


def _planted(bench: Bench, host: Host) -> None:
    load = _workload(bench)
    for block in bench.blocks("replay-plants", host=[host.name]):
        with block:
            spec = dataclasses.replace(spec_of(load, _seed(bench, host, 0)), plant=True)
            spec = dataclasses.replace(spec, sessions=2, levels=spec.levels[-1:])
            told = _replayed(bench, host, load.last_arm, spec, "planted faults")
            answer = Answer(replay_result.missed_plants(told.found), told.evidence)
            bench.record(answer, host=host, phase=PHASE)


def _filled(bench: Bench, host: Host) -> None:
    load = _workload(bench)
    tier = cast("ReplayTier", load.tier)  # the test has seen that it is there
    for block in bench.blocks("replay-tier", host=[host.name]):
        with block:
            spec = spec_of(load, _seed(bench, host, 0))
            spec = dataclasses.replace(
                spec,
                levels=spec.levels[-1:],
                capacity=int(tier.capacity.base),
                fill=tuple(sorted(tier.percent)),
                full=tier.to_the_end,
            )
            told = _replayed(bench, host, load.last_arm, spec, "full tier")
            answer = Answer(tuple(_of_tier(told.found)), told.evidence)
            bench.record(answer, host=host, phase=PHASE)


def _of_tier(found: replay_result.Replayed) -> Iterator[Reading]:
    """Yield what the tier came to: wrong chunks, what is left of its rate, if it healed."""
    yield Reading(name="tier.damaged", value=Quantity.of(found.damaged, ""))
    rates = [level.rate("read") for level in found.of_phase("filled")]
    yield _kept_rate(rates)
    if found.full is None or not found.full["reached"]:
        why = "the file system did not come to its end within the capacity"
        yield Reading(name="tier.healed", value=None, problem=why)
    else:
        yield Reading(name="tier.healed", value=bool(found.full["recovered"]))


def _kept_rate(rates: Sequence[float | None]) -> Reading:
    name = "tier.rate_kept"
    first, last = (rates[0], rates[-1]) if len(rates) > 1 else (None, None)
    if not first or not last:
        return Reading(name=name, value=None, problem="restores at fewer than two fills")
    return Reading(name=name, value=Quantity.of(f"{100 * last / first:.4g}", "%"))
