"""SNIA's tests as a gate on a file: killed between rounds, resumed, judged and reported."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvgate.store.reader import RunReader

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[2]
LOAD = """\
workloads:
  pts: {tests: [iops], profile: full, file: 8 MiB, per_point: 100 ms, most_rounds: 5,
        points: [{read: 0, block: 4 KiB}]}
"""
GATE = """\
gate: G2
title: G2 of a small site
question: Is it steady?
entry: []
criteria:
  - {id: G2.60, text: no error, measure: pts.errors, phase: precondition, hosts: serving,
     basis: made for this test, hint: look, limits: {rehearsal: {equals: 0}}}
  - {id: G2.61, text: steady, measure: pts.steady, phase: steady_state, hosts: serving,
     where: {test: iops}, basis: made for this test, hint: look,
     limits: {rehearsal: {equals: true}}}
"""


@pytest.fixture
def small(site: Any) -> Any:
    """Return the small site with the shipped suite of SNIA's tests as its G2."""
    (site.root / "scratch").mkdir()
    (site.root / "inventory/local/this-machine.yaml").write_text(
        "inventory: small\nhosts:\n"
        f"  here: {{roles: [serving], transport: local, scratch: {site.root}/scratch}}\n"
    )
    (site.root / "gates/g2-small.yaml").write_text(GATE)
    (site.root / "suites/g2").mkdir()
    shutil.copy(ROOT / "suites/g2_paths/test_pts.py", site.root / "suites/g2")
    site.plan("G2")
    plan = site.root / "gates/plans/rehearsal.yaml"
    text = plan.read_text().replace("workloads: {}\n", LOAD)
    plan.write_text(text)
    suite = site.root / "suites/g2/test_pts.py"
    suite.write_text(suite.read_text().replace(', "G2.62", "G2.63", "G2.64"', ""))
    return site


def until(so: Callable[[], bool], *, within_s: float = 90) -> None:
    give_up = time.monotonic() + within_s
    while not so():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def rounds_of(site: Any, series: int) -> list[str]:
    ended = [str(each["block"]) for each in site.events("block_end")]
    return [key for key in ended if "/pts-round/" in key and f"series={series}" in key]


@pytest.mark.fio
def test_killed_between_rounds_it_begins_again_on_a_new_file_and_says_so(small: Any) -> None:
    started = small.start("run", "--gate", "G2")
    until(lambda: bool(small.runs()) and len(rounds_of(small, 1)) >= 2)
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    for pid in [started.pid, *map(int, children)]:
        os.kill(pid, signal.SIGKILL)
    started.communicate(timeout=90)
    run = small.newest()
    done = small.kvgate("run", "--resume", run.name)
    assert done.returncode in (0, 2), done.stdout + done.stderr
    taken = RunReader(run).measurements()
    again = [each for each in taken if each.name == "pts.again"]
    assert [(each.labels["series"], each.value) for each in again] == [
        ("2", "the target went with the process that was interrupted")
    ]
    assert len(rounds_of(small, 2)) == 5
    steady = [each for each in taken if each.name == "pts.steady"]
    assert [each.labels["series"] for each in steady] == ["2"]
    findings = small.findings(run)
    assert findings["G2.60"]["verdict"] == "pass"
    expected = "pass" if steady[0].value is True else "inconclusive"
    assert findings["G2.61"]["verdict"] == expected
    page = json.loads((run / "report/report.json").read_bytes())
    (view,) = page["gates"][0]["pts"]
    assert view["label"] == "PTS-shaped on a file, not PTS"
    assert "Preconditioned again" in {fact["label"] for fact in view["facts"]}
    assert not list((small.root / "scratch").iterdir())
    assert small.kvgate("verify", run.name).returncode == 0
