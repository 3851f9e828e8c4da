"""Retests: a new run that cites its parent, judged together with it; what changed falls."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kvgate.cli import main
from kvgate.cli.verify import lineage_step
from kvgate.engine.attest import asked_of
from kvgate.engine.decided import decided
from kvgate.engine.lineage import lineage
from kvgate.engine.retest import plan_retest
from kvgate.engine.status import status
from kvgate.engine.workspace import Workspace
from kvgate.errors import DamagedRunError, StoreError, UsageError
from kvgate.model.verdict import Disposition, Verdict
from kvgate.store.layout import SUMS
from kvgate.store.reader import RunReader
from kvgate.store.sums import hash_file
from kvgate.store.verify import verify
from kvgate.store.verify_steps import Outcome


def cited(parent: Path, *criteria: str, changed: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "of": parent.name,
        "root": parent.name,
        "seal": hash_file(parent / SUMS),
        "criteria": list(criteria),
        "asked": [] if changed else list(criteria),
        "changed": list(changed),
        "reason": "",
    }


def verdicts(run: Path) -> dict[str, Verdict]:
    return {f.criterion: f.verdict for g in lineage(run).result.gates for f in g.findings}


def plan(made: Any, run: Path, *asked: str, **more: Any) -> Any:
    return plan_retest(Workspace(made.root), run, asked, **more)


@pytest.fixture
def failed(made: Any) -> Path:
    run: Path = made.run("r1", {("one", "n1", ""): False})
    return run


def test_the_retested_finding_counts_and_the_old_run_stays_as_it_is(
    made: Any, failed: Path
) -> None:
    again = made.run("r2", retest=cited(failed, "G1.1"))
    assert verdicts(failed)["G1.1"] is Verdict.FAIL
    assert verdicts(again) == {
        **dict.fromkeys(("G1.1", "G1.2", "G1.3"), Verdict.PASS),
        "G1.4": Verdict.NOT_RUN,
    }
    found = lineage(again)
    assert found.names == ("r1", "r2")
    assert (found.found_in["G1.1"], found.found_in["G1.2"]) == ("r2", "r1")
    assert verify(failed).ok


def test_a_retest_that_is_worse_counts_too(made: Any, failed: Path) -> None:
    again = made.run("r2", {("disk.ok", "n1", "D1"): False}, retest=cited(failed, "G1.2"))
    assert verdicts(again)["G1.2"] is Verdict.FAIL


def test_a_retest_alone_opens_no_gate(made: Any, failed: Path) -> None:
    again = made.run("r2", retest=cited(failed, "G1.2"))
    judged = [e.fields["disposition"] for e in RunReader(again).events("gate_judged")]
    assert judged == ["accepted"]  # by itself: G1.1 is not part of it
    disposition, why = decided(RunReader(again), "G1")
    assert disposition is Disposition.REJECTED
    assert "G1.1" in why


def test_a_replaced_part_takes_what_depended_on_it(made: Any, failed: Path) -> None:
    new = {"n1": ["disk:D2", "disk:D3", "product:S1"], "n2": ["product:S2"]}
    again = made.run("r2", serials=new, retest=cited(failed, "G1.1", changed=("n1/D1",)))
    found = lineage(again)
    findings = {f.criterion: f for g in found.result.gates for f in g.findings}
    disks = {h.item: h.verdict for h in findings["G1.2"].hosts}
    assert disks == {"D1": Verdict.NOT_RUN, "D2": Verdict.PASS}
    assert "disk:D1 was replaced by disk:D3 after run r1" in findings["G1.2"].because
    assert findings["G1.1"].verdict is Verdict.PASS  # measured after the change
    told = status(again, None, found.began).steps
    assert any("kvgate retest r2 --criterion G1.2,G1.3" in step.next for step in told)


def test_another_machine_takes_everything_on_it_and_nothing_elsewhere(
    made: Any, failed: Path
) -> None:
    new = {"n1": ["disk:D1", "disk:D2", "product:S9"], "n2": ["product:S2"]}
    again = made.run("r2", serials=new, retest=cited(failed, "G1.3"))
    findings = {f.criterion: f for g in lineage(again).result.gates for f in g.findings}
    assert {h.host: h.verdict for h in findings["G1.1"].hosts} == {
        "n1": Verdict.NOT_RUN,
        "n2": Verdict.PASS,
    }
    assert findings["G1.2"].verdict is Verdict.NOT_RUN


def test_firmware_that_changed_takes_its_part(made: Any, failed: Path) -> None:
    again = made.run("r2", {("disk.firmware", "n1", "D2"): "B"}, retest=cited(failed, "G1.3"))
    findings = {f.criterion: f for g in lineage(again).result.gates for f in g.findings}
    assert {h.item: h.verdict for h in findings["G1.2"].hosts} == {
        "D1": Verdict.PASS,
        "D2": Verdict.NOT_RUN,
    }
    assert "disk.firmware went from A to B" in findings["G1.2"].because


def test_firmware_is_asked_for_in_every_retest(made: Any, failed: Path) -> None:
    planned = plan(made, failed, "G1.1", reason="cable")
    assert planned.gates == ("G1",)
    assert planned.told["criteria"] == ["G1.1", "G1.3"]
    assert planned.told["asked"] == ["G1.1"]
    assert planned.told["seal"] == hash_file(failed / SUMS)


def test_a_changed_part_names_what_is_tested_again(made: Any, failed: Path) -> None:
    told = plan(made, failed, changed=["n1/D1"]).told
    assert told["criteria"] == ["G1.1", "G1.2", "G1.3"]
    assert told["asked"] == []


def test_a_soak_is_one_measurement_that_starts_from_zero(
    made: Any, failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G1 is taken for the soak: one class-A failure in it, or a replaced part, takes all of it."""
    monkeypatch.setattr("kvgate.engine.soak.needed", lambda _plan, gate: gate == "G1")
    assert plan(made, failed, "G1.1").told["criteria"] == ["G1.1", "G1.2", "G1.3"]
    new = {"n1": ["disk:D2", "disk:D3", "product:S1"], "n2": ["product:S2"]}
    again = made.run("r2", serials=new, retest=cited(failed, "G1.1", changed=("n1/D1",)))
    findings = {f.criterion: f for g in lineage(again).result.gates for f in g.findings}
    assert {h.verdict for h in findings["G1.2"].hosts} == {Verdict.NOT_RUN}  # D2 too
    assert {h.verdict for h in findings["G1.3"].hosts} == {Verdict.NOT_RUN}


def test_the_plan_limits_retries(made: Any, failed: Path) -> None:
    again = made.run("r2", {("one", "n1", ""): False}, retest=cited(failed, "G1.1"))
    with pytest.raises(UsageError, match="tested again 1 time, and the plan allows 1") as caught:
        plan(made, again, "G1.1")
    assert "deviation report" in caught.value.hint
    assert plan(made, again, "G1.2").told["of"] == "r2"


@pytest.mark.parametrize(
    ("asked", "more", "said"),
    [
        (("G1.9",), {}, "was not judged"),
        (("G1.4",), {}, "answered by people"),
        ((), {}, "needs --criterion"),
        ((), {"changed": ["n7"]}, "no host 'n7'"),
        ((), {"changed": ["n1/D9"]}, "nothing was judged on it; known: D1, D2"),
    ],
)
def test_what_can_not_be_tested_again_is_refused(
    made: Any, failed: Path, asked: tuple[str, ...], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        plan(made, failed, *asked, **more)


def test_a_run_that_was_tested_again_is_not_the_one_to_go_on_from(made: Any, failed: Path) -> None:
    made.run("r2", retest=cited(failed, "G1.1"))
    with pytest.raises(UsageError, match="was tested again in r2"):
        plan(made, failed, "G1.1")
    steps = status(failed, None, lineage(failed).began).steps
    assert steps[-1].next == "kvgate status r2"


def test_another_suite_is_another_test(made: Any, failed: Path) -> None:
    (made.root / "suites/g1/test_small.py").write_text("changed\n")
    with pytest.raises(StoreError, match="not the file that this run began with"):
        plan(made, failed, "G1.1")


def test_a_parent_that_is_gone_or_another_is_named(made: Any, failed: Path) -> None:
    wrong = cited(failed, "G1.1") | {"seal": "0" * 64}
    with pytest.raises(DamagedRunError, match="r1: is not as r2 cites it"):
        lineage(made.run("r2", retest=wrong))
    gone = cited(failed, "G1.1") | {"of": "r0"}
    with pytest.raises(StoreError, match="retests r0, which is not beside it"):
        lineage(made.run("r3", retest=gone))


def test_a_retest_is_verified_beside_what_it_retests(
    made: Any, failed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = made.run("r2", retest=cited(failed, "G1.1"))
    assert main(["dispose", str(again)]) == 1  # G1.4 is not answered
    archive = tmp_path / "r2.tar"
    assert main(["export", str(again), "-o", str(archive)]) == 0
    assert "it retests r1: export that too" in capsys.readouterr().out
    main(["verify", str(archive)])
    told = capsys.readouterr().out
    assert "12. lineage: not done" in told
    assert "unpack both into one folder" in told
    alone = tmp_path / "alone"
    with tarfile.open(archive) as file:
        file.extractall(alone, filter="data")
    step = lineage_step(alone / "r2")
    assert Outcome("r2", (step,), (), ()).exit_code == 2
    shutil.copytree(failed, alone / "r1")
    assert lineage_step(alone / "r2").result == "ok"
    with pytest.raises(UsageError, match="has no manual checks") as none:
        asked_of(again)
    assert "kvgate attest r1 asks them" in none.value.hint
    pack = alone / "r1/evidence/pack-000001.kvp"
    whole = pack.read_bytes()
    pack.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert any(p.path.startswith("r1/evidence") for p in lineage_step(alone / "r2").problems)
