"""Timings are pytest-benchmark's own rounds, and its `compare` reads what the run keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvgate.suite.timings import Timings


def test_rounds_of_a_point_are_gathered_and_compared(tmp_path: Path) -> None:
    timings, done = Timings("G3"), []
    for number in range(3):
        for arm in ("local", "device"):
            done.append(timings.timed("replay", lambda n=number: n, arm=arm))
    assert done == [0, 0, 1, 1, 2, 2]
    written = [timings.write(tmp_path), timings.write(tmp_path)]
    assert [path.name for path in written if path] == ["G3-1.json", "G3-2.json"]
    found = json.loads((tmp_path / "benchmarks" / "G3-1.json").read_text())["benchmarks"]
    assert [(each["name"], each["stats"]["rounds"]) for each in found] == [
        ("replay[arm=local]", 3),
        ("replay[arm=device]", 3),
    ]
    assert all(len(each["stats"]["data"]) == 3 for each in found)
    compare = [str(Path(sys.executable).parent / "pytest-benchmark"), "compare"]
    shown = subprocess.run(
        [*compare, *map(str, written)], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("replay[arm=local]") == 2


def test_nothing_timed_is_no_file_and_errors_pass_through(tmp_path: Path) -> None:
    timings = Timings("G3")

    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        timings.timed("replay", broken)
    assert timings.write(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
