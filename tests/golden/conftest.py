"""The golden runs: one of each released format version, which every later kvgate has to read."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
RUNS = sorted(HERE.glob("run-v*"))


@pytest.fixture(params=RUNS, ids=lambda path: path.name)
def golden(request: pytest.FixtureRequest) -> Path:
    """Return a golden run's folder, to be read only."""
    return Path(request.param)
