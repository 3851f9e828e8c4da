"""G3 on a real engine, once as it is and once with each lie that it must catch."""

import dataclasses
import importlib.util
import pathlib
import shutil
import sys
from collections.abc import Callable

import pytest

from kvgate.engine.progress import Progress
from kvgate.engine.workspace import Setup
from kvgate.judge.comparison import Planned
from kvgate.judge.gate import judge_gate
from kvgate.model.finding import Attempt
from kvgate.model.verdict import Verdict
from kvgate.serving.arms import ArmSetup
from kvgate.spec import load, yamlfile
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.suite.bench import Bench

ROOT = pathlib.Path(__file__).parents[2]
PLAN = b"""
plan: small
title: G3, small
profile: rehearsal
seed: 11
gates: [{gate: G3, suite: suites/g3_kv_tier, give_up_after: 60 s}]
workloads:
  kv: {arms: [recompute, local], rounds: 1, sessions: 2, prompt_tokens: 200, output_tokens: 2,
       concurrency: [2]}
"""
SETTLED = {f"G3.{number}" for number in range(1, 10)}


@dataclasses.dataclass
class Rig:
    """The suite's module, a bench on this machine, and the verdicts that came of it."""

    suite: object
    bench: Bench
    setup: Setup
    path: pathlib.Path

    def run(self) -> dict[str, Verdict]:
        self.suite.test_sessions_restored_by_each_arm(self.bench)
        self.suite.test_answers_compared_between_arms(self.bench)
        return self.judge()

    def judge(self) -> dict[str, Verdict]:
        gate = self.setup.gates["G3"].value
        result = judge_gate(
            gate,
            profile="rehearsal",
            inventory=self.setup.inventory.value,
            expected=self.setup.expected,
            taken=RunReader(self.path).measurements(),
            attempts=[Attempt(criterion=each, outcome="ran") for each in sorted(SETTLED)],
            scoped_out={each.id: "x" for each in gate.criteria if each.id not in SETTLED},
            planned=Planned(self.setup.plan.value.workloads.looks()),
        )
        return {finding.criterion: finding.verdict for finding in result.findings}


@pytest.fixture
def rig(tmp_path: pathlib.Path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    inventory = f"""
inventory: here
hosts:
  self: {{roles: [serving, client], transport: local, tools: {{python: {sys.executable}}},
         scratch: {scratch}}}
"""
    setup = Setup(
        load.plan_of(yamlfile.parse(PLAN, "plan.yaml"), None),
        load.inventory_of(yamlfile.parse(inventory.encode(), "inventory.yaml")),
        None,
        {"G3": load.load_gate(ROOT / "gates/g3-kv-tier.yaml")},
    )
    source = ROOT / "suites/g3_kv_tier/test_arms.py"
    spec = importlib.util.spec_from_file_location("g3_suite", source)
    suite = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(suite)
    run = RunWriter.create(tmp_path / "run", {}, {})
    bench = Bench("G3", setup, run, Progress(None))
    yield Rig(suite, bench, setup, tmp_path / "run")
    bench.close()
    run.close()
    assert not list(scratch.iterdir()), "the KV was left behind"


def after_storing(rig: Rig, monkeypatch: pytest.MonkeyPatch, lie: Callable[[pathlib.Path], None]):
    """Have `lie` done to the tier's folder once all sessions are stored."""
    honest = rig.suite._store

    def store(bench, witness, folder: str) -> None:
        honest(bench, witness, folder)
        lie(pathlib.Path(folder))

    monkeypatch.setattr(rig.suite, "_store", store)


def test_an_honest_arm_passes_and_a_resume_repeats_nothing(rig: Rig, monkeypatch) -> None:
    verdicts = rig.run()
    few = {"G3.8": Verdict.INCONCLUSIVE}  # one round carries no interval
    assert verdicts == dict.fromkeys(SETTLED, Verdict.PASS) | few
    taken = len(RunReader(rig.path).measurements())
    monkeypatch.setattr(rig.suite, "_store", lambda *_: pytest.fail("stored again"))
    assert rig.run() == verdicts
    assert len(RunReader(rig.path).measurements()) == taken


def clear(folder: pathlib.Path) -> None:
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)


def test_a_tier_whose_files_are_gone_fails(rig: Rig, monkeypatch) -> None:
    """The answers are equal all the same: only counted hits tell."""
    after_storing(rig, monkeypatch, clear)
    verdicts = rig.run()
    assert verdicts["G3.3"] is Verdict.FAIL
    assert verdicts["G3.4"] is Verdict.INCONCLUSIVE
    assert verdicts["G3.7"] is Verdict.PASS


def swap_chunks(folder: pathlib.Path) -> None:
    first, second = sorted(folder.rglob("*.kv"))[:2]
    held = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(held)


def test_a_tier_that_gives_another_sessions_chunk_fails(rig: Rig, monkeypatch) -> None:
    after_storing(rig, monkeypatch, swap_chunks)
    verdicts = rig.run()
    assert verdicts["G3.5"] is Verdict.FAIL
    assert verdicts["G3.7"] is Verdict.PASS  # it was computed again, not used


def test_a_recompute_arm_with_a_tier_fails_the_negative_control(rig: Rig, monkeypatch) -> None:
    def dishonest(bench, arm, folder: str) -> ArmSetup:
        return ArmSetup(arm="local", seed=bench.seed, kv_path=folder)

    monkeypatch.setattr(rig.suite, "_setup", dishonest)
    verdicts = rig.run()
    assert verdicts["G3.2"] is Verdict.FAIL


def test_an_arm_that_answers_otherwise_fails(rig: Rig, monkeypatch) -> None:
    """Other weights give other logits, even where a token should happen to be the same."""
    honest = rig.suite._setup

    def dishonest(bench, arm, folder: str) -> ArmSetup:
        setup = honest(bench, arm, folder)
        return dataclasses.replace(setup, seed=12) if arm == "recompute" else setup

    monkeypatch.setattr(rig.suite, "_setup", dishonest)
    assert rig.run()["G3.7"] is Verdict.FAIL
