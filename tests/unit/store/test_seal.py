from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kvgate.errors import DamagedRunError, RunLockedError, StoreError
from kvgate.model.record import Evidence
from kvgate.store import canonical, chain, pack
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import Problem, seal, verify

Piece = Callable[..., Evidence]


def problems(path: Path) -> list[str]:
    state = verify(path)
    assert not state.ok
    return [f"{p.kind} {p.path} {p.detail}" for p in state.problems]


@pytest.fixture
def sealed(small_run: Path) -> Path:
    seal(small_run)
    (small_run / "report").mkdir()
    (small_run / "report/report.html").write_text("<html>")
    (small_run / "findings.json").write_text("{}")
    seal(small_run)
    return small_run


def test_layers_cover_the_run_then_what_came_later(sealed: Path) -> None:
    state = verify(sealed)
    assert state.ok
    assert [layer.name for layer in state.layers] == ["SHA256SUMS", "SHA256SUMS.1"]
    digest = hashlib.sha256((sealed / "SHA256SUMS.1").read_bytes()).hexdigest()
    assert state.layers[1].digest == digest
    for name in ("SHA256SUMS", "SHA256SUMS.1"):
        subprocess.run(
            ["sha256sum", "--check", "--strict", name],
            cwd=sealed,
            check=True,
            capture_output=True,
            timeout=60,
        )
    later = (sealed / "SHA256SUMS.1").read_text()
    assert [line.split()[1] for line in later.splitlines()] == [
        "SHA256SUMS",
        "findings.json",
        "report/report.html",
    ]
    with pytest.raises(StoreError, match="nothing new to seal"):
        seal(sealed)


def test_a_sealed_run_is_not_written_to(sealed: Path) -> None:
    assert RunReader(sealed).sealed()
    with pytest.raises(StoreError, match="is sealed"):
        RunWriter.open(sealed)


def test_a_run_being_written_is_not_sealed(tmp_path: Path) -> None:
    with (
        RunWriter.create(tmp_path / "run", {}, {}) as run,
        pytest.raises(RunLockedError),
    ):
        seal(run.path)


def test_an_unsealed_run_is_checked_and_not_ok(small_run: Path) -> None:
    assert problems(small_run) == ["unsealed . the run is not sealed: anyone may change it unseen"]
    file = small_run / "telemetry.jsonl"
    file.write_bytes(file.read_bytes().replace(b"5", b"9", 1))
    assert any(p.startswith("altered telemetry.jsonl") for p in problems(small_run))
    with pytest.raises(DamagedRunError):
        seal(small_run)


def test_sealing_a_crashed_run_recovers_it_first(small_run: Path) -> None:
    with (small_run / "journal.jsonl").open("ab") as file:
        file.write(b'{"torn')
    seal(small_run)
    assert verify(small_run).ok
    assert any("bytes cut" in e.fields["text"] for e in RunReader(small_run).events("note"))


def test_every_flipped_byte_is_named(sealed: Path) -> None:
    """In each file of the run, and inside where a file has records or pieces."""
    chance = random.Random(3)  # noqa: S311
    tried = 0
    for file in sorted(sealed.rglob("*")):
        if not file.is_file() or file.name == "lock":
            continue
        name, whole = str(file.relative_to(sealed)), file.read_bytes()
        for at in {0, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(12))}:
            changed = bytearray(whole)
            changed[at] ^= 1 << chance.randrange(8)
            file.write_bytes(changed)
            found = problems(sealed)
            # The last layer's own file is vouched for by its signature alone: there both sides
            # of a comparison are named.
            named = [
                p
                for p in found
                if p.startswith(f"altered {name} ")
                or (file.name.startswith("SHA256SUMS") and name in p)
            ]
            assert named, (name, at, found)
            line = whole[:at].count(b"\n") + 1
            if name.endswith(".jsonl"):
                word = "record seq" if name == "journal.jsonl" else "line"
                spans = [
                    range(int(a), int(b or a) + 1)
                    for p in named
                    for a, b in re.findall(rf"{word} (\d+)(?: to (\d+))?", p)
                ]
                known = {line, line - 1} if at == len(whole) - 1 else {line}  # the last newline
                assert any(known & set(span) for span in spans), (at, named)
            if name.startswith("evidence/"):
                assert any(ref_at(whole, at) in p for p in named), (at, named)
            tried += 1
        file.write_bytes(whole)
    assert verify(sealed).ok
    assert tried > 80


def ref_at(data: bytes, at: int) -> str:
    """Return the SHA-256 of the piece whose frame, bytes or newline are at `at`."""
    end = 0
    while end <= at:
        frame = pack.read_frame(data[end : end + pack.FRAME_BYTES])
        assert frame is not None
        end += pack.FRAME_BYTES + frame[1] + 1
    return frame[0]


def lines(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


@pytest.mark.parametrize("name", ["journal.jsonl", "measurements.jsonl"])
def test_lines_taken_out_put_in_and_swapped_are_named(sealed: Path, name: str) -> None:
    word = "record seq" if name == "journal.jsonl" else "line"
    file, whole = sealed / name, (sealed / name).read_bytes()
    cases: list[tuple[Callable[[list[bytes]], list[bytes]], str]] = [
        (lambda all_: all_[:1] + all_[2:], f"missing {name} {word} 2"),
        (lambda all_: all_[:1] + all_[3:], f"missing {name} {word} 2 to 3"),
        (lambda all_: all_[:2] + all_[1:], f"{name} "),
        (lambda all_: [all_[1], all_[0], *all_[2:]], f"altered {name} {word} 1"),
    ]
    for change, expected in cases:
        lines(file, change)
        assert any(expected in p for p in problems(sealed)), (expected, problems(sealed))
        file.write_bytes(whole)
    lines(file, lambda all_: all_[:-1])
    assert any(name in p for p in problems(sealed))


def test_rewritten_measurements_are_noticed_though_their_own_chain_holds(small_run: Path) -> None:
    """Whoever computes a new chain still has the journal against him."""
    file = small_run / "measurements.jsonl"
    before, out = canonical.sha256((small_run / "manifest.json").read_bytes()), []
    for raw in file.read_bytes().splitlines(keepends=True):
        parts = chain.split(raw)
        assert parts is not None
        line, before = chain.link(before, parts[0].replace(b'"number":"3"', b'"number":"1"'))
        out.append(line)
    file.write_bytes(b"".join(out))
    found = problems(small_run)
    assert any("journal record" in p and p.startswith("altered measurements.jsonl") for p in found)
    with pytest.raises(DamagedRunError):
        RunReader(small_run).measurements()


def test_missing_and_added_files_are_named(sealed: Path) -> None:
    (sealed / "report/report.html").unlink()
    (sealed / "inputs/extra.yaml").write_text("x")
    (sealed / "evidence/stray").write_text("x")
    (sealed / "notes.txt").write_text("x")
    found = problems(sealed)
    for expected in (
        "missing report/report.html",
        "added inputs/extra.yaml",
        "added evidence/stray",
        "added notes.txt",
    ):
        assert any(p.startswith(expected) for p in found), (expected, found)


@pytest.mark.parametrize(
    "name",
    [
        "manifest.json",
        "journal.jsonl",
        "measurements.jsonl",
        "telemetry.jsonl",
        "inputs/plan.yaml",
        "evidence/pack-000001.kvp",
        "SHA256SUMS",
    ],
)
def test_a_missing_file_is_named(sealed: Path, name: str) -> None:
    (sealed / name).unlink()
    assert any(p.startswith(f"missing {name}") for p in problems(sealed))


def test_evidence_that_is_cited_and_gone_is_named(small_run: Path, piece: Piece) -> None:
    file = small_run / "evidence/pack-000001.kvp"
    data, ref = file.read_bytes(), RunReader(small_run).measurements()[1].evidence[0]
    start = data.index(pack.MAGIC + ref.encode())
    end = data.index(pack.MAGIC, start + 1)
    file.write_bytes(data[:start] + data[end:])
    found = problems(small_run)
    assert any(
        f"missing evidence evidence {ref}, cited by measurements.jsonl line 2" in p for p in found
    ), found


def test_links_devices_and_ways_out_are_reported_and_not_followed(
    sealed: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    shutil.move(sealed / "findings.json", secret)
    (sealed / "findings.json").symlink_to(secret)  # the very bytes that were sealed, elsewhere
    (sealed / "loop").symlink_to(sealed)
    os.mkfifo(sealed / "report/pipe")
    found = problems(sealed)
    for expected in (
        "added findings.json is a symbolic link: not followed",
        "missing findings.json",
        "added loop is a symbolic link",
        "added report/pipe is a pipe",
    ):
        assert any(p.startswith(expected) for p in found), (expected, found)
    with (sealed / "SHA256SUMS").open("ab") as file:
        file.write(b"0" * 64 + b"  ../secret\n")
    assert any("'../secret' is not a safe name" in p for p in problems(sealed))


def test_what_can_trick_a_terminal_is_not_sealed_and_shown_escaped(sealed: Path) -> None:
    (sealed / "report/\x1b[2Jx").write_text("x")
    with pytest.raises(StoreError):
        seal(sealed)
    assert all(p.isprintable() for p in problems(sealed))


def test_layers_without_a_gap(sealed: Path) -> None:
    (sealed / "SHA256SUMS.1").rename(sealed / "SHA256SUMS.2")
    assert any(p.startswith("missing SHA256SUMS.1") for p in problems(sealed))


def test_a_torn_piece_and_a_damaged_length_are_named(small_run: Path, piece: Piece) -> None:
    seal(small_run)
    file = small_run / "evidence/pack-000001.kvp"
    data = file.read_bytes()
    refs = [m.evidence[0] for m in RunReader(small_run).measurements()]
    tens = pack.FRAME_BYTES - 3
    digit = b"1" if data[tens : tens + 1] == b"2" else b"2"
    file.write_bytes(data[:tens] + digit + data[tens + 1 :])
    found = [p for p in problems(small_run) if p.startswith("altered evidence/pack-")]
    assert len(found) == 1
    assert refs[0] in found[0]
    file.write_bytes(data[:-4])
    assert any("no whole piece" in p for p in problems(small_run))


def test_an_unknown_format_is_refused_not_reported(small_run: Path) -> None:
    """A run of another version is no damaged run; an altered format field is."""
    manifest = small_run / "manifest.json"
    manifest.write_text(manifest.read_text().replace("kvgate-run/1", "kvgate-run/2"))
    assert any(p.startswith("altered manifest.json") for p in problems(small_run))
    body = canonical.compact(
        {
            "boot": "",
            "kind": "manifest",
            "mono": 1.0,
            "seq": 1,
            "sha256": canonical.sha256(manifest.read_bytes()),
            "utc": "2026-05-12T12:00:00.000000Z",
        }
    )
    (small_run / "journal.jsonl").write_bytes(chain.link("0" * 64, body)[0])
    with pytest.raises(StoreError, match="kvgate-run/2"):
        verify(small_run)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a run folder"):
        verify(tmp_path)
    assert str(Problem("a", "added", "b")) == "added: a: b"
