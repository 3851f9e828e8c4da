from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from kvgate.engine import soak, soak_run
from kvgate.engine.soak_window import Taken
from kvgate.errors import KvgateError, NotRunError, RepairError, UsageError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Reading
from kvgate.spec.plan import Plan
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.telemetry.archive import Archive

GATE = Path(__file__).parents[3] / "gates/g4-soak.yaml"
SOAK = {
    "duration": "9 s", "window": "3 s", "sample_every": "1 s", "fio_job": "kv-mixed",
    "fio_size": "68 MB", "kv_arm": "local", "concurrency": 1, "prompt_tokens": 96,
    "output_tokens": 2,
    "faults": [{"fault": "engine_killed", "at": "3.5 s", "back_within": "60 s"}],
}  # fmt: skip


def plan(**loads: Any) -> dict[str, Any]:
    return {
        "plan": "t", "title": "t", "profile": "rehearsal", "seed": 7,
        "gates": [{"gate": "G4", "suite": "suites/g4_soak", "give_up_after": "240 s"}],
        "workloads": loads,
    }  # fmt: skip


def make_run(folder: Path, **loads: Any) -> Path:
    scratch = folder / "scratch"
    scratch.mkdir()
    host = {
        "roles": ["serving", "client"], "transport": "local",
        "tools": {"python": sys.executable}, "scratch": str(scratch),
    }  # fmt: skip
    inputs = {
        "plan.yaml": yaml.safe_dump(plan(**loads)).encode(),
        "inventory.yaml": yaml.safe_dump({"inventory": "lab", "hosts": {"me": host}}).encode(),
        "gates/g4-soak.yaml": GATE.read_bytes(),
    }
    RunWriter.create(folder / "run", {"run": "t", "gates": ["G4"]}, inputs).close()
    return folder / "run"


def blocks(run: Path) -> list[str]:
    return [str(event.fields["block"]) for event in RunReader(run).events("block_end")]


# what others ask of it


def test_only_g4_with_a_soak_in_its_plan_needs_one() -> None:
    with_soak, without = (Plan.model_validate(plan(**each)) for each in ({"soak": SOAK}, {}))
    assert soak.needed(with_soak, "G4")
    assert not soak.needed(with_soak, "G3")
    assert not soak.needed(without, "G4")


def test_the_command_is_this_pythons() -> None:
    assert soak.command(Path("/runs/x"), "G4") == [
        sys.executable, "-m", "kvgate.engine.soak", "/runs/x", "--gate", "G4"]  # fmt: skip


# the windows, with the load replaced


def quiet(text: str, awaits: str = "") -> None:
    """Show nothing."""


def ready(*args: Any, **kwargs: Any) -> object:
    nowhere = SimpleNamespace(base_url="http://127.0.0.1:9")  # the port that discards: no metrics
    return SimpleNamespace(name="me", engine=nowhere)


class Load:
    """Stands in for a window's load: counts them, and does what a test wants in one."""

    def __init__(self) -> None:
        self.windows: list[list[str]] = []
        self.stop = threading.Event()
        self.stop_in = 0
        self.error: BaseException | None = None

    def window(self, station: Any, *, load: Any, due: Sequence[Any], stop: Any, journal: Any
               ) -> list[Taken]:  # fmt: skip
        self.windows.append([each.fault.fault for each in due])
        if self.error is not None:
            raise self.error
        if len(self.windows) == self.stop_in:
            self.stop.set()
        value = Quantity.of(3, "s")
        return [Taken(host="me", reading=Reading(name="soak.window_time", value=value),
                      phase="steady_state")]  # fmt: skip

    def soak(self, run: Path) -> bool:
        return soak_run.soak(run, "G4", stop=self.stop, on_progress=quiet)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    made = Load()
    monkeypatch.setattr(soak_run, "soak_window", made.window)
    monkeypatch.setattr(soak_run, "station", ready)
    return made


def taken(run: Path, name: str) -> list[Measurement]:
    return [m for m in RunReader(run).measurements() if m.name == name]


def test_every_window_is_a_block_and_faults_come_at_their_time(load: Load, tmp_path: Path) -> None:
    run = make_run(tmp_path, soak=SOAK)
    assert not soak.finished(RunReader(run))
    assert load.soak(run)
    assert blocks(run) == [
        "soak/window=00001", "soak/window=00002", "soak/window=00003", "soak/end"]  # fmt: skip
    assert load.windows == [[], ["engine_killed"], []]
    assert [m.labels["window"] for m in taken(run, "soak.window_time")] == ["1", "2", "3"]
    assert [str(m.value) for m in taken(run, "soak.windows")] == ["3"]
    assert [m.host for m in taken(run, "soak.telemetry_samples")] == ["me"] * 3
    assert soak.finished(RunReader(run))
    kinds = Counter(event.kind for event in RunReader(run).events())
    assert kinds["child_begin"] == kinds["child_end"] == 1


def test_a_soak_that_was_stopped_goes_on_where_it_was(load: Load, tmp_path: Path) -> None:
    run = make_run(tmp_path, soak=SOAK)
    load.stop_in = 2
    assert not load.soak(run)
    assert blocks(run) == ["soak/window=00001"]
    assert not soak.finished(RunReader(run))
    assert [e.fields["block"] for e in RunReader(run).events("block_discarded")] == [
        "soak/window=00002"]  # fmt: skip
    again = load
    again.stop.clear()
    again.stop_in = 0
    assert again.soak(run)
    assert load.windows == [[], ["engine_killed"], ["engine_killed"], []]
    assert [m.labels["window"] for m in taken(run, "soak.window_time")] == ["1", "2", "3"]
    assert soak.finished(RunReader(run))


def test_a_fault_that_stays_stops_the_soak_and_says_so(load: Load, tmp_path: Path) -> None:
    run = make_run(tmp_path, soak=SOAK)
    load.error = RepairError("me: the engine answers no request")
    with pytest.raises(RepairError):
        load.soak(run)
    assert blocks(run) == []
    notes = [str(event.fields["text"]) for event in RunReader(run).events("note")]
    assert "the soak broke off: me: the engine answers no request" in notes
    RunWriter.open(run).close()  # the lock was given back


def test_what_keeps_it_from_running_is_recorded(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise NotRunError(("me: fio is missing", "me: no python"))

    monkeypatch.setattr(soak_run, "station", refuse)
    run = make_run(tmp_path, soak=SOAK)
    assert load.soak(run)
    assert soak.finished(RunReader(run))
    assert [m.value for m in taken(run, "soak.refused")] == ["me: fio is missing", "me: no python"]


def test_without_a_soak_in_the_plan_there_is_nothing_to_do(load: Load, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no workloads\.soak"):
        load.soak(make_run(tmp_path))


def test_a_misspelt_fault_is_refused_before_anything_is_loaded(load: Load, tmp_path: Path) -> None:
    wrong = SOAK | {"faults": [{"fault": "engine_kiled", "at": "1 s", "back_within": "1 s"}]}
    with pytest.raises(KvgateError, match="'engine_kiled' is not a fault"):
        load.soak(make_run(tmp_path, soak=wrong))
    assert load.windows == []


@pytest.mark.parametrize(("duration", "windows"), [("9 s", 3), ("11 s", 3), ("1 s", 1)])
def test_how_many_windows(duration: str, windows: int) -> None:
    load = Plan.model_validate(plan(soak=SOAK | {"duration": duration})).workloads.soak
    assert load is not None
    assert soak_run.window_count(load) == windows


# the real thing: its process, fio, an engine, a fault, a SIGTERM and a resume


def start(run: Path, progress: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*soak.command(run, "G4"), "--progress-fd", str(progress)],
        pass_fds=(progress,), stderr=subprocess.PIPE,
    )  # fmt: skip


def processes_of(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in text:
            found.append(text)
    return found


@pytest.mark.fio
def test_a_real_soak_is_stopped_resumed_and_leaves_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path, soak=SOAK)
    out, progress = os.pipe()
    with start(run, progress) as first:
        deadline = time.monotonic() + 90
        while "soak/window=00001" not in blocks(run) and time.monotonic() < deadline:
            time.sleep(0.1)
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == soak.INTERRUPTED, first.stderr
    assert blocks(run) == ["soak/window=00001"]
    assert processes_of(tmp_path) == []
    assert list((tmp_path / "scratch").iterdir()) == []
    with start(run, progress) as second:
        assert second.wait(120) == 0, second.stderr and second.stderr.read()
    os.close(progress)
    with os.fdopen(out, "rb") as stream:
        said = [json.loads(line) for line in stream]
    assert {message["t"] for message in said} == {"progress"}
    assert any("window 3 of 3, ttft p50" in message["text"] for message in said)
    assert soak.finished(RunReader(run))
    assert processes_of(tmp_path) == []
    assert list((tmp_path / "scratch").iterdir()) == []
    _judge_what_it_measured(run)


_ANSWERED = 'engine.vllm:request_success_total{model_name="tiny"}'


def _judge_what_it_measured(run: Path) -> None:
    counted = Counter(m.labels["window"] for m in taken(run, "soak.window_time"))
    assert counted == {"1": 1, "2": 1, "3": 1}
    assert [(m.value, bool(m.evidence)) for m in taken(run, "soak.fault_proven")] == [(True, True)]
    errors = [
        (m.labels["state"], str(m.value), m.problem) for m in taken(run, "soak.request_errors")
    ]
    assert [each for each in errors if each[0] == "normal"] == [("normal", "0", "")] * 3
    assert ("recovery", "0", "") in errors
    assert [m.problem for m in taken(run, "soak.fio_errors")] == [""] * 3
    assert [m.problem for m in taken(run, "soak.fio_read_clat_p99")] == [""] * 3
    answered = [m.value for m in taken(run, "soak.answered")]
    assert all(isinstance(value, Quantity) and value.number >= 1 for value in answered)
    archive = Archive(run)
    assert len(archive.line("me", "cpu.busy_pct").points) >= 5
    assert any(point.high for point in archive.line("me", "cpu.busy_pct").points)
    assert any(point.high for point in archive.line("me", _ANSWERED).points)
    kinds = [event.kind for event in RunReader(run).events() if event.kind.startswith("fault_")]
    assert kinds[-3:] == ["fault_begin", "fault_proven", "fault_repaired"]
