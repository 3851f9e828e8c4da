"""G3 before any model: what the agreed trace reuses, what was claimed, what G2 let predict.

No host is asked: all of it is calculated, from the agreed trace, the supplier's claims and what
this run has measured already.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from kvgate.kv import agreed, assess, claims, models, predict_run
from kvgate.kv.trace import batches
from kvgate.model.quantity import Quantity
from kvgate.model.record import ALL_HOSTS, Evidence, EvidenceRef, Measurement, Reading
from kvgate.spec.assessment import AssessmentWorkload
from kvgate.spec.claims import load_claims
from kvgate.store.reader import RunReader
from kvgate.suite import Bench, evidence_of, settles

PHASE = "inspection"


@settles("G3.150", "G3.151", "G3.152", "G3.153", "G3.154")
def test_agreed_trace_assessed(bench: Bench) -> None:
    """Read the agreed trace, and tell what it shares, what is cold, and what the tier serves."""
    load = _workload(bench)
    began = datetime.datetime.now(datetime.UTC)
    found, digest = _assessed(bench, load)
    facts = {"sha256": digest, "shared": found.shared, "cold": found.cold}
    facts |= {"totals": dataclasses.asdict(found.totals)}
    facts |= {each.name: {"blocks": each.blocks, "tokens": each.tokens} for each in found.levels}
    facts |= {"windows": [dataclasses.asdict(each) for each in found.windows]}
    kept = _kept(bench, ("kvgate", "assess", load.trace or "generated"), facts, began)
    name = Path(load.trace).name if load.trace else "a trace made from the plan's seed"
    same = digest == load.sha256
    agreed_told = f"SHA-256 of {name}: {digest}"
    _record(bench, Reading(name="assess.trace_agreed", value=same), agreed_told, kept)
    totals = f"{found.totals.requests} requests, {found.totals.references} blocks of {name}"
    sized = f"{totals}; HBM, DRAM and tier as planned"
    _record(bench, _share("assess.shared_prefix", found.shared), totals, kept)
    _record(bench, _share("assess.cold_share", found.cold or 0.0), sized, kept)
    hits = found.curve.most[1]
    cold = hits - sum(each.tokens for each in found.levels[:2])
    served = found.levels[2].tokens / cold if cold else 1.0
    _record(bench, _share("assess.tier_serves", served), sized, kept)
    needed = found.bytes_of(found.windows[-1].restored[2]) or 0.0
    _headroom(bench, needed, f"p99 of {found.windows[-1].width_s} s windows, {totals}", kept)


@settles("G3.160")
def test_claims_checked(bench: Bench) -> None:
    """Hold the supplier's claims against physics and each other."""
    load = _workload(bench)
    bench.require("" if load.claims else "the plan names no claims (workloads.assessment.claims)")
    path = _place(bench, str(load.claims))
    began = datetime.datetime.now(datetime.UTC)
    findings = claims.check(load_claims(path), models.known(_place(bench, "inventory/models")))
    wrong = [each.claim.claim for each in findings if each.kind.wrong]
    told = f"{len(findings)} claims of {path.name}; can't stand: {', '.join(wrong) or 'none'}"
    facts = {each.line: [each.kind.value, *each.arithmetic] for each in findings}
    kept = _kept(bench, ("kvgate", "claims", path.name), facts, began)
    _record(bench, Reading(name="claims.wrong", value=Quantity.of(len(wrong), "")), told, kept)


@settles("G3.165")
def test_replay_predicted_from_what_g2_measured(bench: Bench) -> None:
    """Compare the replay's restored bytes a second with the bandwidth that G2 measured."""
    replay = bench.plan.workloads.replay
    bench.require("" if replay else "the plan sets no workloads.replay")
    level = str(max(replay.concurrency)) if replay else ""
    rates = {(each.host, each.arm): each.middle for each in _measured(bench)}
    taken = bench.measurements("replay.restore_bw", concurrency=level, reads="parallel")
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for each in taken:
        groups.setdefault((each.host, each.labels.get("arm", "")), []).append(each)
    both = [key for key in groups if key in rates]
    bench.require("" if both else "no arm was measured by both G2 (arms) and replay")
    for host, arm in both:
        values = [float(m.value.base) for m in groups[host, arm] if isinstance(m.value, Quantity)]
        if values:
            ratio = statistics.geometric_mean(values) / rates[host, arm]
            bench.compute(
                Reading(name="predict.restored", value=Quantity.of(ratio, "x")),
                inputs=f"replay.restore_bw over arms.read_bw of kv-restore, concurrency {level}",
                phase=PHASE,
                host=host,
                evidence=evidence_of(groups[host, arm]),
                labels={"arm": arm},
            )


def _workload(bench: Bench) -> AssessmentWorkload:
    load = bench.plan.workloads.assessment
    bench.require("" if load else "the plan sets no workloads.assessment")
    return cast("AssessmentWorkload", load)  # bench.require has seen that it is there


def _place(bench: Bench, name: str) -> Path:
    """Return a path of the workspace's folder, which holds runs/."""
    return bench.run.path.resolve().parent.parent / name


def _assessed(bench: Bench, load: AssessmentWorkload) -> tuple[assess.Assessment, str]:
    """Return the assessment of the agreed trace, and the digest of what was read."""
    geometry = models.named(load.model, models.known(_place(bench, "inventory/models")))
    question = assess.Question(
        geometry=geometry,
        dtype=load.dtype,
        hbm=int(load.hbm.base),
        dram=int(load.dram.base),
        tier=int(load.tier.base),
    )
    if load.trace:
        path = _place(bench, load.trace)
        return assess.assess(batches([path]), question), agreed.digest_of(path)
    asked = load.generated
    content = b""
    if asked:
        content = agreed.generated(
            bench.seed, requests=asked.requests, conversations=asked.conversations
        )
    with tempfile.TemporaryDirectory(prefix="kvgate-trace-") as folder:
        path = Path(folder) / "trace.jsonl"
        path.write_bytes(content)
        return assess.assess(batches([path]), question), agreed.digest_of(path)


def _share(name: str, share: float) -> Reading:
    return Reading(name=name, value=Quantity.of(round(100 * share, 4), "%"))


def _record(bench: Bench, reading: Reading, inputs: str, kept: EvidenceRef) -> None:
    bench.compute(reading, inputs=inputs, phase=PHASE, evidence=(kept,))


def _kept(
    bench: Bench, command: tuple[str, ...], facts: Mapping[str, object], began: datetime.datetime
) -> EvidenceRef:
    """Keep what was calculated as evidence, of no host."""
    return bench.run.evidence(
        Evidence(
            host=ALL_HOSTS,
            command=command,
            exit_status=0,
            stdout=json.dumps(facts, indent=1, ensure_ascii=False).encode(),
            stderr=b"",
            started_at=began,
            ended_at=datetime.datetime.now(datetime.UTC),
        )
    )


def _measured(bench: Bench) -> tuple[predict_run.Bandwidth, ...]:
    """Return the bandwidths that this run's G2 measured; none where it measured none."""
    bench.run.sync()
    try:
        return predict_run.measured(RunReader(bench.run.path)).bandwidths
    except predict_run.NotMeasuredError:
        return ()


def _headroom(bench: Bench, needed: float, told: str, kept: EvidenceRef) -> None:
    """Record how many times the need each serving host's tier was measured to carry (G2)."""
    for each in _measured(bench):
        if each.arm in ("device", "local", "storage") and needed:
            bench.compute(
                Reading(name="assess.headroom", value=Quantity.of(each.middle / needed, "x")),
                inputs=f"bandwidth of kv-restore (G2) over {needed / 1e9:.4g} GB/s: {told}",
                phase=PHASE,
                host=each.host,
                evidence=(kept,),
                labels={"arm": each.arm},
            )
