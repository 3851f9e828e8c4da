"""Recorded gates that act on hosts: G2 and G3 replay, also when killed; G4 says why not."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from conftest import Site  # the small site of this folder

pytestmark = pytest.mark.whole

SHIPPED = Path(__file__).resolve().parents[2]
RECORDED = "inventory/recorded/here"
REPLAY = ("--inventory", f"{RECORDED}/inventory.yaml", "--plan", f"{RECORDED}/plan.yaml")
PLAN = """\
plan: acting
title: Gates that act on a host
profile: rehearsal
seed: 7
gates:
{gates}
workloads:
  fio: {{rounds: 1, ramp: 0 s, runtime: 500 ms, size: 80 MiB, jobs: [kv-restore, kv-store, verify]}}
  kv: {{arms: [recompute, local], rounds: 1, sessions: 2, prompt_tokens: 64, output_tokens: 2,
       concurrency: [1]}}
  soak: {{duration: 60 s, window: 10 s, sample_every: 1 s, fio_job: kv-mixed, fio_size: 80 MiB,
         kv_arm: local, concurrency: 1, prompt_tokens: 64, output_tokens: 2,
         faults: [{{fault: engine_killed, at: 15 s, back_within: 20 s}}]}}
scope_out:
  - criteria: [{others}]
    reason: not asked for here
"""
SAYS_SO = '''
@settles("G1.1")
def test_it(bench: Bench) -> None:
    """Say so."""
    say(bench, "a", True)
'''


def act(site: Site, gate: str) -> None:
    """Make a plan of one shipped gate, which opens on no other here."""
    folder = next((SHIPPED / "suites").glob(f"{gate.lower()}_*"))
    copied = site.root / "suites" / folder.name
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(folder, copied, ignore=shutil.ignore_patterns("__pycache__"))
    shipped = next((SHIPPED / "gates").glob(f"{gate.lower()}-*.yaml"))
    opened = re.sub(r"^entry: .*$", "entry: []", shipped.read_text(), flags=re.MULTILINE)
    (site.root / "gates" / shipped.name).write_text(opened)
    entry = f"  - {{gate: {gate}, suite: suites/{folder.name}, give_up_after: 100 s}}"
    others = ", ".join(_without_limit(opened))
    plan = PLAN.format(gates=entry, others=others)
    (site.root / "gates/plans/rehearsal.yaml").write_text(
        plan if others else plan.partition("scope_out")[0]
    )
    scratch = site.root / "scratch"
    scratch.mkdir(exist_ok=True)
    (site.root / "inventory/local/this-machine.yaml").write_text(
        "inventory: small\nhosts:\n"
        f"  here: {{roles: [serving], transport: local, scratch: {scratch},\n"
        f"         tools: {{python: {sys.executable}}}}}\n"
    )


def _without_limit(gate: str) -> list[str]:
    """Return the criteria of a gate file that have no limit for a rehearsal."""
    return [
        criterion["id"]
        for criterion in yaml.safe_load(gate)["criteria"]
        if "rehearsal" not in criterion["limits"]
    ]


def killed_after_blocks(site: Site, begun: str, number: int, verb: tuple[str, ...]) -> None:
    """Start `verb` and SIGKILL it and its gate once `number` blocks that begin so have ended."""
    child = site.start(*verb)
    before = set(site.runs())
    ends = time.monotonic() + 100
    while not any(
        len([e for e in site.events("block_end", run=run) if e["block"].startswith(begun)])
        >= number
        for run in site.runs()
        if run not in before
    ):
        assert time.monotonic() < ends
        assert child.poll() is None, child.communicate()
        time.sleep(0.02)
    gates = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    for pid in [*map(int, gates), child.pid]:  # our own: started just now
        os.kill(pid, signal.SIGKILL)
    child.communicate(timeout=60)


def told(run: Path, *, evidence: bool = True) -> Any:
    """Return a run's findings without what says which run it is."""
    found = json.loads((run / "findings.json").read_bytes())
    for name in ("run", "criteria_digest", "journal_digest"):
        del found[name]
    return found if evidence else _without_evidence(found)


def _without_evidence(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _without_evidence(each) for key, each in part.items() if key != "evidence"}
    return [_without_evidence(each) for each in part] if isinstance(part, list) else part


def recorded(site: Site, run: Path) -> None:
    """Record `run` in place of what was recorded before; its host is gone then."""
    shutil.rmtree(site.root / RECORDED, ignore_errors=True)
    done = site.kvgate("record", run.name, "--out", RECORDED)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(site.root / "scratch", ignore_errors=True)


@pytest.mark.parametrize(
    ("gate", "begun", "number"), [("G2", "G2/fio/", 1), ("G3", "G3/kv-round-1", 1)]
)
def test_a_gate_that_acts_replays(site: Site, gate: str, begun: str, number: int) -> None:
    """A run that was killed and went on, its replay, and a replay that was killed: the same."""
    act(site, gate)
    killed_after_blocks(site, begun, number, ("run",))
    live = site.kvgate("run", "--resume", site.newest().name)
    first = site.newest()
    recorded(site, first)
    replay = site.kvgate("run", *REPLAY)
    assert replay.returncode == live.returncode, replay.stderr
    whole = site.newest()
    assert told(whole, evidence=False) == told(first, evidence=False)
    assert any(f["verdict"] == "pass" for g in told(whole)["gates"] for f in g["findings"])
    killed_after_blocks(site, begun, number, ("run", *REPLAY, "--timing"))
    resumed = site.kvgate("run", "--resume", site.newest().name)
    assert resumed.returncode == live.returncode, resumed.stderr
    assert told(site.newest()) == told(whole), "a replay that was killed, byte for byte"
    assert not (site.root / "scratch").exists(), "nothing was made on this machine"


def test_a_soak_is_refused_on_recorded_hosts_by_name(site: Site) -> None:
    site.gate("G1", {"G1.1": ("a", "{equals: true}")}, SAYS_SO)
    assert site.kvgate("run").returncode == 0
    recorded(site, site.newest())
    act(site, "G4")
    done = site.kvgate("run", *REPLAY[:2], "--plan", "gates/plans/rehearsal.yaml")
    assert done.returncode == 2, done.stderr
    because = {f["because"] for f in site.findings().values()}
    assert because == {"a soak is time under load, which no recording has: here"}
