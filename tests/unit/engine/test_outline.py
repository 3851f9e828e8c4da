"""What `kvgate plan` says before anything is done, and what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvgate.engine import suitefiles
from kvgate.engine.estimate import Cost, cost_of
from kvgate.engine.outline import outline
from kvgate.engine.workspace import Setup, Workspace, load_setup
from kvgate.errors import SpecError, UsageError
from kvgate.spec.load import load_plan

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def setup(tmp_path: Path) -> tuple[Workspace, Setup]:
    """Return the shipped rehearsal on an example inventory."""
    workspace = Workspace.find(ROOT)
    inventory = ROOT / "inventory/examples/mi308x.yaml"
    return workspace, load_setup(workspace, ROOT / "gates/plans/rehearsal.yaml", inventory)


def test_every_judged_criterion_is_listed_with_limit_hosts_and_test(
    setup: tuple[Workspace, Setup],
) -> None:
    workspace, loaded = setup
    said = outline(workspace, loaded)
    listed = {row[0] for gate in said.gates for row in gate.criteria}
    everything = {c.id for gate in loaded.gates.values() for c in gate.value.criteria}
    assert listed == everything - set(loaded.plan.value.scoped_out())
    assert all(all(row) for gate in said.gates for row in gate.criteria)
    assert all(row[4] != "no test" for gate in said.gates for row in gate.criteria)


def test_what_is_scoped_out_and_what_is_destructive_is_said(
    setup: tuple[Workspace, Setup],
) -> None:
    workspace, loaded = setup
    said = outline(workspace, loaded)
    out = " ".join(line for gate in said.gates for line in gate.scoped_out)
    assert all(criterion in out for criterion in loaded.plan.value.scoped_out())
    assert any("destructive devices" in line for line in said.head)


def test_the_costs_add_up_and_are_those_of_the_plan(setup: tuple[Workspace, Setup]) -> None:
    _, loaded = setup
    plan = loaded.plan.value
    costs = {gate: cost_of(plan, gate) for gate in ("G1", "G2", "G3", "G4")}
    assert costs["G1"].bytes_written == 0
    assert plan.workloads.soak is not None
    assert costs["G4"].seconds >= plan.workloads.soak.duration.to("s")
    assert all(costs[gate].bytes_written > 0 for gate in ("G2", "G3", "G4"))
    assert "nothing written" in str(costs["G1"])
    assert str(Cost(61, 2 * 10**9)) == "about 1 min 1 s, at most 2.00 GB written"


def test_a_suite_is_read_without_being_run(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "raise SystemExit\n"
        "@settles('G1.1', 'G1.2')\ndef test_one(bench):\n    '''Say what.\n\n    More.'''\n"
    )
    (found,) = suitefiles.tests_in(tmp_path, name="suites/a")
    assert (found.name, found.settles, found.summary) == ("test_one", ("G1.1", "G1.2"), "Say what.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def test_(:\n", "suites/a/test_a.py:1"),
        ("X = 'G1.1'\n@settles(X)\ndef test_one(bench): pass\n", "takes criterion ids as texts"),
    ],
)
def test_a_suite_that_can_not_be_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "test_a.py").write_text(text)
    with pytest.raises(SpecError, match=message):
        suitefiles.tests_in(tmp_path, name="suites/a")


def test_no_workspace_is_said_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lies in no workspace") as caught:
        Workspace.find(tmp_path)
    assert "--workspace" in caught.value.hint


def test_the_shipped_plan_is_sound() -> None:
    plan = load_plan(ROOT / "gates/plans/rehearsal.yaml", root=ROOT).value
    assert plan.rehearsal
    assert [entry.gate for entry in plan.gates] == ["G1", "G2", "G3", "G4"]
