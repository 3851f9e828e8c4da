from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvgate.store.run import RunWriter
from kvgate.store.seal import seal, verify
from kvgate.telemetry import columns
from kvgate.telemetry.recorder import Recorder

START_MS = 1_796_083_200_000


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """Return a closed run with telemetry."""
    path = tmp_path / "run"
    with RunWriter.create(path, {"kvgate": "0"}, {}) as run:
        record(run)
    return path


def record(run: RunWriter) -> None:
    with Recorder(
        run.path, journal=run.event, on_trouble=pytest.fail, clock=lambda: START_MS / 1000
    ) as recorder:
        recorder.names("ini1", "fast", 1000, (("a.x", "c"), ("b", "l")))
        for n in range(40):
            recorder.numbers("ini1", "fast", START_MS + 1000 * n, 1000 * n, [n, n % 7])


def problems(path: Path) -> list[str]:
    return [f"{p.kind} {p.path}" for p in verify(path).problems if p.kind != "unsealed"]


def test_telemetry_is_part_of_what_is_sealed(watched: Path) -> None:
    assert problems(watched) == []
    seal(watched)
    assert problems(watched) == []
    sums = (watched / "SHA256SUMS").read_text()
    assert sums.count("  telemetry/000001-20261201T00.") == 3


@pytest.mark.parametrize("end", ["samples.parquet", "bins.parquet", "events.jsonl"])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_changed_byte_and_a_missing_file_are_named(watched: Path, end: str, sealed: bool) -> None:
    if sealed:
        seal(watched)
    name = f"telemetry/000001-20261201T00.{end}"
    data = (watched / name).read_bytes()
    (watched / name).write_bytes(data + b"\n")
    assert problems(watched) == [f"altered {name}"]
    (watched / name).unlink()
    assert f"missing {name}" in problems(watched)


def test_a_file_that_nobody_bound_is_named(watched: Path) -> None:
    (watched / "telemetry/000009-20261201T00.bins.parquet").write_bytes(b"PAR1")
    assert problems(watched) == ["added telemetry/000009-20261201T00.bins.parquet"]


def test_a_log_is_checked_by_its_own_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: Path
) -> None:
    monkeypatch.setattr(columns, "absent", lambda: "not here")
    path = tmp_path / "logged"
    told: list[Any] = []
    with RunWriter.create(path, {"kvgate": "0"}, {}) as run:
        monkeypatch.setattr(pytest, "fail", told.append)
        record(run)
    name = "telemetry/000001-20261201T00.log"
    data = (path / name).read_bytes()
    assert problems(path) == []
    (path / name).write_bytes(data[:-5])  # a crash: what was never acknowledged
    assert problems(path) == []
    (path / name).write_bytes(data[:-5] + bytes([data[-5] ^ 1]) + data[-4:])
    assert problems(path) == [f"altered {name}"]
    (path / name).write_bytes(data)
    seal(path)
    (path / name).write_bytes(data[:-5])
    assert problems(path) == [f"altered {name}"]
