"""G3's search for the highest concurrency on a real engine: honest, lied to, and out of reach."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kvgate.model.verdict import Verdict
from kvgate.store.reader import RunReader

if TYPE_CHECKING:
    from conftest import Rig, Site  # a suite of G3 on this machine, a small site

pytestmark = pytest.mark.whole

PLAN = b"""
plan: small
title: G3, small
profile: rehearsal
seed: 11
gates: [{gate: G3, suite: suites/g3_kv_tier, give_up_after: 60 s}]
workloads:
  load: {arms: [ARM], sessions: 2, prompt_tokens: 200, output_tokens: 2, most: 2, repeats: 1,
         level: {ttft: LIMIT, percent: 50}}
"""
SETTLED = ("G3.122", "G3.123", "G3.124")


def run(g3_rig: Callable[[bytes, str], Rig], limit: str, arm: str = "local") -> Rig:
    plan = PLAN.replace(b"LIMIT", limit.encode()).replace(b"ARM", arm.encode())
    rig = g3_rig(plan, "test_load.py")
    rig.suite.test_highest_concurrency_that_keeps_the_service_level(rig.bench)
    return rig


def verdicts(rig: Rig) -> dict[str, Verdict]:
    return {key: finding.verdict for key, finding in rig.judge(*SETTLED).items()}


def values(rig: Rig) -> dict[str, Any]:
    return {each.name: each.value for each in RunReader(rig.path).measurements()}


def test_a_level_within_reach_is_kept_by_restores_and_a_resume_repeats_nothing(
    g3_rig: Callable[[bytes, str], Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = run(g3_rig, "1 h")
    assert verdicts(rig) == dict.fromkeys(SETTLED, Verdict.PASS)
    levels = json.loads(values(rig)["load.levels"])
    assert [each[:2] for each in levels] == [[1, True], [2, True]]
    assert str(values(rig)["load.concurrency"]) == "2"
    monkeypatch.setattr(rig.suite, "_store", lambda *_: pytest.fail("stored again"))
    rig.suite.test_highest_concurrency_that_keeps_the_service_level(rig.bench)
    assert verdicts(rig) == dict.fromkeys(SETTLED, Verdict.PASS)


def test_a_level_out_of_reach_fails_though_all_answers_are_whole(
    g3_rig: Callable[[bytes, str], Rig],
) -> None:
    rig = run(g3_rig, "0.1 ms")
    found = verdicts(rig)
    assert (found["G3.122"], found["G3.123"]) == (Verdict.FAIL, Verdict.PASS)
    assert str(values(rig)["load.concurrency"]) == "0"


def test_sessions_that_were_lost_are_no_restores(
    g3_rig: Callable[[bytes, str], Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = g3_rig(PLAN.replace(b"LIMIT", b"1 h").replace(b"ARM", b"local"), "test_load.py")
    honest = rig.suite._store

    def store(bench: Any, witness: Any, setup: Any) -> Any:
        kept = honest(bench, witness, setup)
        for each in pathlib.Path(setup.kv_path).iterdir():
            if each.is_dir():
                shutil.rmtree(each)
        return kept

    monkeypatch.setattr(rig.suite, "_store", store)
    rig.suite.test_highest_concurrency_that_keeps_the_service_level(rig.bench)
    assert verdicts(rig)["G3.124"] is Verdict.FAIL


def test_a_search_replays_without_an_engine(site: Site) -> None:
    root = pathlib.Path(__file__).resolve().parents[2]
    gate = yaml.safe_load((root / "gates/g3-kv-tier.yaml").read_text())
    gate["criteria"] = [each for each in gate["criteria"] if each["id"] in SETTLED]
    gate["entry"] = []
    (site.root / "gates/g3-kv-tier.yaml").write_text(yaml.safe_dump(gate))
    suite = (root / "suites/g3_kv_tier/test_load.py").read_text()
    (site.root / "suites/g3").mkdir()
    (site.root / "suites/g3/test_load.py").write_text(suite.replace('"G3.121", ', ""))
    plan = PLAN.replace(b"LIMIT", b"1 h").replace(b"ARM", b"local")
    plan = plan.replace(b"suites/g3_kv_tier", b"suites/g3").replace(b"60 s", b"100 s")
    (site.root / "gates/plans/rehearsal.yaml").write_bytes(plan)
    (site.root / "scratch").mkdir()
    tools = f"tools: {{python: {sys.executable}}}"
    (site.root / "inventory/local/this-machine.yaml").write_text(
        "inventory: small\nhosts:\n  here: {roles: [serving], transport: local,\n"
        f"         scratch: {site.root}/scratch, {tools}}}\n"
    )
    live = site.kvgate("run")
    first = site.newest()
    out = "inventory/recorded/here"
    kept = site.kvgate("record", first.name, "--out", out)
    assert kept.returncode == 0, live.stderr + kept.stderr
    shutil.rmtree(site.root / "scratch")
    replay = site.kvgate(
        "run", "--inventory", f"{out}/inventory.yaml", "--plan", f"{out}/plan.yaml"
    )
    assert replay.returncode == live.returncode, replay.stderr
    assert first != site.newest()
    for key, found in site.findings(first).items():
        again = site.findings()[key]
        assert (again["verdict"], again["measured"]) == ("pass", found["measured"])
