"""Evidence and where it was asked; no host fills the disk of the controller."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from kvgate.engine.scope import asked_in, kept_in
from kvgate.errors import CommandError
from kvgate.model.record import Evidence
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter

NOW = datetime.datetime(2026, 5, 12, 12, tzinfo=datetime.UTC)


def told(host: str, size: int) -> Evidence:
    return Evidence(
        host=host,
        command=("cat", str(size)),
        exit_status=0,
        stdout=b"x" * size,
        stderr=b"",
        started_at=NOW,
        ended_at=NOW,
    )


def test_a_host_that_tells_too_much_is_kept_no_further_and_harms_no_other(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", {"gates": []}, {}) as run:
        keep = kept_in(run, lambda: "G1/survey", most_bytes=1000)
        ref = keep(told("loud", 900))
        with pytest.raises(CommandError, match="loud: has told 0 MB; 0 MB more are not kept"):
            keep(told("loud", 101))
        keep(told("loud", 100))
        keep(told("quiet", 900))
    kept = list(RunReader(tmp_path / "run").all_evidence())
    assert sorted((piece.host, len(piece.stdout)) for piece in kept) == [
        ("loud", 100),
        ("loud", 900),
        ("quiet", 900),
    ]
    assert asked_in(RunReader(tmp_path / "run").evidence(ref).notes) == "G1/survey"
