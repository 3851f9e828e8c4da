"""Repeated timings of a gate as pytest-benchmark has them: its rounds, its JSON in the run.

Each round of interleaved blocks is one pedantic round, gathered under the name of its point; so
``pytest-benchmark compare RUN/benchmarks/*.json`` works on runs. They show how long acts took here,
way to the host included; what is judged are measurements, never these.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kvgate.store import disk

FOLDER = "benchmarks"

_Result = TypeVar("_Result")


class _Node(NamedTuple):
    """What pytest-benchmark asks of a test: its name and id."""

    name: str
    nodeid: str


class _Timer(NamedTuple):
    target: Callable[[], float]


class Timings:
    """The timings of one gate in this process."""

    def __init__(self, gate: str) -> None:
        self._gate = gate
        self._kept: dict[str, Any] = {}  # name → pytest_benchmark.stats.Metadata

    def timed(self, name: str, act: Callable[[], _Result], **params: object) -> _Result:
        """Do `act` as a pedantic round of the benchmark ``name[params]``; return its result."""
        from pytest_benchmark.fixture import BenchmarkFixture

        point = "-".join(f"{key}={value}" for key, value in sorted(params.items()))
        full = f"{name}[{point}]" if point else name
        make: Any = BenchmarkFixture  # has no types
        fixture: Any = make(
            _Node(full, f"{self._gate}::{full}"),
            **_OPTIONS,
            timer=_Timer(time.perf_counter),
            add_stats=self._gather,
            logger=None,
            warner=None,
            group=name,
        )
        fixture.params = {key: str(value) for key, value in params.items()}
        fixture.param = point or None
        result: _Result = fixture.pedantic(act, rounds=1, iterations=1)
        kept = self._kept[full]
        if kept is not fixture.stats:
            for seconds in fixture.stats.stats.data:
                kept.stats.update(seconds)
        return result

    def _gather(self, stats: Any) -> None:
        self._kept.setdefault(stats.name, stats)

    def write(self, run: Path) -> Path | None:
        """Write what was timed into the run as a file of its own; None: nothing was.

        A gate that was resumed has a file for each process.
        """
        done = [each for each in self._kept.values() if each.stats.data]
        if not done:
            return None
        disk.make_folder(run / FOLDER)
        number = 1
        while (path := run / FOLDER / f"{self._gate}-{number}.json").exists():
            number += 1
        text = json.dumps(self._document(done), indent=1, allow_nan=False)
        disk.replace(path, text.encode() + b"\n")
        return path

    def _document(self, done: list[Any]) -> dict[str, Any]:
        """Return what ``pytest_benchmark_generate_json`` makes, without its probing of the CPU."""
        system = platform.uname()
        return {
            "machine_info": {
                "system": system.system,
                "release": system.release,
                "machine": system.machine,
                "python_version": platform.python_version(),
                "python_implementation": platform.python_implementation(),
            },
            "commit_info": {"id": f"kvgate {importlib.metadata.version('kvgate')}", "dirty": False},
            "benchmarks": [each.as_dict() for each in done],
            "datetime": datetime.datetime.now(datetime.UTC).isoformat(),
            "version": importlib.metadata.version("pytest-benchmark"),
        }


_OPTIONS: dict[str, Any] = {
    "disable_gc": False,
    "min_rounds": 1,
    "min_time": 0.0,
    "max_time": 0.0,
    "precision": None,
    "confidence": None,
    "warmup": False,
    "warmup_iterations": 0,
    "calibration_precision": 1,
    "disabled": False,
    "cprofile": False,
    "cprofile_loops": None,
    "cprofile_dump": None,
}
