"""G3 on a real engine, once as it is and once with each lie that it must catch."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kvgate.model.verdict import Verdict
from kvgate.serving.arms import ArmSetup
from kvgate.store.reader import RunReader

if TYPE_CHECKING:
    from conftest import Rig  # a suite of G3 on this machine

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


@pytest.fixture
def rig(g3_rig: Callable[[bytes, str], Rig]) -> Rig:
    return g3_rig(PLAN, "test_arms.py")


def run(rig: Rig) -> dict[str, Verdict]:
    rig.suite.test_sessions_restored_by_each_arm(rig.bench)
    rig.suite.test_answers_compared_between_arms(rig.bench)
    return {key: finding.verdict for key, finding in rig.judge(*sorted(SETTLED)).items()}


def after_storing(rig: Rig, monkeypatch: pytest.MonkeyPatch, lie: Callable[[pathlib.Path], None]):
    """Have `lie` done to the tier's folder once all sessions are stored."""
    honest = rig.suite._store

    def store(bench, witness, folder: str) -> None:
        honest(bench, witness, folder)
        lie(pathlib.Path(folder))

    monkeypatch.setattr(rig.suite, "_store", store)


def test_an_honest_arm_passes_and_a_resume_repeats_nothing(rig: Rig, monkeypatch) -> None:
    verdicts = run(rig)
    few = {"G3.8": Verdict.INCONCLUSIVE}  # one round carries no interval
    assert verdicts == dict.fromkeys(SETTLED, Verdict.PASS) | few
    taken = len(RunReader(rig.path).measurements())
    monkeypatch.setattr(rig.suite, "_store", lambda *_: pytest.fail("stored again"))
    assert run(rig) == verdicts
    assert len(RunReader(rig.path).measurements()) == taken


def clear(folder: pathlib.Path) -> None:
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)


def test_a_tier_whose_files_are_gone_fails(rig: Rig, monkeypatch) -> None:
    """The answers are equal all the same: only counted hits tell."""
    after_storing(rig, monkeypatch, clear)
    verdicts = run(rig)
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
    verdicts = run(rig)
    assert verdicts["G3.5"] is Verdict.FAIL
    assert verdicts["G3.7"] is Verdict.PASS  # it was computed again, not used


def test_a_recompute_arm_with_a_tier_fails_the_negative_control(rig: Rig, monkeypatch) -> None:
    def dishonest(bench, arm, folder: str) -> ArmSetup:
        return ArmSetup(arm="local", seed=bench.seed, kv_path=folder)

    monkeypatch.setattr(rig.suite, "_setup", dishonest)
    verdicts = run(rig)
    assert verdicts["G3.2"] is Verdict.FAIL


def test_an_arm_that_answers_otherwise_fails(rig: Rig, monkeypatch) -> None:
    """Other weights give other logits, even where a token should happen to be the same."""
    honest = rig.suite._setup

    def dishonest(bench, arm, folder: str) -> ArmSetup:
        setup = honest(bench, arm, folder)
        return dataclasses.replace(setup, seed=12) if arm == "recompute" else setup

    monkeypatch.setattr(rig.suite, "_setup", dishonest)
    assert run(rig)["G3.7"] is Verdict.FAIL
