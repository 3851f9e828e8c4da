"""What must not slip through: other criteria, forged findings, deselected tests, odd loads."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvgate.engine import check_load
from kvgate.engine.workspace import Workspace, default_plan, load_setup

if TYPE_CHECKING:
    from conftest import Site  # the small site of this folder

ROOT = Path(__file__).resolve().parents[2]
HOLDS = '''
@settles("{id}")
def test_{name}(bench: Bench) -> None:
    """Hold."""
    say(bench, "{measure}", Quantity.of(1, "ms"))
'''
FIRST = HOLDS.format(id="G1.1", name="what_holds", measure="a.held")
SECOND = HOLDS.format(id="G2.1", name="what_holds", measure="b.held")


def test_a_gate_accepted_by_other_criteria_opens_nothing(site: Site) -> None:
    site.gate("G1", {"G1.1": ("a.held", "{at_most: 2 s}")}, FIRST)
    site.gate("G2", {"G2.1": ("b.held", "{at_most: 2 ms}")}, SECOND, entry="G1")
    site.plan("G1", "G2")
    assert site.kvgate("run", "--gate", "G1").returncode == 0
    gate = site.root / "gates/g1-small.yaml"
    gate.write_text(gate.read_text().replace("at_most: 2 s", "at_most: 1 us"))
    done = site.kvgate("run", "--gate", "G2")
    assert done.returncode == 2
    assert "by other criteria" in site.events("gate_refused")[0]["because"]
    assert "by other criteria" in done.stdout + done.stderr


def test_forged_findings_under_a_forged_seal_are_named(site: Site) -> None:
    site.gate("G1", {"G1.1": ("a.held", "{at_most: 1 us}")}, FIRST)
    assert site.kvgate("run").returncode == 1
    run = site.newest()
    found = run / "findings.json"
    before = found.read_bytes()
    found.write_bytes(before.replace(b'"fail"', b'"pass"'))
    sums = run / "SHA256SUMS.1"
    digests = (hashlib.sha256(each).hexdigest() for each in (before, found.read_bytes()))
    sums.write_text(sums.read_text().replace(*digests))
    done = site.kvgate("verify", run.name)
    assert done.returncode == 1
    assert "the judge finds fail" in done.stdout


def test_a_criterion_is_not_settled_by_a_part_of_its_tests(site: Site) -> None:
    site.gate(
        "G1",
        {"G1.1": ("a.held", "{at_most: 2 ms}")},
        FIRST + HOLDS.format(id="G1.1", name="another", measure="a.other"),
    )
    site.pytest("suites/g1", "--inventory", "inventory/local/this-machine.yaml", "-k", "what_holds")
    assert site.findings()["G1.1"]["verdict"] == "not_run"
    assert "deselected" in site.findings()["G1.1"]["because"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("jobs: [kv-restore,", "jobs: [kv-restor,", "did you mean 'kv-restore'"),
        ("fio_job: kv-mixed", "fio_job: kv-mixd", "did you mean 'kv-mixed'"),
        ("fault: engine_killed", "fault: engine_kiled", "did you mean 'engine_killed'"),
        ("at: 35 s", "at: 350 s", "beyond the soak's end"),
        ("duration: 80 s", "duration: 72 h", "is given up after 15 min"),
        ("duration: 80 s", "duration: 8 s", "is longer than the soak"),
        ("duration: 80 s", "duration: 45 s", "can never meet G4.1"),
        ("profile: rehearsal", "profile: rehersal", "did you mean 'rehearsal'"),
    ],
)
def test_a_load_that_can_not_be_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    shipped = (ROOT / "gates/plans/rehearsal.yaml").read_text()
    assert old in shipped
    (tmp_path / "plan.yaml").write_text(shipped.replace(old, new))
    workspace = Workspace.find(ROOT)
    setup = load_setup(workspace, tmp_path / "plan.yaml", ROOT / "inventory/examples/mi308x.yaml")
    found = [each for each in check_load.problems(setup) if message in each]
    assert found
    assert all("plan.yaml:" in each for each in found)


def test_the_shipped_load_has_no_problem() -> None:
    workspace = Workspace.find(ROOT)
    plan = ROOT / "gates/plans/rehearsal.yaml"
    setup = load_setup(workspace, plan, ROOT / "inventory/examples/mi308x.yaml")
    assert list(check_load.problems(setup)) == []


def test_a_drafted_plan_is_no_other_inventorys(site: Site) -> None:
    site.gate("G1", {"G1.1": ("a.held", "{at_most: 2 ms}")}, FIRST)
    local = site.root / "gates/plans/local"
    local.mkdir()
    (local / "rehearsal.yaml").write_text("base: gates/plans/rehearsal.yaml\ndrafted_for: other\n")
    workspace = Workspace(site.root)
    here, elsewhere = "inventory/local/this-machine.yaml", "inventory/site-a.yaml"
    assert default_plan(workspace, site.root / here) == local / "rehearsal.yaml"
    assert default_plan(workspace, site.root / elsewhere).name == "rehearsal.yaml"
    assert default_plan(workspace, site.root / elsewhere).parent.name == "plans"
    done = site.kvgate("check")
    assert done.returncode == 1
    assert "was drafted for inventory 'other', not for 'small'" in done.stderr
