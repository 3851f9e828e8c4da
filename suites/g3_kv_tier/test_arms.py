"""G3 thin: one workload on each arm in interleaved blocks, hits and cold proven, answers compared.

Every session is stored once through a tiered engine, which is then stopped, so that nothing of
it is hot. A block starts an engine for one arm, has every session answered once, and stops it.
In a round, every arm runs once at each concurrency, in an order drawn from the run's seed and
recorded; arms are compared after the planned rounds, and no more is measured once all is decided.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import cast

from kvgate.load.client import Endpoint
from kvgate.load.figures import as_readings
from kvgate.load.loop import closed_loop
from kvgate.load.replayed import replayed
from kvgate.load.rows import LoadResult, Request, as_evidence
from kvgate.load.workload import in_random_order, sessions, shuffled
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Reading
from kvgate.serving.arms import ArmSetup, RunningEngine, start_engine
from kvgate.serving.config import MODELS
from kvgate.serving.proof import restorable, tier_readings
from kvgate.spec.inventory import Host
from kvgate.spec.workload import ArmId, KvWorkload, arm_of
from kvgate.suite import Bench, Block, evidence_of, settles
from kvgate.witness import Answer, Witness
from kvgate.workloads.base import scratch_folder

MODEL = "tiny"
REQUEST_TIMEOUT_S = 120
STORED_WITHIN_S = 60


@settles("G3.1", "G3.2", "G3.3", "G3.4", "G3.5", "G3.6", "G3.8", "G3.9")
@settles("G3.10", "G3.11", "G3.12", "G3.13", "G3.14", "G3.15", "G3.16", "G3.17", "G3.120")
def test_sessions_restored_by_each_arm(bench: Bench) -> None:
    """Store all sessions, stop that engine, then restore each once a block, arms interleaved."""
    _workload(bench)
    bench.plan_looks("g3")
    for host in bench.hosts("serving"):
        _restore_all(bench, host)


def _restore_all(bench: Bench, host: Host) -> None:
    """Measure what is not finished yet on one host, round by round, up to the deciding look."""
    kv = _workload(bench)
    with contextlib.ExitStack() as held:
        witness, folder = bench.witness(host), ""
        for number in range(1, kv.rounds + 1):
            for block in _round(bench, host, number):
                if not folder:
                    folder = held.enter_context(_kv_folder(bench, witness))
                    _store(bench, witness, folder)
                with block:
                    _restore(bench, witness, block, folder)
            if bench.look("g3", after=number, host=host):
                break


def _round(bench: Bench, host: Host, number: int) -> Iterator[Block]:
    """Yield one round's blocks: concurrencies in random order, and the arms of each likewise."""
    kv = _workload(bench)
    for concurrency in in_random_order(bench.seed + number, kv.concurrency):
        yield from bench.blocks(
            f"kv-round-{number}-at-{concurrency}",
            shuffled=True,
            host=[host.name],
            round=[number],
            arm=kv.runs,
            concurrency=[concurrency],
        )


@settles("G3.7")
def test_answers_compared_between_arms(bench: Bench) -> None:
    """Count the sessions whose tokens or logits were not the same in every block."""
    kv = _workload(bench)
    for host in bench.hosts("serving"):
        rounds = bench.decided_after("g3", host) or kv.rounds
        blocks = rounds * len(kv.runs) * len(kv.concurrency)
        taken = [m for m in bench.measurements("g3.output") if m.host == host.name]
        bench.compute(
            _outputs_differ(taken, kv.sessions, blocks),
            inputs=f"{len(taken)} answers, g3.output of {kv.sessions} sessions in {blocks} blocks",
            phase="steady_state",
            host=host.name,
            evidence=evidence_of(taken),
        )


def _workload(bench: Bench) -> KvWorkload:
    """Return the plan's KV workload; what is missing to run it goes into NotRunError."""
    kv = bench.plan.workloads.kv
    homeless = [host.name for host in bench.hosts("serving") if not host.scratch]
    bench.require(
        "" if kv else "the plan has no workloads.kv",
        f"no scratch folder declared on {', '.join(homeless)}" if homeless else "",
        "this version can't say where the KV of arm 'device' lies"
        if kv and "device" in kv.arms
        else "",
    )
    return cast("KvWorkload", kv)  # bench.require has seen that it is there


@contextlib.contextmanager
def _kv_folder(bench: Bench, witness: Witness) -> Iterator[str]:
    """Hold a folder of this run for KV on the host, and remove it with all that is in it."""
    kv, model = _workload(bench), MODELS[MODEL]
    each = -(-(kv.prompt_tokens + kv.output_tokens) // model.block) * model.block_bytes
    with (
        bench.asking_for("kv-folder", host=witness.host.name),
        scratch_folder(witness, "kv", needs_bytes=2 * kv.sessions * each) as folder,
    ):
        yield folder.path


def _sessions(bench: Bench) -> tuple[Request, ...]:
    kv = _workload(bench)
    return sessions(
        bench.seed, kv.sessions, prompt_tokens=kv.prompt_tokens, output_tokens=kv.output_tokens
    )


def _setup(bench: Bench, arm: ArmId, folder: str) -> ArmSetup:
    return ArmSetup(
        arm=arm,
        seed=bench.seed % 2**64,
        kv_path=None if arm == "recompute" else folder,
        model=MODEL,
    )


def _load(
    witness: Witness, engine: RunningEngine, requests: Sequence[Request], concurrency: int
) -> LoadResult:
    """Have `requests` answered; on a recorded host, return how they were answered then."""
    if witness.host.transport == "recorded":
        return replayed(witness, engine.base_url, concurrency=concurrency)
    endpoint = Endpoint(base_url=engine.base_url, model=engine.model, timeout_s=REQUEST_TIMEOUT_S)
    return closed_loop(endpoint, requests, concurrency=concurrency)


def _store(bench: Bench, witness: Witness, folder: str) -> None:
    """Have all sessions answered by a tiered engine; on a resume too, since files may be gone.

    A recorded host has none that could be.
    """
    kv, host = _workload(bench), witness.host
    concurrency = max(kv.concurrency)
    first = next(iter(bench.blocks("kv-store", host=[host.name])), None)
    if first is None and host.transport == "recorded":
        return
    with (
        bench.step("Store every session", host=host.name, awaits="prefill of all sessions"),
        first or contextlib.nullcontext(),
    ):
        with (
            bench.child("engine: store", host=host.name),
            start_engine(witness, _setup(bench, "local", folder)) as engine,
        ):
            result = _load(witness, engine, _sessions(bench), concurrency)
            engine.wait_stored(STORED_WITHIN_S)
            engine.metrics(keep=True)
        if first is not None:
            rows = witness.keep(as_evidence(result, host.name))
            answer = Answer(_figures(bench, result), (rows, *engine.evidence))
            bench.record(
                answer, host=host, phase="precondition", arm="local", concurrency=concurrency
            )


def _restore(bench: Bench, witness: Witness, block: Block, folder: str) -> None:
    """Start the block's engine, have every session answered once, stop it, record all."""
    kv, host = _workload(bench), witness.host
    number, concurrency = int(block["round"]), int(block["concurrency"])
    arm = block["arm"]
    setup = _setup(bench, arm_of(arm), folder)
    what = f"{arm}, concurrency {concurrency}, round {number} of {kv.rounds}"
    bench.progress(what, host=host.name, awaits=f"{kv.sessions} answers")
    requests = shuffled(bench.seed + number, _sessions(bench))
    with (
        bench.child(f"engine: {what}", host=host.name),
        start_engine(witness, setup) as engine,
    ):
        before = engine.metrics(keep=True)
        result = _load(witness, engine, requests, concurrency)
        after = engine.metrics(keep=True)
    proof = tier_readings(
        before,
        after,
        cached_tokens=[row.cached_tokens for row in result.rows],
        expected_tokens=kv.sessions * restorable(kv.prompt_tokens, engine.model),
        tiered=setup.arm != "recompute",
    )
    rows = witness.keep(as_evidence(result, host.name))
    readings = (*_figures(bench, result), *proof, *_outputs(result))
    bench.record(
        Answer(readings, (rows, *engine.evidence)),
        host=host,
        phase="steady_state",
        arm=arm,
        concurrency=concurrency,
        round=number,
    )


def _figures(bench: Bench, result: LoadResult) -> tuple[Reading, ...]:
    """Return a load's figures; in a rehearsal client and engine share the cores, and it counts."""
    return as_readings(result, voids=not bench.plan.rehearsal)


def _outputs(result: LoadResult) -> list[Reading]:
    """Return each session's digest of tokens and logits, or why there is none."""
    return [
        Reading(
            name="g3.output",
            item=row.session,
            value=row.output_digest,
            problem="" if row.output_digest else row.error or "the answer held no tokens",
        )
        for row in result.rows
    ]


def _outputs_differ(taken: Sequence[Measurement], sessions: int, blocks: int) -> Reading:
    """Return how many sessions were answered in more than one way."""
    name = "g3.outputs_differ"
    whole = [m for m in taken if isinstance(m.value, str) and not m.value.endswith("no-logits")]
    if len(whole) != sessions * blocks:
        problem = f"{len(whole)} whole answers with logits, of {sessions * blocks} expected"
        return Reading(name=name, value=None, problem=problem)
    ways: dict[str, set[object]] = {}
    for each in whole:
        ways.setdefault(each.item, set()).add(each.value)
    return Reading(name=name, value=Quantity.of(sum(len(each) > 1 for each in ways.values()), ""))
