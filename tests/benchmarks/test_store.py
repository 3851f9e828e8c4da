"""How fast a run is written, read and verified, beside what one would use instead."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import random
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, Measurement
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import seal, verify

NOW = datetime.datetime(2026, 5, 12, 12, tzinfo=datetime.UTC)
VERIFIED_MB = int(os.environ.get("KVGATE_BENCH_MB", "512"))
Beside = Callable[..., None]


def piece(number: int, data: bytes) -> Evidence:
    return Evidence(
        host="ini1",
        command=("cat", f"/sys/{number}"),
        exit_status=0,
        stdout=data,
        stderr=b"",
        started_at=NOW,
        ended_at=NOW,
    )


def test_journal_appends(tmp_path: Path, beside: Beside) -> None:
    count, names = 20_000, itertools.count()

    def ours() -> None:
        with RunWriter.create(tmp_path / f"run{next(names)}", {}, {}) as run:
            for number in range(count):
                run.event("note", text=f"event {number}")

    def peer() -> None:
        base = sqlite3.connect(tmp_path / f"base{next(names)}", isolation_level=None)
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=FULL")
        base.execute("CREATE TABLE journal (seq INTEGER PRIMARY KEY, record TEXT)")
        for first in range(0, count, 5_000):
            base.execute("BEGIN")
            for number in range(first, first + 5_000):
                base.execute(
                    "INSERT INTO journal (record) VALUES (?)",
                    (json.dumps({"text": f"event {number}", "kind": "note", "seq": number}),),
                )
            base.execute("COMMIT")
        base.close()

    beside(
        "journal appends",
        ours,
        "sqlite3 (no chain), commit every 5,000",
        peer,
        count=count,
        unit="records",
    )


def test_evidence_pieces(tmp_path: Path, beside: Beside) -> None:
    count, files, names = 40_000, 2_000, itertools.count()

    def ours() -> None:
        with RunWriter.create(tmp_path / f"run{next(names)}", {}, {}) as run:
            for number in range(count):
                run.evidence(piece(number, b"%500d" % number))
            run.sync()

    def peer() -> None:
        folder = tmp_path / f"files{next(names)}"
        folder.mkdir()
        for number in range(files):
            with (folder / str(number)).open("wb") as file:
                file.write(b"%500d" % number)
                file.flush()
                os.fsync(file.fileno())

    beside(
        "evidence pieces",
        ours,
        "a file each, fsync'd",
        peer,
        count=count,
        peer_count=files,
        unit="pieces",
        rounds=3,
        bar="40,000 in 5 s, target 2 s",
    )


def test_reading_measurements(tmp_path: Path, beside: Beside) -> None:
    count = 10_000
    with RunWriter.create(tmp_path / "run", {}, {}) as run:
        run.begin_block("a")
        for number in range(count):
            run.measure(
                Measurement(
                    name="fio.read_clat_p99",
                    value=Quantity.of(number, "us"),
                    host="ini1",
                    phase="steady_state",
                    taken_at=NOW,
                    block="a",
                    labels={"job": "kv-restore"},
                )
            )
        run.end_block("a")

    def ours() -> None:
        assert len(RunReader(run.path).measurements()) == count

    def peer() -> None:
        with (run.path / "measurements.jsonl").open("rb") as file:
            assert len([json.loads(line) for line in file]) == count

    beside(
        "measurements read and checked",
        ours,
        "json.loads of the lines alone",
        peer,
        count=count,
        unit="measurements",
    )


def test_verify(tmp_path: Path, beside: Beside) -> None:
    data = random.Random(1).randbytes(1 << 20)  # noqa: S311
    with RunWriter.create(tmp_path / "run", {}, {}) as run:
        for number in range(VERIFIED_MB * 4):
            start = number % 1000
            run.evidence(piece(number, data[start : start + 250_000]))
    seal(run.path)
    packs = sorted((run.path / "evidence").iterdir())
    megabytes = sum(pack.stat().st_size for pack in packs) / 1e6

    def ours() -> None:
        assert verify(run.path).ok

    def peer() -> None:
        subprocess.run(["sha256sum", *map(str, packs)], check=True, capture_output=True)

    beside(
        "verify",
        ours,
        "sha256sum of the same files",
        peer,
        count=megabytes,
        unit="MB",
        rounds=3,
        bar="300 MB/s",
    )
