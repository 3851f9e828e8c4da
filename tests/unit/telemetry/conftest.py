from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvgate.telemetry import columns
from kvgate.telemetry.recorder import Recorder

HOUR_MS = 1_796_083_200_000  # 2026-12-01T00:00:00Z


@dataclasses.dataclass
class Told:
    """A recorder on a clock of the test's, and what it said."""

    path: Path
    now_s: float = HOUR_MS / 1000
    journal: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    troubles: list[str] = dataclasses.field(default_factory=list)

    @contextlib.contextmanager
    def recording(self) -> Iterator[Recorder]:
        def note(kind: str, **fields: Any) -> None:
            self.journal.append({"kind": kind, **fields})

        with Recorder(
            self.path, journal=note, on_trouble=self.troubles.append, clock=lambda: self.now_s
        ) as recorder:
            yield recorder

    def files(self) -> list[str]:
        return sorted(each.name.split(".", 1)[1] for each in (self.path / "telemetry").iterdir())


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


@pytest.fixture
def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "absent", lambda: "pyarrow is not here")


Fill = Callable[..., None]


@pytest.fixture
def fill() -> Fill:
    """Return what records `count` samples of a counter and a level of a host, a second apart."""

    def work(
        recorder: Recorder, host: str, count: int, *, start_ms: int = HOUR_MS, seed: int = 1
    ) -> None:
        rng = np.random.default_rng(seed)
        recorder.names(host, "fast", 1000, (("disk.a.reads", "c"), ("load.1min", "l100")))
        moved = np.cumsum(rng.integers(0, 1000, count))
        levels = rng.integers(0, 400, count)
        for n in range(count):
            recorder.numbers(
                host, "fast", start_ms + 1000 * n, 5000 + 1000 * n, (moved[n], levels[n])
            )

    return work
