"""What was altered is named by both verifiers, also where whoever did it sealed all anew."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvgate.store.canonical import compact, parse
from kvgate.store.chain import link, split
from kvgate.store.reader import RunReader
from kvgate.store.seal import seal
from kvgate.store.signature import sign
from kvgate.store.statement import read_statement

if TYPE_CHECKING:
    from tests.unit.signed.conftest import Base, Site, Verify
else:
    Base = Site = Verify = Any

Tamper = Callable[[Path, Path], None]


def swap(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert data.count(old), (path, old)
    path.write_bytes(data.replace(old, new, 1))


def evidence(run: Path, _other: Path) -> None:
    swap(run / "evidence/pack-000001.kvp", b"3 ms", b"2 ms")


def verdict(run: Path, _other: Path) -> None:
    swap(run / "findings.json", b'"verdict": "pass"', b'"verdict": "fail"')


def criteria(run: Path, _other: Path) -> None:
    swap(run / "inputs/gates/g1.yaml", b"at_most: 5 ms", b"at_most: 9 ms")


def keys_named(run: Path, _other: Path) -> None:
    swap(run / "inputs/allowed_signers", b"buyer@", b"nobody@")


def signature_of_another(run: Path, _other: Path) -> None:
    folder = run / "signatures"
    (folder / "results-buyer-1.sig").write_bytes((folder / "results-supplier-1.sig").read_bytes())


def decision(run: Path, _other: Path) -> None:
    swap(run / "signatures/results-buyer-1.json", b'"accepted"', b'"rejected"')


def removed_file(run: Path, _other: Path) -> None:
    (run / "verify.py").unlink()


def removed_signature(run: Path, _other: Path) -> None:
    for end in ("json", "sig"):
        (run / f"signatures/results-supplier-1.{end}").unlink()


def half_a_signature(run: Path, _other: Path) -> None:
    (run / "signatures/results-supplier-1.sig").unlink()


def added_file(run: Path, _other: Path) -> None:
    (run / "evidence-2.txt").write_text("proof")


def added_input(run: Path, _other: Path) -> None:
    (run / "inputs/gates/g9.yaml").write_text("gate: G9\n")


def reordered(run: Path, _other: Path) -> None:
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    lines[3], lines[4] = lines[4], lines[3]
    (run / "journal.jsonl").write_bytes(b"".join(lines))


def truncated(run: Path, _other: Path) -> None:
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (run / "journal.jsonl").write_bytes(b"".join(lines[:-3]))


def record_cut_out(run: Path, _other: Path) -> None:
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (run / "journal.jsonl").write_bytes(b"".join([*lines[:4], *lines[5:]]))


def evidence_of_another(run: Path, other: Path) -> None:
    shutil.copy(other / "evidence/pack-000001.kvp", run / "evidence/pack-000001.kvp")


def measurements_of_another(run: Path, other: Path) -> None:
    for name in ("evidence/pack-000001.kvp", "measurements.jsonl"):
        shutil.copy(other / name, run / name)


def layer_gone(run: Path, _other: Path) -> None:
    (run / "SHA256SUMS.2").unlink()


TAMPERING = {
    evidence: r"FAILED.*\n.*altered: evidence/pack-000001.kvp: evidence \w+ at byte",
    verdict: r"altered: findings.json",
    criteria: r"altered: inputs/gates/g1.yaml",
    keys_named: r"altered: inputs/allowed_signers",
    signature_of_another: r"signatures/results-buyer-1.sig: key SHA256:\S+ did not sign these",
    decision: r"altered: signatures/results-buyer-1.json",
    removed_file: r"missing: verify.py",
    removed_signature: r"missing: signatures/results-supplier-1.json",
    half_a_signature: r"missing: signatures/results-supplier-1.sig",
    added_file: r"added: evidence-2.txt",
    added_input: r"added: inputs/gates/g9.yaml",
    reordered: r"altered: journal.jsonl: record seq 4",
    truncated: r"altered: journal.jsonl",
    record_cut_out: r"missing: journal.jsonl: record seq 5",
    evidence_of_another: r"missing: evidence: evidence \w+, cited by measurements.jsonl line 1",
    measurements_of_another: r"altered: measurements.jsonl: line 1",
    layer_gone: r"missing: SHA256SUMS.2",
}
ANEW = {
    # Whoever seals all anew has to sign it anew: what the signer signed is told.
    evidence: r"evidence \w+ at byte",
    verdict: r"altered: SHA256SUMS.1: supplier signed SHA256SUMS.1 with SHA-256 \w+; it has \w+",
    criteria: r"altered: inputs/gates/g1.yaml: SHA-256 is \w+; the manifest says",
    signature_of_another: r"unproven: signatures/results-buyer-1.sig: key SHA256:\S+ did not sign",
    decision: r"unproven: signatures/results-buyer-1.sig: key SHA256:\S+ did not sign these bytes",
    removed_file: r"altered: SHA256SUMS.1: buyer signed SHA256SUMS.1",
    added_file: r"altered: SHA256SUMS.1: buyer signed SHA256SUMS.1",
    half_a_signature: r"signatures/results-supplier-1.json: .*results-supplier-1.sig: is missing",
    truncated: r"altered: SHA256SUMS: buyer signed SHA256SUMS with SHA-256",
    evidence_of_another: r"cited by measurements.jsonl line 1",
}


@pytest.mark.parametrize("tamper", TAMPERING, ids=lambda each: each.__name__)
def test_what_was_altered_is_named(run: Path, base: Base, verify: Verify, tamper: Tamper) -> None:
    tamper(run, base.other)
    code, told = verify(run)
    assert code == 1, told
    assert re.search(TAMPERING[tamper], told), told
    assert told.splitlines()[-1].startswith("NOT verified: ")


def seal_anew(run: Path) -> None:
    """Do what anybody can who may write the folder: hash every layer again, in order."""
    names = sorted(run.glob("SHA256SUMS*"), key=lambda path: path.suffix)
    here = {p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file()}
    covered: set[str] = set()
    for number, path in enumerate(names):
        found = {line[66:] for line in path.read_text().splitlines()} & here
        if number == 1:  # what was added is hidden where the findings are
            every = {line[66:] for each in names for line in each.read_text().splitlines()}
            found |= {n for n in here - every if not n.startswith("SHA256SUMS") and n != "lock"}
        covered |= found
        digests = {n: hashlib.sha256((run / n).read_bytes()).hexdigest() for n in sorted(found)}
        path.write_text("".join(f"{digest}  {n}\n" for n, digest in digests.items()))


@pytest.mark.parametrize("tamper", ANEW, ids=lambda each: each.__name__)
def test_what_was_altered_and_sealed_anew_is_named(
    run: Path, base: Base, verify: Verify, tamper: Tamper
) -> None:
    tamper(run, base.other)
    seal_anew(run)
    code, told = verify(run)
    assert code == 1, told
    assert re.search(ANEW[tamper], told), told


def test_sealing_anew_what_nobody_altered_changes_nothing(run: Path, verify: Verify) -> None:
    seal_anew(run)
    assert verify(run)[0] == 0


def rewrite_journal(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Write the whole chain anew with one thing changed: what countersigning is against."""
    head, lines = "0" * 64, []
    for line in (run / "journal.jsonl").read_bytes().splitlines(keepends=True):
        parts = split(line)
        assert parts is not None
        record = parse(parts[0])
        change(record)
        line, head = link(head, compact(record))
        lines.append(line)
    (run / "journal.jsonl").write_bytes(b"".join(lines))


def test_a_journal_written_anew_is_not_what_was_countersigned(run: Path, verify: Verify) -> None:
    def earlier(record: dict[str, Any]) -> None:
        if record["kind"] == "run_begin":
            record["utc"] = "2026-01-01T00:00:00.000000Z"

    for name in ("signatures", "SHA256SUMS.2", "SHA256SUMS.3"):
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    rewrite_journal(run, earlier)
    seal_anew(run)
    code, told = verify(run)
    assert code == 1
    assert re.search(r"unproven: journal.jsonl: countersignature in record seq \d+: .*chain", told)


def test_another_limit_than_was_approved_is_named(site: Site, verify: Verify) -> None:
    site.approve("buyer")
    gate = site.root / "gates/g1.yaml"
    gate.write_text(gate.read_text().replace("at_most: 5 ms", "at_most: 50 ms"))
    run = site.run("30 ms")
    notes = [str(event.fields["text"]) for event in RunReader(run).events("note")]
    assert any("G1.1 is not as the buyer approved on " in note for note in notes)  # in the report
    code, told = verify(run)
    assert code == 1
    assert "G1.1: buyer approved it on " in told
    assert "as 'a.time, inspection: at most 5 ms (definition " in told
    assert "judged as 'a.time, inspection: at most 50 ms (definition " in told
    assert "changed: inputs/gates/g1.yaml: buyer approved it on " in told
    site.approve("buyer")  # once he agrees, the runs to come carry that
    assert verify(site.run("30 ms"))[0] == 0


def forge(run: Path, key: Path, changes: dict[str, object]) -> None:
    """Put a signature by `key` into the run in place of the buyer's, with another statement."""
    path = run / "signatures/results-buyer-1.json"
    stored = json.loads(path.read_bytes()) | changes
    data = (json.dumps(stored, sort_keys=True, indent=2) + "\n").encode()
    assert read_statement(data).content() == data
    path.write_bytes(data)
    path.with_suffix(".sig").write_text(sign(data, key=key))
    (run / "SHA256SUMS.3").unlink()
    seal(run)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"claimed_at": "2025-12-31T23:59:59.000000Z"}, "was not yet valid at the claimed time"),
        ({"claimed_at": "2099-06-01T12:00:01.000000Z"}, "was no longer valid at the claimed time"),
        ({"claimed_at": "2026-02-01T00:00:00.000000Z"}, "before the last gate ended (20"),
        ({"principal": "supplier@example.com"}, "doesn't register Li Wei (supplier@example.com)"),
        ({"role": "supervisor"}, "as supervisor"),
        ({"party": "Another AG"}, "for Another AG as buyer"),
        ({"run": "20260101T000000Z-other-0000"}, "is under run '20260101T000000Z-other-0000'"),
        ({}, ""),
    ],
)
def test_a_key_is_judged_at_the_claimed_time_and_a_person_by_the_plan(
    run: Path, base: Base, verify: Verify, changes: dict[str, object], said: str
) -> None:
    forge(run, base.site.keys / "buyer", changes)
    code, told = verify(run)
    assert (code, said in told) == (1 if changes else 0, True), told


def test_a_strangers_signature_is_named_with_his_key(run: Path, base: Base, verify: Verify) -> None:
    forge(run, base.site.keys / "stranger", {})
    code, told = verify(run)
    assert code == 1
    assert "is not authorised for 'buyer@example.com': nobody is known by it" in told


@pytest.mark.parametrize(
    ("of", "exit_code"),
    [
        ({"conditions": 5, "decision": ["a"], "verdict": None}, 0),
        ({"layers": {"SHA256SUMS": 5}}, 1),
        ({"layers": ["SHA256SUMS"]}, 1),
        ({"layers": {}}, 1),
    ],
)
def test_a_signatory_who_writes_nonsense_breaks_nothing(
    run: Path, base: Base, by_script: Verify, of: dict[str, object], exit_code: int
) -> None:
    stored = json.loads((run / "signatures/results-buyer-1.json").read_bytes())["of"]
    forge(run, base.site.keys / "buyer", {"of": stored | of})
    assert by_script(run)[0] == exit_code


@pytest.mark.parametrize("name", ["manifest.json", "inputs/control.json", "inputs/criteria.json"])
@pytest.mark.parametrize("content", [b"[]", b"5", b"{}", b'{"inputs": [], "parties": 1}', b"\xff"])
def test_a_file_of_another_kind_breaks_nothing(
    run: Path, by_script: Verify, name: str, content: bytes
) -> None:
    (run / name).write_bytes(content)
    seal_anew(run)
    code, told = by_script(run)
    assert code == 1, told
    assert f"altered: {name}: " in told


def test_an_acceptance_of_what_can_be_none_is_named(run: Path, verify: Verify) -> None:
    swap(run / "manifest.json", b'"profile": "acceptance"', b'"profile": "rehearsal"')
    assert "it says acceptance, which can't be: its profile is rehearsal" in verify(run)[1]
