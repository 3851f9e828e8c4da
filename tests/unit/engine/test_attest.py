"""Manual checks: on a terminal and from sheets, resumable, judged once all are answered."""

from __future__ import annotations

import datetime
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.cli import main
from kvgate.engine import attest, attest_sheet
from kvgate.engine.judging import judge_stored
from kvgate.errors import DamagedRunError, RunLockedError, SpecError, UsageError
from kvgate.model.attested import Answer, Question
from kvgate.model.record import ALL_HOSTS
from kvgate.model.verdict import Verdict
from kvgate.store import attested, disk
from kvgate.store.reader import RunReader
from kvgate.store.verify import verify


def kvgate(made: Any, *words: str) -> int:
    return main(["--workspace", str(made.root), *words])


def verdict(run: Path) -> Verdict:
    result = judge_stored(run, attestations=True)
    return next(f.verdict for g in result.gates for f in g.findings if f.criterion == "G1.4")


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    left = iter(lines)

    def read(_prompt: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", read)


@pytest.fixture
def run(made: Any) -> Path:
    path: Path = made.run("r1")
    return path


def test_a_walk_is_interrupted_goes_on_and_is_judged(
    made: Any, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = made.root / "seal.jpg"
    photo.write_bytes(b"\xff\xd8\xff\xe0rest")
    typed(monkeypatch, "Li Wei", "perhaps", "y", "all tight", str(photo))
    assert kvgate(made, "attest", "r1") == 3  # the terminal went away behind the first answer
    assert verdict(run) is Verdict.NOT_RUN
    typed(monkeypatch, "Wang", "yes", "", "")
    assert kvgate(made, "attest", "r1") == 0
    first, second = attested.answers(run)
    assert (first.by, first.note, second.by) == ("Li Wei", "all tight", "Wang")
    path = attested.photo_path(run, first.photos[0].sha256)
    assert path is not None
    assert path.read_bytes() == photo.read_bytes()
    assert verdict(run) is Verdict.PASS
    assert verify(run).ok
    assert "2 of 2 checks are answered" in capsys.readouterr().out


def test_a_no_needs_a_note_and_fails_at_once(
    made: Any, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "no", "", "label torn", "", "quit")
    assert kvgate(made, "attest", "r1", "--by", "Li") == 2
    (answer,) = attested.answers(run)
    assert (answer.ok, answer.note) == (False, "label torn")
    assert verdict(run) is Verdict.FAIL


def test_a_later_answer_counts_and_both_stay(
    made: Any, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "no", "torn", "", "yes", "", "")
    assert kvgate(made, "attest", "r1", "--by", "Li") == 0
    typed(monkeypatch, "yes", "only the film", "", "skip")
    assert kvgate(made, "attest", "r1", "--by", "Li", "--again") == 0
    assert len(attested.answers(run)) == 3
    assert verdict(run) is Verdict.PASS


def test_what_cites_an_answer_finds_it_as_evidence(
    made: Any, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "yes", "", "", "yes", "", "")
    assert kvgate(made, "attest", "r1", "--by", "Li") == 0
    result = judge_stored(run, attestations=True)
    finding = next(f for g in result.gates for f in g.findings if f.criterion == "G1.4")
    piece = RunReader(run).evidence(finding.evidence[0])
    assert b'"by": "Li"' in piece.stdout


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_a_sheet_goes_out_blank_and_comes_back_filled(
    made: Any, run: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = made.root / f"checks.{suffix}"
    assert kvgate(made, "attest", "r1", "--write-sheet", str(sheet)) == 0
    (made.root / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    if suffix == "csv":
        text = sheet.read_text("utf-8-sig").replace("n1,Seals are whole,,,,", "n1,q,yes,,a.png,Li")
        sheet.write_text(text, "utf-8")
    else:
        import openpyxl

        book = openpyxl.load_workbook(sheet)
        page = book.active
        assert page is not None
        page["D2"], page["F2"], page["G2"] = "是", "a.png", "Li"
        book.save(sheet)
    assert kvgate(made, "attest", "r1", "--sheet", str(sheet)) == 2
    assert kvgate(made, "attest", "r1", "--sheet", str(sheet)) == 2  # again: nothing is doubled
    (answer,) = attested.answers(run)
    assert (answer.key, answer.ok, answer.by) == ("G1.4/n1", True, "Li")
    assert answer.photos[0].name == "a.png"
    assert kvgate(made, "attest", "r1", "--write-sheet", str(sheet)) == 64  # never over a file
    assert "nothing was written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("check,reply\n", "no column 'answer'"),
        ("check,answer\nG1.4/n9,yes\n", "'G1.4/n9' is no check of this run; did you mean"),
        ("check,answer\nG1.4/n1,maybe\n", "row 2.*'maybe' is neither yes nor no"),
        ("check,answer\nG1.4/n1,yes\nG1.4/n1,no\n", "answered twice"),
        (
            "check,answer,note\nG1.4/n1,no,torn, at the rear\n",
            "row 2.*' at the rear' stands behind",
        ),
        ("check，answer\nG1.4/n1，yes\n", "no column 'check'"),
        ('check,answer\n"G1.4/n1,yes\n', "no sound CSV"),
        ("check,answer,photos\nG1.4/n1,yes,../key\n", "row 2.*'../key' does not lie beside"),
        ("check,answer,photos\nG1.4/n1,yes,/etc/passwd\n", "does not lie beside"),
        ("check,answer,photos\nG1.4/n1,yes,a.jpg;link/x\n", "'link/x' does not lie beside"),
    ],
)
def test_a_sheet_that_is_not_understood_names_the_cell(
    made: Any, run: Path, rows: str, said: str
) -> None:
    sheet = made.root / "bad.csv"
    sheet.write_text(rows)
    (made.root / "link").symlink_to("/etc")
    with pytest.raises(SpecError, match=said):
        attest_sheet.read(sheet, attest.asked_of(run), "Li")
    assert attested.answers(run) == ()


def test_a_sheet_typed_full_width_is_read(made: Any, run: Path) -> None:
    sheet = made.root / "wide.csv"
    sheet.write_text("ｃｈｅｃｋ,ａｎｓｗｅｒ,by\nＧ１．４／ｎ１,ＹＥＳ,李\nG1.4/n2,不合格,李\n")
    told = attest_sheet.read(sheet, attest.asked_of(run), "")
    assert [(each.question.key, each.ok, each.by) for each in told] == [
        ("G1.4/n1", True, "李"),
        ("G1.4/n2", False, "李"),
    ]


@pytest.mark.parametrize("name", ["Li\nWei", "Li \u202eieW", "Li\x1b[2J", " \t"])
def test_a_name_that_does_not_read_as_it_is_written_is_refused(
    made: Any, run: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = made.root / "names.csv"
    sheet.write_text("check,answer\nG1.4/n1,yes\n")
    assert kvgate(made, "attest", "r1", "--sheet", str(sheet), "--by", name) == 64
    assert "who looked" in capsys.readouterr().err
    assert attested.answers(run) == ()


def test_nothing_of_a_sheet_is_stored_where_any_row_is_wrong(
    made: Any, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = made.root / "bad.csv"
    sheet.write_text("check,answer,photos\nG1.4/n1,yes,\nG1.4/n2,yes,gone.jpg\n")
    assert kvgate(made, "attest", "r1", "--sheet", str(sheet), "--by", "Li") == 64
    assert "gone.jpg: No such file" in capsys.readouterr().err
    assert attested.answers(run) == ()


def test_two_can_not_attest_one_run_at_once(run: Path) -> None:
    second = attested.writing(run)
    with attested.writing(run), pytest.raises(RunLockedError, match="somebody else"):
        second.__enter__()


def test_an_altered_answer_and_one_of_another_run_are_named(made: Any, run: Path) -> None:
    told = attest.Told(question=attest.asked_of(run)[0], ok=True, by="Li")
    with attested.writing(run):
        attest.record(run, told, strip=False)
    path = run / attested.FOLDER / "0001.json"
    path.write_bytes(path.read_bytes().replace(b'"r1"', b'"r2"'))
    with pytest.raises(DamagedRunError, match="about another run"):
        attested.answers(run)
    path.write_bytes(b"{")
    with pytest.raises(DamagedRunError, match="is no attestation"):
        attested.answers(run)


def test_an_answer_is_whole_or_not_there(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = attest.Told(question=attest.asked_of(run)[0], ok=True, by="Li")

    def killed(*_: object) -> None:
        raise SystemExit(9)

    with monkeypatch.context() as patched, attested.writing(run):
        patched.setattr(disk, "_name", killed)
        with pytest.raises(SystemExit):
            attest.record(run, told, strip=False)
    assert attested.answers(run) == ()
    with attested.writing(run):
        attest.record(run, told, strip=False)
    assert attest.seal_answers(run)
    assert verify(run).ok
    assert [path.name for path in (run / attested.FOLDER).iterdir()] == ["0001.json"]


def walk(made: Any, *typed: str, until: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start `kvgate attest` on a terminal of its own, type, and return once it says `until`."""
    ours, theirs = pty.openpty()
    words = ("--workspace", str(made.root), "attest", "r1", "--by", "Li")
    child = subprocess.Popen(
        [sys.executable, "-m", "kvgate", *words], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, "".join(f"{each}\n" for each in typed).encode())
    told = b""
    while until.encode() not in told:
        told += os.read(ours, 4096)
    return child, told.decode()


@pytest.mark.whole
def test_a_walk_that_is_killed_goes_on_with_what_is_open(made: Any, run: Path) -> None:
    child, told = walk(made, "yes", "tight", "", until="[2 of 2]")
    assert "[1 of 2] n1" in told
    os.kill(child.pid, signal.SIGKILL)
    child.wait(30)
    assert [each.note for each in attested.answers(run)] == ["tight"]
    child, told = walk(made, "yes", "", "", until="2 of 2 checks are answered")
    assert "[1 of 1] n2" in told
    assert child.wait(30) == 0
    assert verdict(run) is Verdict.PASS
    assert verify(run).ok


def test_a_run_without_manual_checks_says_so(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvgate.engine.attested.questions", lambda *_: ())
    with pytest.raises(UsageError, match="has no manual checks"):
        attest.asked_of(made.run("r1"))


@settings(max_examples=12, deadline=None)
@given(st.text(max_size=60), st.text(min_size=1, max_size=30), st.booleans())
def test_what_people_write_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, note: str, by: str, ok: bool
) -> None:
    run = tmp_path_factory.mktemp("run")
    (run / "manifest.json").write_text('{"format": "kvgate-run/1", "inputs": {}, "run": "r"}')
    (run / attested.FOLDER).mkdir()
    question = Question(key="G1.1/n", criterion="G1.1", where="n", host=ALL_HOSTS, text="?")
    answer = Answer(
        key=question.key,
        criterion="G1.1",
        asked="?",
        ok=ok,
        by=by,
        at=datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC),
        typed_by="u",
        note=note,
    )
    stored = attested.write(run, answer)
    assert attested.answers(run) == (stored,)
