"""The journal's head, signed while a run goes on: by the controller, or by hand by a second party.

Against whoever writes a whole chain anew before anything is sealed.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.signed.conftest import NOON, make_key
from tests.unit.signed.test_tampering import rewrite_journal, seal_anew

from kvgate.cli import main
from kvgate.engine.countersign import KEY_VARIABLE, use_key
from kvgate.engine.finish import finish_run
from kvgate.engine.sign import Signer, sign_head, sign_results
from kvgate.engine.status import status
from kvgate.errors import StoreError, UsageError
from kvgate.store import verify_head
from kvgate.store.run import RunWriter
from kvgate.store.signature import sign
from kvgate.store.statement import read_statement
from kvgate.store.story import Story

if TYPE_CHECKING:
    from tests.unit.signed.conftest import Site, Verify
else:
    Site = Verify = Any


@pytest.fixture
def unwatched(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return the site, its plan without a controller's key."""
    plan = site.root / "gates/plans/small.yaml"
    plan.write_text(re.sub(r"  controller_key:.*\n", "", plan.read_text()))
    monkeypatch.delenv(KEY_VARIABLE)
    return site


def by_hand(site: Site, run: Path, *roles: str) -> None:
    """Sign the head as somebody would beside the run's writer, then end the run."""
    with RunWriter.open(run) as writer:
        for role in roles:
            writer.event("note", text="a second party comes by")
            writer.sync()
            sign_head(run, site.signer(role))
    finish_run(run, render=None)


def test_a_second_party_countersigns_by_hand_beside_the_writer(
    unwatched: Site, verify: Verify
) -> None:
    run = unwatched.begin()
    by_hand(unwatched, run, "supplier", "witness")
    sign_results(run, unwatched.signer("buyer"))
    code, told = verify(run, require=["head", "buyer"])
    assert code == 0, told
    assert re.search(
        r"head: ok.*\n +record \d+: supplier: Ada Kern .*\n +record \d+: witness", told
    )
    assert "signed by buyer Li Wei: accepted" in told.splitlines()[-1]
    assert "throughout" not in told


def test_a_chain_written_anew_is_not_what_a_second_party_signed(
    unwatched: Site, verify: Verify
) -> None:
    run = unwatched.begin()
    by_hand(unwatched, run, "supplier")
    copy = Path(shutil.copytree(run / "signatures", unwatched.root / "kept by the supplier"))

    def earlier(record: dict[str, Any]) -> None:
        if record["kind"] == "run_begin":
            record["utc"] = "2026-01-01T00:00:00.000000Z"

    rewrite_journal(run, earlier)
    seal_anew(run)
    code, told = verify(run)
    assert code == 1
    assert "unproven: signatures/journal_head-supplier-1.json: it is under another chain" in told
    shutil.rmtree(run / "signatures")  # what takes it away is shown the supplier's copy
    seal_anew(run)
    assert verify(run)[0] == 0
    assert verify(run, require=["head"])[0] == 1
    shutil.copytree(copy, run / "signatures")
    assert "it is under another chain" in verify(run)[1]


def another(run: Path, changes: dict[str, Any], key: Path) -> None:
    """Put another statement and signature in place of the supplier's."""
    path = run / "signatures/journal_head-supplier-1.json"
    stored = json.loads(path.read_bytes())
    stored |= {"of": stored["of"] | changes.pop("of", {})} | changes
    data = (json.dumps(stored, sort_keys=True, indent=2) + "\n").encode()
    assert read_statement(data).content() == data
    path.write_bytes(data)
    path.with_suffix(".sig").write_text(sign(data, key=key))
    seal_anew(run)


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({}, "stranger", "is not authorised for 'supplier@example.com'"),
        ({"of": {"seq": 2}}, "supplier", "it is under another chain"),
        ({"of": {"seq": True}}, "supplier", "it is under another chain"),
        ({"of": {"seq": 10**9}}, "supplier", "it is under another chain"),
        ({"of": {"head": ["x"]}}, "supplier", "it is under another chain"),
        ({"purpose": "results"}, "supplier", "for 'results'"),
        ({"run": "another"}, "supplier", "it is under run 'another'"),
        ({"claimed_at": "2025-12-31T23:59:59.000000Z"}, "supplier", "was not yet valid"),
        ({"claimed_at": "2026-02-01T00:00:00.000000Z"}, "supplier", "was there (20"),
    ],
)
def test_a_head_signed_by_or_for_another_is_named(
    unwatched: Site, by_script: Verify, changes: dict[str, Any], key: str, said: str
) -> None:
    run = unwatched.begin()
    by_hand(unwatched, run, "supplier")
    another(run, changes, unwatched.keys / key)
    code, told = by_script(run)
    assert (code, said in told) == (1, True), told


def test_a_run_that_ended_or_is_damaged_is_not_countersigned(unwatched: Site) -> None:
    with pytest.raises(StoreError, match="is sealed, so that its journal ends"):
        sign_head(unwatched.run(), unwatched.signer("supplier"))
    run = unwatched.begin()
    with pytest.raises(StoreError, match="is not registered as supplier"):
        sign_head(run, Signer("supplier", unwatched.keys / "stranger"))
    (run / "signatures").symlink_to(unwatched.root)
    with pytest.raises(StoreError, match="'signatures' in it is a symbolic link"):
        sign_head(run, unwatched.signer("supplier"))
    (run / "signatures").unlink()
    journal = run / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"gate_begin", b"gate_bogin"))
    with pytest.raises(StoreError, match=r"journal is damaged: altered: .*record seq"):
        sign_head(run, unwatched.signer("supplier"))
    assert not (run / "signatures").exists()


def test_the_verb_tells_what_was_signed_and_status_what_was_not(
    unwatched: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run = unwatched.begin()
    words = ["sign", str(run), "--role", "supplier", "--key", str(unwatched.keys / "supplier")]
    assert main([*words, "--head", "--decision", "accepted"]) == 64
    assert "decides nothing" in capsys.readouterr().err
    assert main([*words, "--head"]) == 0
    told = capsys.readouterr().out
    assert "countersigned by the supplier, Ada Kern" in told
    assert "keep a copy of both files" in told
    finish_run(run, render=None)
    whole = status(run, None, NOON)
    (step,) = [each for each in whole.steps if "countersigned" in each.what]
    assert step.state == "done"
    (bare,) = [s for s in status(unwatched.run(), None, NOON).steps if "vouched" in s.what]
    assert bare.state == "barred"


def test_what_nobody_countersigned_is_told_and_can_be_required(site: Site, verify: Verify) -> None:
    site.approve("buyer")
    run = site.run()
    code, told = verify(run)
    assert (code, "registered by the approval of buyer alone" in told) == (0, True)
    assert "the journal's head is not countersigned throughout" in told.splitlines()[-1]
    code, told = verify(run, require=["head"])
    assert code == 1
    assert "unproven: journal.jsonl: the controller's key was registered by the approval" in told
    site.approve("supplier")
    assert verify(site.run(), require=["head"])[0] == 0


def _story(*opened: tuple[str, int, float], ended: tuple[int, float]) -> Story:
    made = Story()
    hour = datetime.timedelta(hours=1)
    made.opened = [(gate, seq, NOON + at * hour) for gate, seq, at in opened]
    made.ended = ended[0], NOON + ended[1] * hour
    return made


def test_a_day_without_a_countersignature_is_told() -> None:
    """72 h in a second: the records' times are made, the signatures' places too."""
    found = [(4, 0.0), (10, 24.0), (20, 72.0), (31, 72.1)]
    marks = [
        verify_head._Vouched(seq, NOON + datetime.timedelta(hours=at), by_hand=False, told="x")
        for seq, at in found
    ]
    sealed: Any = type("Sealed", (), {"story": _story(("G4", 5, 0.1), ended=(30, 72.0))})
    (said,) = verify_head._open(sealed, marks, [])
    assert said == "48 h from 2026-05-13T12:00:00Z on went by without a countersignature"
    assert "the close" in verify_head._open(sealed, marks[:3], [])[-1]
    for days, told in ((1, False), (3, True)):  # who signs the results soon vouches for the close
        later = NOON + datetime.timedelta(hours=72) + datetime.timedelta(days=days)
        results: Any = type("Results", (), {"at": later})
        whole = verify_head._open(sealed, marks[:3], [results])
        assert any("the close" in each for each in whole) is told
    assert "the opening of G4" in verify_head._open(sealed, marks[1:], [])[0]


def locked(folder: Path, name: str) -> str:
    line = make_key(folder, name)
    command = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(folder / name)]
    subprocess.run(command, check=True, timeout=60)
    return line


def test_a_controller_key_that_needs_somebody_or_is_another_is_refused_at_the_start(
    site: Site, tmp_path: Path
) -> None:
    plan = site.setup().plan.value
    locked(tmp_path, "locked")
    with pytest.raises(UsageError, match="can't countersign with nobody there"):
        use_key(plan, str(tmp_path / "locked"))
    with pytest.raises(UsageError, match="is not the controller key that plan 'small' registers"):
        use_key(plan, str(site.keys / "stranger"))
