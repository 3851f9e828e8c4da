"""A host that is lost keeps a run waiting, unsealed; one that never was there is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvgate.engine import entry
from kvgate.engine.workspace import Setup, Workspace, load_setup
from kvgate.errors import HostUnreachableError
from kvgate.store.run import RunWriter

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def loaded() -> Setup:
    inventory = ROOT / "inventory/examples/mi308x.yaml"
    return load_setup(Workspace.find(ROOT), ROOT / "gates/plans/rehearsal.yaml", inventory)


@pytest.fixture
def run(tmp_path: Path) -> RunWriter:
    return RunWriter.create(tmp_path / "run", {"run": "r", "gates": ["G1", "G2"]}, {})


def asked(run: RunWriter, gate: str, serials: list[str], problem: str) -> entry.Identities:
    run.event("identity", gate=gate, host="ini1", serials=serials, problem=problem)
    run.sync()
    return {"ini1": tuple(serials)}


def test_a_host_that_answered_and_is_lost_keeps_the_run_waiting(
    loaded: Setup, run: RunWriter
) -> None:
    asked(run, "G1", ["machine-id:1"], "")
    now = asked(run, "G1", [], "ini1: Connection refused")
    with pytest.raises(HostUnreachableError, match="Connection refused") as caught:
        entry.refuse_lost(loaded, "G1", run, now)
    assert "--resume" in caught.value.hint


def test_a_host_that_never_answered_is_g1s_to_judge(loaded: Setup, run: RunWriter) -> None:
    now = asked(run, "G1", [], "ini1: Connection refused")
    entry.refuse_lost(loaded, "G1", run, now)


def test_a_gate_that_opens_on_others_waits_for_its_hosts(loaded: Setup, run: RunWriter) -> None:
    now = asked(run, "G2", [], "ini1: Connection refused")
    with pytest.raises(HostUnreachableError):
        entry.refuse_lost(loaded, "G2", run, now)


def test_a_host_without_any_serial_is_not_lost(loaded: Setup, run: RunWriter) -> None:
    entry.refuse_lost(loaded, "G2", run, asked(run, "G2", [], ""))
