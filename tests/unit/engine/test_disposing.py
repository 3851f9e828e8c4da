"""Waivers signed by both parties, dispositions frozen, status: on runs made by hand."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from kvgate.cli import main
from kvgate.engine import disposing, waivers
from kvgate.engine.decided import decided
from kvgate.engine.judging import judge_stored
from kvgate.engine.status import status
from kvgate.model.verdict import Disposition
from kvgate.report.render import render
from kvgate.store.reader import RunReader
from kvgate.store.verify import verify

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
NOW = datetime.datetime.now(datetime.UTC)
TELLS = ("--requester", "Li", "--owner", "Chen", "--justification", "spare", "--risk", "none")
SEALS_FINE = ("--by", "Li Wei")


def kvgate(made: Any, *words: str) -> int:
    return main(["--workspace", str(made.root), *words])


def attest(made: Any, run: Path, answer: str = "yes") -> None:
    sheet = made.root / f"{run.name}.csv"
    rows = [f"G1.4/{host},{answer},{'a cut' if answer == 'no' else ''}" for host in ("n1", "n2")]
    sheet.write_text("check,answer,note\n" + "\n".join(rows) + "\n")
    assert kvgate(made, "attest", run.name, "--sheet", str(sheet), *SEALS_FINE) == 0


def waive(made: Any, run: Path, *more: str, expires: str = "2099-12-31") -> Path:
    words = ("waive", run.name, "--criterion", "G1.1", *TELLS, "--expires", expires, *more)
    assert kvgate(made, *words) == 0
    return max((made.root / "gates/waivers").glob("W-????.yaml"))


def sign(made: Any, waiver: Path, *roles: str) -> None:
    for role in roles:
        key = str(made.key(role))
        assert kvgate(made, "waive", "--sign", waiver.stem, "--role", role, "--key", key) == 0


@pytest.fixture
def failed(made: Any) -> Path:
    run: Path = made.run("r1", {("one", "n1", ""): False})
    attest(made, run)
    return run


def test_from_a_fail_to_accepted_with_conditions(
    made: Any, failed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiver = waive(made, failed)
    assert "serial: product:S1" in waiver.read_text()
    sign(made, waiver, "buyer", "supplier")
    capsys.readouterr()
    assert kvgate(made, "dispose", "r1") == 0
    out = capsys.readouterr().out
    assert "G1: fail, accepted with conditions: under W-0001 until 2099-12-31" in out
    assert verify(failed).ok
    assert disposing.altered(failed) == ()
    assert decided(RunReader(failed), "G1")[0] is Disposition.ACCEPTED_WITH_CONDITIONS
    assert kvgate(made, "status", "r1") in (0, 2)  # signatures may be missing
    told = capsys.readouterr().out
    assert "the FAIL stays beside it" in told
    assert "disposition 1 is frozen: accepted_with_conditions" in told


def test_one_signature_is_one_sided_and_status_names_who_and_how(made: Any, failed: Path) -> None:
    sign(made, waive(made, failed), "buyer")
    found = status(failed, made.root / "gates/waivers", NOW)
    assert found.disposed.disposition is Disposition.REJECTED
    (step,) = [each for each in found.steps if "W-0001" in each.what]
    assert "one-sided: the supplier" in step.what
    assert (step.by, step.next) == (
        "supplier",
        "kvgate waive --sign W-0001 --role supplier --key KEY",
    )


def test_what_may_stay_open_is_an_open_item_and_what_blocks_a_waiver(made: Any) -> None:
    run = made.run("r1", {("one", "n1", ""): False})
    attest(made, run, "no")
    nexts = {each.what[:4]: each.next for each in status(run, None, NOW).steps}
    assert nexts["G1.4"] == "kvgate waive r1 --criterion G1.4 --kind open_item"
    assert nexts["G1.1"].endswith("or accept it: kvgate waive r1 --criterion G1.1")


def test_a_text_changed_after_signing_is_not_what_was_signed(made: Any, failed: Path) -> None:
    waiver = waive(made, failed)
    sign(made, waiver, "buyer", "supplier")
    waiver.write_text(waiver.read_text().replace("2099-12-31", "2100-12-31"))
    (effect,) = status(failed, waiver.parent, NOW).disposed.effects
    assert not effect.holds
    assert "did not sign these bytes" in effect.because


def test_a_key_of_the_other_party_or_a_second_signature_is_refused(
    made: Any, failed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiver = waive(made, failed)
    words = ("waive", "--sign", waiver.stem, "--role", "supplier", "--key")
    assert kvgate(made, *words, str(made.key("buyer"))) == 64
    assert "is no key of the supplier" in capsys.readouterr().err
    sign(made, waiver, "supplier")
    assert kvgate(made, *words, str(made.key("supplier"))) == 3
    assert "approved it already" in capsys.readouterr().err


def test_expiry_ends_a_conditional_acceptance_and_what_was_frozen_stays(
    made: Any, failed: Path
) -> None:
    waiver = waive(made, failed, expires=NOW.date().isoformat())
    sign(made, waiver, "buyer", "supplier")
    assert kvgate(made, "dispose", "r1") == 0
    held = waivers.read(failed / "waivers").held
    after = disposing.propose(failed, held, NOW + datetime.timedelta(days=2))
    assert after.disposition is Disposition.REJECTED
    assert "expired" in after.effects[0].because
    assert disposing.altered(failed) == ()


def test_an_altered_disposition_is_named(made: Any, failed: Path) -> None:
    assert kvgate(made, "dispose", "r1") == 1
    path = failed / "dispositions/0001.json"
    stored = json.loads(path.read_bytes())
    stored["disposed"]["disposition"] = "accepted"
    path.write_text(json.dumps(stored))
    assert disposing.altered(failed) == (
        "dispositions/0001.json: disposition is not what the findings and waivers give",
    )


def test_a_frozen_waiver_is_never_replaced(
    made: Any, failed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiver = waive(made, failed)
    assert kvgate(made, "dispose", "r1") == 1
    waiver.write_text(waiver.read_text().replace("Chen", "Wang"))
    assert kvgate(made, "dispose", "r1") == 3
    assert "what was frozen stays" in capsys.readouterr().err


def test_files_that_are_not_sound_are_named_and_have_no_effect(made: Any, failed: Path) -> None:
    folder = made.root / "gates/waivers"
    folder.mkdir()
    (folder / "W-0007.yaml").write_text("waiver: W-0007\ncriterion: G1.1\nextra: 1\n")
    (folder / "W-0009.buyer.yaml").write_text("{}")
    found = waivers.read(folder)
    assert found.held == ()
    assert any("'extra' is not a key here" in each for each in found.problems)
    assert any("W-0009.buyer.yaml: approves a waiver" in each for each in found.problems)
    steps = status(failed, folder, NOW).steps
    assert any("it has no effect" in step.what for step in steps)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("waive", "r1"), "needs --criterion"),
        (("waive", "r1", "--criterion", "G1.1"), "--requester, --owner"),
        (("waive", "r1", "--criterion", "G1.2", *TELLS), "only what is known to have failed"),
        (("waive", "r1", "--criterion", "G1.77"), "did you mean"),
        (("waive", "--criterion", "G1.1"), "name the RUN"),
        (("waive", "r1", "--criterion", "G1.1", *TELLS, "--expires", "soon"), "is no day"),
        (("waive", "--sign", "W-0001", "--role", "buyer"), "goes with --role and --key"),
        (("dispose", "r9"), "is no run"),
    ],
)
def test_bad_input_is_refused_with_what_is_wrong(
    made: Any,
    failed: Path,
    words: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", (made.root / "gates/g1.yaml").open())
    assert kvgate(made, *words) == 64
    assert said in capsys.readouterr().err
    assert not list(made.root.glob("gates/waivers/*"))


def test_a_waiver_is_asked_for_on_a_terminal(
    made: Any, failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = iter(["Li", "", "Chen", "spare", "none", "2099-01-01"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _prompt: next(lines))
    assert kvgate(made, "waive", "r1", "--criterion", "G1.1") == 0
    (held,) = waivers.read(made.root / "gates/waivers").held
    assert (held.waiver.owner, held.waiver.expires) == ("Chen", "2099-01-01")
    assert [scope.host for scope in held.waiver.scope] == ["n1"]


def test_a_report_of_a_sealed_run_says_that_it_is_not_sealed_yet(
    made: Any, failed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (made.root / "templates").symlink_to(TEMPLATES)
    assert kvgate(made, "report", "r1", "--format", "md") == 0
    assert "`kvgate seal r1` seals this report too" in capsys.readouterr().err
    assert not verify(failed).ok
    assert kvgate(made, "seal", "r1") == 0
    assert verify(failed).ok


def test_an_unsealed_run_is_not_disposed_of(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made.run("r0", seal=False)
    assert kvgate(made, "dispose", "r0") == 3
    assert "is not sealed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["attestations", "dispositions", "waivers", "report"])
def test_nothing_is_written_where_a_link_in_a_run_leads(
    made: Any, failed: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    waive(made, failed)
    outside = made.root / "outside"
    outside.mkdir()
    if (failed / name).is_dir():
        (failed / name).rename(made.root / f"{name}-moved")
    (failed / name).symlink_to(outside)
    sheet = made.root / "again.csv"
    sheet.write_text("check,answer\nG1.4/n1,yes\n")
    assert kvgate(made, "attest", "r1", "--sheet", str(sheet), "--again", *SEALS_FINE) == 3
    assert f"'{name}' in it is a symbolic link" in capsys.readouterr().err
    assert kvgate(made, "dispose", "r1") == 3
    words = ("sign", "r1", "--role", "buyer", "--key", str(made.key("buyer")))
    assert kvgate(made, *words, "--decision", "witnessed") == 3
    assert list(outside.iterdir()) == []


def test_the_report_shows_the_waiver_beside_the_fail_and_who_answered(
    made: Any, failed: Path
) -> None:
    waiver = waive(made, failed)
    sign(made, waiver, "buyer", "supplier")
    assert kvgate(made, "dispose", "r1") == 0
    result = judge_stored(failed, attestations=True)
    made_of = render(RunReader(failed), result, formats=("md", "json", "html"), templates=TEMPLATES)
    page = json.loads(made_of["report.json"])
    (trouble,) = [each for each in page["troubles"] if each["criterion"] == "G1.1"]
    assert trouble["mark"] == "fail"
    assert trouble["waiver"] == "waiver W-0001 holds: until 2099-12-31; owner Chen"
    signoff = page["signoff"]
    assert signoff["disposition"] == "accepted with conditions"
    assert [row["by"] for row in signoff["answers"]] == ["Li Wei", "Li Wei"]
    assert [(row["label"], row["text"]) for row in signoff["document"][:2]] == [
        ("Document", "D-1, revision 1"),
        ("Project", "Joint test"),
    ]
    assert [(row["role"], row["people"], row["results"]) for row in signoff["parties"]] == [
        ("buyer", "B", "not signed"),
        ("supplier", "S", "not signed"),
    ]
    assert b"not approved before the run" in made_of["report.html"]
    assert b"Joint test" in made_of["report.md"]
    assert b"W\\-0001" in made_of["report.md"] or b"W-0001" in made_of["report.md"]
    assert b"Beside it" in made_of["report.html"]
    again = render(RunReader(failed), result, formats=("html",), templates=TEMPLATES)
    assert again["report.html"] == made_of["report.html"]
