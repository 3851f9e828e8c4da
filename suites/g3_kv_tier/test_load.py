"""G3: the highest concurrency that keeps the plan's service level, on each arm.

A block stores every session through a tiered engine (where the arm has a tier), starts another one,
which holds nothing hot, and searches: each concurrency is a closed loop on sessions that are read
in turn. What the client sent is assessed as a trace is, and the engine's own counters prove hits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from typing import cast

from kvgate.load.client import Endpoint
from kvgate.load.finding import OnRow, Search, Stop, find
from kvgate.load.outcome import Loaded, outcome
from kvgate.load.parts import Done, Part, run_part
from kvgate.load.replayed import replayed
from kvgate.load.rows import as_evidence
from kvgate.load.sessions import Sessions
from kvgate.load.shape import Closed
from kvgate.load.slo import Found, Slo
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.serving.arms import ArmSetup, RunningEngine, start_engine
from kvgate.serving.config import MODELS
from kvgate.serving.proof import restorable, tier_readings
from kvgate.spec.inventory import Host
from kvgate.spec.service_level import LoadWorkload
from kvgate.spec.workload import ArmId, arm_of
from kvgate.suite import Bench, Block, settles
from kvgate.witness import Answer, Witness
from kvgate.workloads.base import scratch_folder

MODEL = "tiny"
REQUEST_TIMEOUT_S = 600
STORED_WITHIN_S = 600
STORE_AT_ONCE = 4


@settles("G3.121", "G3.122", "G3.123", "G3.124")
def test_highest_concurrency_that_keeps_the_service_level(bench: Bench) -> None:
    """Search it on each arm, once, in an order drawn from the run's seed."""
    load = _workload(bench)
    for host in bench.hosts("serving"):
        for block in bench.blocks("load", shuffled=True, host=[host.name], arm=load.arms):
            with block:
                _searched(bench, host, block)


def _workload(bench: Bench) -> LoadWorkload:
    """Return the plan's search; what is missing to run it goes into NotRunError."""
    load = bench.plan.workloads.load
    homeless = [host.name for host in bench.hosts("serving") if not host.scratch]
    bench.require(
        "" if load else "the plan sets no workloads.load",
        f"no scratch folder declared on {', '.join(homeless)}" if homeless else "",
        "this version can't say where the KV of arm 'device' lies"
        if load and "device" in load.arms
        else "",
    )
    return cast("LoadWorkload", load)  # bench.require has seen that it is there


def _searched(bench: Bench, host: Host, block: Block) -> None:
    load, witness, arm = _workload(bench), bench.witness(host), arm_of(block["arm"])
    stored: tuple[EvidenceRef, ...] = ()
    with _kv_folder(bench, witness) as folder:
        setup = _setup(bench, arm, folder)
        if arm != "recompute":
            stored = _store(bench, witness, setup)
        with (
            bench.child(f"engine: search on {arm}", host=host.name),
            start_engine(witness, setup) as engine,
        ):
            searching = _Searching(bench, witness, engine)
            before = engine.metrics(keep=True)
            found, done = find(
                _search(load), _sessions(bench), searching.run, judged=searching.judged
            )
            after = engine.metrics(keep=True)
    loaded = outcome(
        url=engine.base_url, model=engine.model, seed=bench.seed, done=done, found=found
    )
    rows = [row for each in done for row in each.result.rows]
    proof = tier_readings(
        before,
        after,
        cached_tokens=[row.cached_tokens for row in rows],
        expected_tokens=len(rows) * restorable(load.prompt_tokens, engine.model),
        tiered=arm != "recompute",
    )
    readings = [*_found(found), _as_asked(loaded), *map(_renamed, proof)]
    evidence = (*stored, *searching.evidence, *engine.evidence)
    bench.record(
        Answer(tuple(readings), evidence), host=host, phase="steady_state", arm=block["arm"]
    )


class _Searching:
    """Runs the search's loads; keeps what was sent and what came of it as evidence."""

    def __init__(self, bench: Bench, witness: Witness, engine: RunningEngine) -> None:
        self.evidence: list[EvidenceRef] = []
        self._bench, self._witness, self._engine = bench, witness, engine

    def run(self, part: Part, on_row: OnRow, stop: Stop) -> Done:
        """Run one load; on a recorded host, return what came of it then."""
        host = self._witness.host.name
        self._bench.progress(f"search: {part.name}", host=host, awaits=f"{_count(part)} answers")
        done = self._done(part, on_row, stop)
        self.evidence.append(self._witness.keep(as_evidence(done.result, host)))
        return done

    def _done(self, part: Part, on_row: OnRow, stop: Stop) -> Done:
        engine = self._engine
        if self._witness.host.transport == "recorded":
            concurrency = part.shape.concurrency if isinstance(part.shape, Closed) else 1
            result = replayed(self._witness, engine.base_url, concurrency=concurrency)
            source = part.source()
            while source.next() is not None:
                pass
            return Done(part=part, result=result, issued=source.issued)
        endpoint = Endpoint(
            base_url=engine.base_url, model=engine.model, timeout_s=REQUEST_TIMEOUT_S
        )
        return run_part(endpoint, part, on_row=on_row, stop=stop)

    def judged(self, done: Done) -> str:
        """Say why nothing follows from a load; in a rehearsal client and engine share the cores."""
        return "" if self._bench.plan.rehearsal else "; ".join(done.result.bottleneck)


def _count(part: Part) -> int:
    return (part.what.count or 0) if isinstance(part.what, Sessions) else 0


def _search(load: LoadWorkload) -> Search:
    level = load.level
    slo = Slo(
        ttft_s=level.ttft.to("s") if level.ttft else None,
        tpot_s=level.tpot.to("s") if level.tpot else None,
        percent=level.percent,
    )
    return Search(
        slo=slo,
        most=load.most,
        tolerance=float(load.tolerance.base),
        repeats=load.repeats,
    )


def _sessions(bench: Bench) -> Sessions:
    load = _workload(bench)
    return Sessions(
        seed=bench.seed,
        input_tokens=load.prompt_tokens,
        output_tokens=load.output_tokens,
        pool=load.sessions,
    )


def _store(bench: Bench, witness: Witness, setup: ArmSetup) -> tuple[EvidenceRef, ...]:
    """Have every session answered once by an engine of the arm, and end it; return its evidence."""
    load, host = _workload(bench), witness.host
    part = Part(
        name="store",
        what=dataclasses.replace(_sessions(bench), count=load.sessions),
        shape=Closed(concurrency=min(STORE_AT_ONCE, load.sessions)),
        counts=False,
    )
    with (
        bench.step("Store every session", host=host.name, awaits="prefill of all sessions"),
        bench.child("engine: store", host=host.name),
        start_engine(witness, setup) as engine,
    ):
        storing = _Searching(bench, witness, engine)
        storing.run(part, lambda _: None, lambda: False)
        engine.wait_stored(STORED_WITHIN_S)
    return (*storing.evidence, *engine.evidence)


@contextlib.contextmanager
def _kv_folder(bench: Bench, witness: Witness) -> Iterator[str]:
    """Hold a folder of this run for KV on the host, and remove it with all that is in it."""
    load, model = _workload(bench), MODELS[MODEL]
    each = -(-(load.prompt_tokens + load.output_tokens) // model.block) * model.block_bytes
    with (
        bench.asking_for("load-folder", host=witness.host.name),
        scratch_folder(witness, "load", needs_bytes=2 * load.sessions * each) as folder,
    ):
        yield folder.path


def _setup(bench: Bench, arm: ArmId, folder: str) -> ArmSetup:
    kv_path = None if arm == "recompute" else folder
    return ArmSetup(arm=arm, seed=bench.seed % 2**64, kv_path=kv_path, model=MODEL)


def _found(found: Found) -> Iterator[Reading]:
    """Yield the highest concurrency, and how each level was measured, as one line of JSON."""
    name = "load.concurrency"
    if found.problem:
        yield Reading(name=name, value=None, problem=found.problem)
    else:
        yield Reading(name=name, value=Quantity.of(found.kept, ""))
    yield Reading(
        name="load.levels",
        value=json.dumps([[each.concurrency, each.kept, each.good] for each in found.levels]),
    )


def _as_asked(loaded: Loaded) -> Reading:
    """Return whether what was issued is what was planned, by the assessment of it."""
    came = loaded.came
    if came is None or not came.compared_lengths:
        problem = "the engine told no prompt's tokens"
        return Reading(name="load.as_asked", value=None, problem=problem)
    return Reading(name="load.as_asked", value=not came.off, problem=came.off)


def _renamed(reading: Reading) -> Reading:
    return dataclasses.replace(reading, name=f"load.{reading.name.partition('.')[2]}")
