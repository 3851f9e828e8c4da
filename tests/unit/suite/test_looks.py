"""Planned looks: journaled before and as they are made, deciding at once, and never twice."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from kvgate.engine.judging import judge_gate_of
from kvgate.engine.outline import outline
from kvgate.engine.progress import Progress
from kvgate.engine.workspace import Setup, Workspace
from kvgate.errors import SpecError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, Measurement
from kvgate.spec import load, yamlfile
from kvgate.spec.workload import KvWorkload, arm_of
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.suite.bench import Bench
from kvgate.suite.looks import Looks

SPREAD = (0.99, 1.02, 1.0, 0.98, 1.01)
GATE = b"""
gate: G3
title: t
question: q
entry: []
criteria:
  - {id: G3.1, text: x, measure: g3.ttft, phase: steady_state, hosts: serving, basis: b,
     where: {concurrency: "4"}, limits: {acceptance: {at_least: 1.2 x}},
     ratio: {of: device, to: local, better: lower}}
  - {id: G3.2, text: x, measure: g3.request_errors, phase: steady_state, hosts: serving,
     basis: b, limits: {acceptance: {equals: 0}}}
"""
INVENTORY = b"""
inventory: here
hosts:
  a: {roles: [serving], transport: local}
  b: {roles: [serving], transport: local}
"""


def plan(looks: str = "looks: [5, 10]", rounds: int = 10) -> bytes:
    return f"""
plan: p
title: t
profile: acceptance
seed: 1
gates: [{{gate: G3, suite: suites/g3, give_up_after: 1 h}}]
workloads:
  kv: {{arms: [local, device], again: local, rounds: {rounds}, {looks}, sessions: 2,
       prompt_tokens: 8, output_tokens: 2, concurrency: [4]}}
""".encode()


def setup(text: bytes) -> Setup:
    return Setup(
        load.plan_of(yamlfile.parse(text, "plan.yaml"), None),
        load.inventory_of(yamlfile.parse(INVENTORY, "inventory.yaml")),
        None,
        {"G3": load.gate_of(yamlfile.parse(GATE, "g3.yaml"))},
    )


def measure(run: RunWriter, rounds: range, *, device: float, host: str = "a") -> None:
    now = datetime.datetime.now(datetime.UTC)
    seen = Evidence(
        host=host,
        command=("load",),
        exit_status=0,
        stdout=f"{rounds}".encode(),
        stderr=b"",
        started_at=now,
        ended_at=now,
    )
    ref = run.evidence(seen)
    for number in rounds:
        for place, (arm, mean) in enumerate((("local", 10.0), ("device", device))):
            run.measure(
                Measurement(
                    name="g3.ttft",
                    value=Quantity.of(round(mean * SPREAD[(number + 2 * place) % 5], 4), "s"),
                    host=host,
                    phase="steady_state",
                    taken_at=now,
                    labels={"arm": arm, "round": str(number), "concurrency": "4"},
                    evidence=(ref,),
                )
            )


@pytest.fixture
def run(tmp_path: Path):
    with RunWriter.create(tmp_path / "run", {}, {}) as writer:
        yield writer


def kinds(run: RunWriter, kind: str) -> list[dict[str, object]]:
    run.sync()
    return [dict(event.fields) for event in RunReader(run.path).events(kind)]


def test_the_plan_is_journaled_once_with_how_sure_each_look_must_be(run: RunWriter) -> None:
    for _ in range(2):  # the second time is a resume
        Looks("G3", setup(plan()), run).plan("g3")
    (told,) = kinds(run, "looks_planned")
    assert (told["of"], told["after"]) == ("G3/g3", [5, 10])
    assert told["levels"] == ["0.001525323", "0.024499772"]


def test_a_look_that_decides_ends_the_measuring_and_is_what_the_judge_finds(
    run: RunWriter,
) -> None:
    made = setup(plan())
    looks = Looks("G3", made, run)
    measure(run, range(1, 6), device=5.0)
    assert not looks.look("g3", after=4, host="a")
    assert looks.look("g3", after=5, host="a")
    assert looks.decided_after("g3", "a") == 5
    assert looks.decided_after("g3", "b") is None
    (told,) = kinds(run, "look")
    assert (told["decided"], told["verdicts"]) == (True, {"G3.1": "pass"})
    result = judge_gate_of(RunReader(run.path), made, "G3")
    first = result.findings[0].hosts[0].comparison
    assert first is not None
    assert first.blocks == "5 blocks of 10 planned, look 1 of 2"


def test_a_look_is_not_made_again_on_a_resume(run: RunWriter) -> None:
    measure(run, range(1, 6), device=8.3)
    assert not Looks("G3", setup(plan()), run).look("g3", after=5, host="a")
    measure(run, range(6, 8), device=0.1)
    assert not Looks("G3", setup(plan()), run).look("g3", after=5, host="a")
    assert len(kinds(run, "look")) == 1


def test_each_host_is_decided_by_itself(run: RunWriter) -> None:
    looks = Looks("G3", setup(plan()), run)
    measure(run, range(1, 6), device=5.0)
    measure(run, range(1, 6), device=8.3, host="b")
    assert looks.look("g3", after=5, host="a")
    assert not looks.look("g3", after=5, host="b")


@pytest.mark.parametrize(
    ("looks", "says"),
    [
        ("looks: [3, 10]", "the first is after 5 rounds or more"),
        ("looks: [5, 9]", "the last is after all 10 rounds"),
        ("looks: [10, 5]", "rising"),
        ("looks: [5, 6, 7, 8, 9, 10]", "1 to 5 numbers"),
        ("looks: []", "1 to 5 numbers"),
    ],
)
def test_looks_that_would_let_one_go_on_until_it_passes_are_refused(looks: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        setup(plan(looks))


def test_an_arm_runs_again_under_a_name_of_its_own() -> None:
    kv = setup(plan()).plan.value.workloads.kv
    assert isinstance(kv, KvWorkload)
    assert kv.runs == ("local", "device", "local-again")
    assert [arm_of(each) for each in kv.runs] == ["local", "device", "local"]
    with pytest.raises(SpecError, match="'recompute' is none of the arms"):
        setup(plan().replace(b"again: local", b"again: recompute"))


def test_the_outline_shows_blocks_and_looks(tmp_path: Path) -> None:
    (tmp_path / "suites/g3").mkdir(parents=True)
    (tmp_path / "gates").mkdir()
    shown = outline(Workspace(tmp_path), setup(plan())).gates[0].criteria[0][2]
    assert shown == (
        "at least 1.2 x for device against local, 10 blocks, "
        "looked at after 5 (99.695 %), after 10 (95.1 %)"
    )
    few = outline(Workspace(tmp_path), setup(plan("looks: null", rounds=3))).gates[0].criteria[0][2]
    assert "3 blocks planned, an interval takes 5: will be inconclusive" in few


def test_arms_run_in_another_order_from_round_to_round_the_same_on_every_resume(
    run: RunWriter,
) -> None:
    kv = setup(plan()).plan.value.workloads.kv
    assert isinstance(kv, KvWorkload)

    def orders() -> list[tuple[str, ...]]:
        bench = Bench("G3", setup(plan()), run, Progress(None))
        try:
            return [
                tuple(
                    block["arm"]
                    for block in bench.blocks(f"kv-round-{number}", shuffled=True, arm=kv.runs)
                )
                for number in range(1, 31)
            ]
        finally:
            bench.close()

    found = orders()
    assert found == orders()
    assert len(set(found)) == 6  # all orders of three came up in thirty rounds
    assert {order[0] for order in found} == set(kv.runs)
