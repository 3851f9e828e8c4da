from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kvgate.errors import DamagedRunError, RunLockedError, StoreError
from kvgate.model.record import Evidence, Measurement
from kvgate.store import evidence
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter

Piece = Callable[..., Evidence]
Taken = Callable[..., Measurement]


def create(path: Path) -> RunWriter:
    return RunWriter.create(path / "run", {"who": "eng"}, {"plan.yaml": b"plan"})


def test_what_was_written_is_read_again(small_run: Path, piece: Piece) -> None:
    reader = RunReader(small_run)
    assert [m.value.number for m in reader.measurements()] == [1, 2, 3]
    assert [event.seq for event in reader.events()] == list(range(1, 10))
    first = next(reader.events())
    assert first.kind == "manifest"
    assert first.utc.tzinfo is datetime.UTC
    assert [s["iops"] for s in reader.telemetry()] == [5, 6]
    ref = reader.measurements()[0].evidence[0]
    assert reader.evidence(ref) == piece("one")
    assert reader.input("gates/g1.yaml") == b"g"
    assert [a.criterion for a in reader.attempts()] == ["G1.1"]
    assert not reader.sealed()


def test_journal_lines_chain_as_documented(small_run: Path) -> None:
    before = "0" * 64
    for line in (small_run / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)
        chain = record.pop("chain")
        body = json.dumps(record, sort_keys=True, separators=(",", ":"))
        before = hashlib.sha256((before + body).encode()).hexdigest()
        assert chain == before
        assert {"seq", "utc", "mono", "boot", "kind"} <= record.keys()
        assert record["utc"].endswith("Z")
    assert RunReader(small_run).journal_digest() == before


def test_nothing_in_a_run_names_where_it_lies(small_run: Path, tmp_path: Path) -> None:
    for file in small_run.rglob("*"):
        if file.is_file():
            assert str(tmp_path).encode() not in file.read_bytes()
    moved = tmp_path / "elsewhere" / "moved"
    shutil.copytree(small_run, moved)
    shutil.rmtree(small_run)
    with RunWriter.open(moved) as run:
        assert run.finished_blocks() == {"a"}
        run.event("resumed")
    assert len(RunReader(moved).measurements()) == 3


def test_only_committed_measurements_are_seen_while_writing(tmp_path: Path, taken: Taken) -> None:
    with create(tmp_path) as run:
        reader = RunReader(run.path)
        run.begin_block("a")
        run.measure(taken(1, block="a"))
        run.measure(taken(2))
        assert reader.measurements() == ()
        run.sync()
        assert [m.value.number for m in reader.measurements()] == [2]
        run.end_block("a")
        assert [m.value.number for m in reader.measurements()] == [1, 2]


def test_discarded_block_stays_out_when_its_key_is_done_again(tmp_path: Path, taken: Taken) -> None:
    with create(tmp_path) as run:
        run.begin_block("a")
        run.measure(taken(1, block="a"))
        run.discard_block("a", "host lost")
        run.begin_block("a")
        run.measure(taken(2, block="a"))
        run.end_block("a")
    assert [m.value.number for m in RunReader(run.path).measurements()] == [2]
    assert [e.fields["reason"] for e in RunReader(run.path).events("block_discarded")] == [
        "host lost"
    ]


def test_open_blocks_are_discarded_by_close(tmp_path: Path, taken: Taken) -> None:
    with create(tmp_path) as run:
        run.begin_block("a")
        run.measure(taken(1, block="a"))
    reader = RunReader(run.path)
    assert reader.measurements() == ()
    assert [e.fields["block"] for e in reader.events("block_discarded")] == ["a"]


def test_torn_block_is_discarded_by_open_and_can_be_done_again(
    tmp_path: Path, taken: Taken
) -> None:
    run = create(tmp_path)
    run.begin_block("a")
    run.measure(taken(1, block="a"))
    run.event("gate_end", gate="G1", outcome="x")
    run._let_go()  # the process is gone
    with RunWriter.open(run.path) as again:
        assert again.finished_blocks() == frozenset()
        again.begin_block("a")
        again.measure(taken(2, block="a"))
        again.end_block("a")
        assert again.finished_blocks() == {"a"}
    reader = RunReader(run.path)
    assert [m.value.number for m in reader.measurements()] == [2]
    assert [e.fields["reason"] for e in reader.events("block_discarded")] == ["torn"]


@pytest.mark.parametrize("tail", [b'{"seq": 99, "ki', b"\0" * 4096, b'{"a"' + b"\0" * 100])
def test_torn_journal_end_is_cut_and_owned_up_to(small_run: Path, tail: bytes) -> None:
    journal = small_run / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + tail)
    before = list(RunReader(small_run).events())  # a reader passes over it
    RunWriter.open(small_run).close()
    assert journal.read_bytes().startswith(whole)
    events = list(RunReader(small_run).events())
    assert events[: len(before)] == before
    assert f"{len(tail)} bytes cut" in events[len(before)].fields["text"]


def test_altered_record_in_the_middle_is_refused_by_name(small_run: Path) -> None:
    journal = small_run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"kind"', b'"kinD"')
    journal.write_bytes(b"".join(lines))
    with pytest.raises(DamagedRunError, match="record 4 "):
        RunWriter.open(small_run)
    with pytest.raises(DamagedRunError, match="record 4 "):
        list(RunReader(small_run).events())


@pytest.mark.parametrize("name", ["measurements.jsonl", "evidence/pack-000001.kvp"])
def test_acknowledged_bytes_that_are_gone_are_refused_not_cut(small_run: Path, name: str) -> None:
    file = small_run / name
    data = file.read_bytes()
    file.write_bytes(data[:-5])
    with pytest.raises(DamagedRunError):
        RunWriter.open(small_run)
    assert file.read_bytes() == data[:-5]


def test_altered_manifest_or_input_is_refused(small_run: Path) -> None:
    (small_run / "inputs/plan.yaml").write_bytes(b"other")
    with pytest.raises(DamagedRunError, match=r"plan\.yaml"):
        RunWriter.open(small_run)
    (small_run / "inputs/plan.yaml").write_bytes(b"plan")
    manifest = small_run / "manifest.json"
    manifest.write_text(manifest.read_text().replace("eng", "boss"))
    with pytest.raises(DamagedRunError, match="record 1 binds"):
        RunWriter.open(small_run)


def test_unknown_format_is_refused(small_run: Path) -> None:
    manifest = small_run / "manifest.json"
    manifest.write_text(manifest.read_text().replace("kvgate-run/1", "kvgate-run/2"))
    for use in (RunWriter.open, RunReader):
        with pytest.raises(StoreError, match=r"kvgate-run/2.*newer than kvgate-run/1"):
            use(small_run)


def test_second_writer_is_told_who_holds_the_run(tmp_path: Path) -> None:
    with create(tmp_path) as run, pytest.raises(RunLockedError, match=f"process {os.getpid()} on"):
        RunWriter.open(run.path)
    RunWriter.open(run.path).close()


def test_lock_ends_with_its_process(small_run: Path) -> None:
    code = (
        "import sys, os, pathlib; from kvgate.store.run import RunWriter\n"
        "run = RunWriter.open(pathlib.Path(sys.argv[1])); print('held', flush=True)\n"
        "sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(small_run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(RunLockedError, match=f"process {child.pid} on"):
            RunWriter.open(small_run)
        child.kill()
        child.wait(20)
    RunWriter.open(small_run).close()


def test_folder_that_holds_something_is_refused(tmp_path: Path, small_run: Path) -> None:
    with pytest.raises(StoreError, match="not empty"):
        RunWriter.create(small_run, {}, {})


@pytest.mark.parametrize(
    "name", ["", "../x", "/x", "a/../b", "a\nb", "a\\b", "a//b", "-x", ".", "\x1b[2J"]
)
def test_unsafe_input_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="not a safe name"):
        RunWriter.create(tmp_path / "run", {}, {name: b""})


def test_calls_that_make_no_sense_are_refused_and_leave_the_writer_usable(
    tmp_path: Path, taken: Taken
) -> None:
    with create(tmp_path) as run:
        refused: list[Callable[[], object]] = [
            lambda: run.begin_block(""),
            lambda: run.end_block("a"),
            lambda: run.discard_block("a", "x"),
            lambda: run.measure(taken(1, block="a")),
            lambda: run.measure(taken(1, evidence=("0" * 64,))),
            lambda: run.measure(taken(1, taken_at=datetime.datetime(2026, 1, 1))),  # noqa: DTZ001
            lambda: run.event("note", seq=5),
            lambda: run.event("note", chain="x"),
            lambda: run.event("note", text=float("nan")),
            lambda: run.event("note", text=b"bytes"),  # type: ignore[arg-type]
            lambda: run.event("note", text="x" * (17 * 2**20)),
            lambda: run.event("block_end", block="a"),
            lambda: run.event("Not a kind"),
        ]
        for call in refused:
            with pytest.raises(StoreError):
                call()
        run.begin_block("a")
        with pytest.raises(StoreError, match="open"):
            run.begin_block("a")
        run.end_block("a")
        with pytest.raises(StoreError, match="finished"):
            run.begin_block("a")
        assert run.event("note", text="still here") == 4
    with pytest.raises(StoreError, match="closed"):
        run.event("note", text="late")
    run.close()


def test_identical_evidence_is_stored_once(tmp_path: Path, piece: Piece) -> None:
    with create(tmp_path) as run:
        assert run.evidence(piece("a")) == run.evidence(piece("a"))
        size = (run.path / "evidence/pack-000001.kvp").stat().st_size
        assert run.evidence(piece("a", exit_status=None)) != run.evidence(piece("a"))
        assert (run.path / "evidence/pack-000001.kvp").stat().st_size > size


def test_packs_are_split_and_found_again(
    tmp_path: Path, piece: Piece, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence.PackWriter.__init__, "__kwdefaults__", {"limit_bytes": 1000})
    with create(tmp_path) as run:
        pieces = {run.evidence(one): one for one in (piece("x" * n) for n in (5, 300, 2000, 7))}
    assert len(list((run.path / "evidence").iterdir())) == 4
    RunWriter.open(run.path).close()
    reader = RunReader(run.path)
    assert {ref: reader.evidence(ref) for ref in pieces} == pieces


def test_a_reader_finds_evidence_that_comes_later(tmp_path: Path, piece: Piece) -> None:
    with create(tmp_path) as run:
        reader = RunReader(run.path)
        for text in "abc":
            assert reader.evidence(run.evidence(piece(text))) == piece(text)
        with pytest.raises(StoreError, match="no evidence"):
            reader.evidence("0" * 64)
        with pytest.raises(StoreError, match="not the SHA-256"):
            reader.evidence("nonsense")


def test_threads_share_a_writer(tmp_path: Path, piece: Piece, taken: Taken) -> None:
    def work(name: str) -> None:
        run.begin_block(name)
        for number in range(50):
            run.event("note", text=f"{name}{number}")
            ref = run.evidence(piece(f"{name}{number}"))
            run.measure(taken(number, block=name, evidence=(ref,)))
        run.end_block(name)

    with create(tmp_path) as run:
        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    reader = RunReader(run.path)
    assert len(reader.measurements()) == 200
    assert run.finished_blocks() == set("abcd")


def test_of_several_tests_for_a_criterion_the_worst_end_counts(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        for test, outcome in (("a", "error"), ("b", "ran"), ("c", "error"), ("c", "ran")):
            run.event("attempt", criterion=f"G1.{test}", outcome=outcome, reasons=[], test=test)
            run.event("attempt", criterion="G1.1", outcome=outcome, reasons=[test], test=test)
    found = {each.criterion: each for each in RunReader(run.path).attempts()}
    assert {name: each.outcome for name, each in found.items()} == {
        "G1.1": "error",  # test a broke; that b ran is no remedy
        "G1.a": "error",
        "G1.b": "ran",
        "G1.c": "ran",  # begun again, as after a resume
    }
    assert found["G1.1"].test == "a"
