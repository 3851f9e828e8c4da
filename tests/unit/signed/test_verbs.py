"""The verbs sign, export and verify, as people type them, and the key that countersigns."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kvgate.cli import main, parser_sign
from kvgate.engine import countersign
from kvgate.engine.countersign import KEY_VARIABLE, Nights, use_key
from kvgate.errors import UsageError
from kvgate.spec import control
from kvgate.store import statement
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter

if TYPE_CHECKING:
    from tests.unit.signed.conftest import Base, Site
else:
    Base = Site = Any


def test_the_command_line_knows_every_role_and_decision() -> None:
    assert parser_sign.ROLES == control.ROLES
    assert parser_sign.DECISIONS == statement.DECISIONS


def test_signing_exporting_and_verifying_say_what_was_done(
    base: Base, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--role", "witness", "--key", str(base.site.keys / "witness")]
    assert main(["sign", str(run), *words, "--decision", "witnessed"]) == 0
    told = capsys.readouterr().out
    assert "signed by the witness, Jo Roe (witness@example.com) for Witness AG: witnessed" in told
    assert "it proves who, not when" in told
    archive = tmp_path / "out.tar.zst"
    assert main(["export", str(run), "-o", str(archive), *words]) == 0
    assert "hand over all three" in capsys.readouterr().out
    assert main(["verify", str(archive), "--require", "witness"]) == 0
    told = capsys.readouterr().out
    assert "11. verdicts: ok" in told
    assert "witness Jo Roe: witnessed" in told.splitlines()[-1]
    archive.with_name("out.tar.zst.witness.sig").unlink()
    assert main(["verify", str(archive)]) == 1
    assert "NOT verified" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sign", "--role", "buyer", "--key", "k"], "name the run to sign"),
        (["sign", "RUN", "--role", "buyer", "--key", "k", "--protocol"], "no RUN"),
        (["sign", "RUN", "--role", "buyer", "--key", "k", "--plan", "p"], "--protocol --plan"),
        (["sign", "RUN", "--role", "buyer", "--key", "absent"], "is not registered as buyer"),
        (["export", "RUN", "--key", "k"], "go together"),
        (["export", "RUN", "-o", "x.zip"], ".tar.zst or .tar"),
        (["verify"], "name the run or the archive"),
        (["verify", "absent.tar"], "is no run"),
        (["verify", "RUN", "--allowed-signers", "absent"], "absent: can't be read"),
    ],
)
def test_what_is_asked_wrongly_says_what_is_right(
    base: Base, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(base.run) if word == "RUN" else word for word in words]
    assert main(["--workspace", str(base.site.root), *given]) in (3, 64)
    assert said in capsys.readouterr().err


def test_the_verifier_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--script", str(tmp_path / "verify.py")]) == 0
    assert "SHA-256" in capsys.readouterr().out
    assert main(["verify", "--script", str(tmp_path / "verify.py")]) == 64


def test_a_plan_with_a_controller_key_is_not_run_without_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = site.setup().plan.value
    use_key(plan, str(site.keys / "controller.pub"))
    monkeypatch.setenv(KEY_VARIABLE, "")
    with pytest.raises(UsageError, match="none is given"):
        use_key(plan, "")
    with pytest.raises(UsageError, match="'absent' is no key file"):
        use_key(plan, "absent")
    without = plan.model_copy(update={"control": None})
    use_key(without, "")
    with pytest.raises(UsageError, match="registers no control"):
        use_key(without, str(site.keys / "controller"))


def test_a_night_is_countersigned_once_by_the_documents_time_zone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = [
        datetime.datetime(2026, 5, 12, hour, minute, tzinfo=datetime.UTC)
        for hour, minute in ((14, 0), (15, 59), (16, 1), (17, 0), (23, 59))
    ]  # 16:00 UTC is midnight in Shanghai
    told = iter(moments)
    clock = SimpleNamespace(now=lambda zone: next(told).astimezone(zone))
    fake = SimpleNamespace(datetime=clock, UTC=datetime.UTC, date=datetime.date)
    run = site.begin()
    monkeypatch.setattr(countersign, "datetime", fake)
    with RunWriter.open(run) as writer:
        nights = Nights(writer, site.setup().plan.value)
        assert [nights.passed() for _ in moments[1:]] == [False, True, False, False]
    signed = [e.fields["statement"] for e in RunReader(run).events("countersigned")]
    assert [each.count("the night to 2026-05-13") for each in signed] == [0, 1]
