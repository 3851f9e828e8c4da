"""G4's tests on soaks written by hand: one as it should be, and each lie that must be caught."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.util
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvgate.engine.progress import Progress
from kvgate.engine.workspace import frozen_setup
from kvgate.errors import NotRunError
from kvgate.judge.gate import judge_gate
from kvgate.model.finding import Attempt, Finding
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, Measurement, Value
from kvgate.model.verdict import Verdict
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.suite.bench import Bench

ROOT = pathlib.Path(__file__).parents[2]
PLAN = b"""
plan: small
title: G4, small
profile: rehearsal
seed: 11
gates: [{gate: G4, suite: suites/g4_soak, give_up_after: 60 s}]
workloads:
  soak: {duration: 80 s, window: 10 s, sample_every: 1 s, fio_job: kv-mixed, fio_size: 128 MiB,
         kv_arm: local, concurrency: 2, prompt_tokens: 512, output_tokens: 8,
         faults: [{fault: engine_killed, at: 35 s, back_within: 30 s}]}
"""
INVENTORY = b"""
inventory: lab
hosts:
  ini1: {roles: [serving], transport: local}
  load1: {roles: [client], transport: local}
"""
WHEN = datetime.datetime(2026, 5, 12, tzinfo=datetime.UTC)
FAULTY = 4


@dataclasses.dataclass(frozen=True)
class Told:
    """One measurement of a window, before it is written; a lie changes or drops it."""

    name: str
    value: Value | None
    window: int
    host: str = "ini1"
    phase: str = "steady_state"
    labels: tuple[tuple[str, str], ...] = ()
    problem: str = ""


Lie = Callable[[Told], Told | None]


def q(text: str) -> Quantity:
    return Quantity.parse(text)


def window(number: int) -> Iterator[Told]:
    """Yield what a window of a good soak records, as engine.soak_window does."""
    state = "fault" if number == FAULTY else "normal"
    phase = {"fault": "fault", "normal": "steady_state"}[state]
    yield Told("soak.window_time", q("10.4 s"), number)
    yield Told("soak.telemetry_samples", q("10"), number)
    yield Told("soak.telemetry_samples", q("10"), number, host="load1")
    yield Told("soak.answered", q("20"), number, phase=phase, labels=(("state", state),))
    wobble = Quantity.of(f"0.2{number * 7 % 5}", "s")
    yield Told("soak.ttft_p50", wobble, number, phase=phase, labels=(("state", state),))
    wobble = Quantity.of(f"12.{number * 7 % 5}", "ms")
    yield Told("soak.fio_read_clat_p99", wobble, number, labels=(("state", state),))
    yield Told("soak.fio_errors", q("0"), number, labels=(("state", state),))
    yield Told("soak.request_errors", q("0"), number, labels=(("state", "normal"),))
    if state == "fault":
        mark = (("fault", "engine_killed"), ("number", "1"))
        yield Told(
            "soak.request_errors", q("61"), number, phase="fault", labels=(("state", state),)
        )
        yield Told("soak.request_errors", q("0"), number, phase="recovery",
                   labels=(("state", "recovery"),))  # fmt: skip
        yield Told("soak.fault_proven", True, number, phase="fault", labels=mark)
        yield Told("soak.recovery_time", q("2.5 s"), number, phase="fault", labels=mark)


def judge(folder: pathlib.Path, lie: Lie, windows: int = 8) -> dict[str, Finding]:
    """Write a soak with `lie` applied, run G4's tests on it, and return the findings."""
    inputs = {
        "plan.yaml": PLAN,
        "inventory.yaml": INVENTORY,
        "gates/g4-soak.yaml": (ROOT / "gates/g4-soak.yaml").read_bytes(),
    }
    with RunWriter.create(folder / "run", {"run": "t", "gates": ["G4"]}, inputs) as run:
        for number in range(1, windows + 1):
            _write(run, number, filter(None, map(lie, window(number))))
        setup = frozen_setup(RunReader(run.path))
        bench = make_bench(setup, run)
        suite = load_suite()
        attempts = []
        for name in dir(suite):
            if name.startswith("test_"):
                attempts += _attempt(getattr(suite, name), bench)
        bench.close()
        result = judge_gate(
            setup.gates["G4"].value, profile="rehearsal", inventory=setup.inventory.value,
            expected=setup.expected, taken=RunReader(run.path).measurements(),
            attempts=attempts, scoped_out={},
        )  # fmt: skip
    return {finding.criterion: finding for finding in result.findings}


def _write(run: RunWriter, number: int, told: Iterator[Told]) -> None:
    block = f"soak/window={number:05d}"
    run.begin_block(block)
    kept = run.evidence(
        Evidence(
            host="ini1",
            command=("soak", str(number)),
            exit_status=0,
            stdout=b"as told",
            stderr=b"",
            started_at=WHEN,
            ended_at=WHEN,
        )
    )
    for each in told:
        run.measure(
            Measurement(
                name=each.name, value=each.value, host=each.host, phase=each.phase,
                taken_at=WHEN, problem=each.problem, block=block, evidence=(kept,),
                labels={**dict(each.labels), "window": str(each.window)},
            )
        )  # fmt: skip
    run.end_block(block)


def _attempt(test: Callable[[Bench], None], bench: Bench) -> list[Attempt]:
    outcome, reasons = "ran", ()
    try:
        test(bench)
    except NotRunError as err:
        outcome, reasons = "not_run", err.reasons
    marks: Any = test.pytestmark  # type: ignore[attr-defined]
    return [
        Attempt(criterion=each, outcome=outcome, reasons=reasons)
        for mark in marks
        for each in mark.args
    ]


def load_suite() -> Any:
    path = ROOT / "suites/g4_soak/test_soak.py"
    spec = importlib.util.spec_from_file_location("g4_suite_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def make_bench(setup: Any, run: RunWriter) -> Bench:
    return Bench("G4", setup, run, Progress(None))


def truth(told: Told) -> Told:
    return told


def test_a_good_soak_passes_every_criterion(tmp_path: pathlib.Path) -> None:
    found = judge(tmp_path, truth)
    assert {key: each.because for key, each in found.items() if each.verdict != "pass"} == {}
    assert len(found) == 11
    assert found["G4.1"].measured == "83.2 s"


def changed(name: str, to: Any, **where: Any) -> Lie:
    """Return a lie that gives `name` another value (where its window or labels are as said)."""

    def lie(told: Told) -> Told | None:
        labels = {**dict(told.labels), "window": told.window, "host": told.host}
        if told.name != name or any(labels.get(key) != value for key, value in where.items()):
            return told
        if to is None or isinstance(to, str):
            return dataclasses.replace(told, value=None, problem=to) if to else None
        return dataclasses.replace(told, value=to(told) if callable(to) else to)

    return lie


def growing(told: Told) -> Quantity:
    return Quantity.of(10.0**told.window, "ms")


LIES = {
    "a short soak": (changed("soak.window_time", q("3 s")), "G4.1", Verdict.FAIL),
    "a window without its time": (
        changed("soak.window_time", "the clock is lost", window=2), "G4.1", Verdict.INCONCLUSIVE),
    "a silent window": (changed("soak.answered", q("0"), window=2), "G4.2", Verdict.FAIL),
    "a silent sampler": (changed("soak.telemetry_samples", q("3")), "G4.3", Verdict.FAIL),
    "a client nobody sampled": (
        changed("soak.telemetry_samples", None, host="load1"), "G4.3", Verdict.INCONCLUSIVE),
    "a failed request": (
        changed("soak.request_errors", q("1"), window=7, state="normal"), "G4.4", Verdict.FAIL),
    "an I/O error": (changed("soak.fio_errors", q("1"), window=7), "G4.5", Verdict.FAIL),
    "a fio that broke": (
        changed("soak.fio_errors", "fio broke", window=7), "G4.5", Verdict.INCONCLUSIVE),
    "drifting requests": (changed("soak.ttft_p50", growing), "G4.6", Verdict.FAIL),
    "a window without a median": (
        changed("soak.ttft_p50", "1 of 9 failed", window=7), "G4.6", Verdict.INCONCLUSIVE),
    "a drifting path": (changed("soak.fio_read_clat_p99", growing), "G4.7", Verdict.FAIL),
    "an unproven fault": (
        changed("soak.fault_proven", "still there"), "G4.8", Verdict.INCONCLUSIVE),
    "a fault that was denied": (changed("soak.fault_proven", False), "G4.8", Verdict.FAIL),
    "a fault left out": (changed("soak.fault_proven", None), "G4.9", Verdict.FAIL),
    "a slow recovery": (changed("soak.recovery_time", q("31 s")), "G4.10", Verdict.FAIL),
    "a recovery that isn't one": (
        changed("soak.request_errors", q("5"), state="recovery"), "G4.11", Verdict.FAIL),
    "a recovery nobody tried": (
        changed("soak.request_errors", "no request", state="recovery"), "G4.11",
        Verdict.INCONCLUSIVE),
}  # fmt: skip


@pytest.mark.parametrize(("lie", "criterion", "verdict"), LIES.values(), ids=LIES)
def test_each_lie_is_caught_and_spoils_nothing_else(
    lie: Lie, criterion: str, verdict: Verdict, tmp_path: pathlib.Path
) -> None:
    found = judge(tmp_path, lie)
    assert found[criterion].verdict is verdict, found[criterion]
    others = {key for key, each in found.items() if each.verdict != "pass"} - {criterion}
    allowed = {"G4.9": {"G4.8"}, "G4.1": {"G4.3"}}  # the same missing facts, seen twice
    assert others <= allowed.get(criterion, set())


def test_every_criterion_has_its_lie() -> None:
    assert {criterion for _, criterion, _ in LIES.values()} == {f"G4.{n}" for n in range(1, 12)}


def test_too_few_windows_show_no_drift(tmp_path: pathlib.Path) -> None:
    found = judge(tmp_path, truth, windows=5)
    assert found["G4.6"].verdict is Verdict.INCONCLUSIVE
    assert "4 points can't show a trend; it takes 5" in found["G4.6"].because


def test_a_soak_that_was_refused_is_not_run_with_its_reasons(tmp_path: pathlib.Path) -> None:
    def refused(told: Told) -> Told | None:
        if told.name != "soak.window_time":
            return None
        return dataclasses.replace(told, name="soak.refused", value="ini1: fio is missing")

    found = judge(tmp_path, refused, windows=1)
    assert {each.verdict for each in found.values()} == {Verdict.NOT_RUN}
    assert {each.because for each in found.values()} == {"ini1: fio is missing"}


def test_without_any_window_nothing_passes(tmp_path: pathlib.Path) -> None:
    found = judge(tmp_path, lambda _told: None, windows=1)
    assert Verdict.PASS not in {each.verdict for each in found.values()}
