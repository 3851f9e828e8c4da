"""Clock steps, DST and year ends change neither order nor names nor verdicts."""

from __future__ import annotations

import ast
import datetime
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvgate.engine import content, start
from kvgate.engine.start import create_run
from kvgate.engine.workspace import Workspace, load_setup
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.report import page, show
from kvgate.store import run as run_module
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import seal, verify

SRC = Path(__file__).resolve().parents[3] / "src"
UTC = datetime.UTC


def clock(*moments: datetime.datetime) -> SimpleNamespace:
    """Return a datetime module whose now() tells `moments`, one after the other."""
    waiting = list(moments)

    def now(_zone: object) -> datetime.datetime:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return SimpleNamespace(datetime=SimpleNamespace(now=now), UTC=UTC)


def test_names_of_runs_sort_in_time_across_a_years_end_and_dst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content.lay_out(tmp_path)
    inventory = tmp_path / "inventory/here.yaml"
    inventory.write_text("inventory: x\nhosts:\n  a: {roles: [serving], transport: local}\n")
    workspace = Workspace.find(tmp_path)
    setup = load_setup(workspace, tmp_path / "gates/plans/rehearsal.yaml", inventory)
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    moments = [
        datetime.datetime(2026, 11, 1, 5, 30, tzinfo=UTC),  # 01:30 by the wall, summer
        datetime.datetime(2026, 11, 1, 6, 30, tzinfo=UTC),  # 01:30 again, winter
        datetime.datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime.datetime(2027, 1, 1, 0, 0, 0, tzinfo=UTC),
        datetime.datetime(2027, 3, 14, 7, 0, tzinfo=UTC),  # 02:00 by the wall, which is not
    ]
    names = []
    try:
        for moment in moments:
            monkeypatch.setattr(start, "datetime", clock(moment))
            run = create_run(workspace, setup, gates=["G1"], command=["kvgate"])
            names.append(run.name)
            assert RunReader(run).manifest["created"] == moment.isoformat(timespec="seconds")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert names == sorted(names)
    assert names[2].startswith("20261231T235959Z-")
    assert names[3].startswith("20270101T000000Z-")


STEPS: dict[str, Callable[[int], int]] = {
    "an hour back in the middle": lambda n: n if n < 4 else n - 3600,
    "a day on, and back": lambda n: n + 86_400 * (n % 2),
    "always earlier": lambda n: -n,
    "it stands": lambda _n: 0,
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_the_journals_order_is_by_seq_whatever_the_wall_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: Callable[[int], int]
) -> None:
    noon = datetime.datetime(2027, 1, 1, tzinfo=UTC)
    told = [noon + datetime.timedelta(seconds=steps(n)) for n in range(40)]
    monkeypatch.setattr(run_module, "datetime", clock(*told))
    with RunWriter.create(tmp_path / "run", {"run": "x"}, {}) as run:
        for number in range(5):
            key = f"window={number}"
            run.begin_block(key)
            run.measure(
                Measurement(
                    name="soak.ttft",
                    value=Quantity.of(number, "ms"),
                    host="a",
                    phase="steady_state",
                    taken_at=told[number],
                    block=key,
                )
            )
            run.end_block(key)
        run.event("attempt", criterion="G4.1", outcome="error", reasons=["first"], test="t")
        run.event("attempt", criterion="G4.1", outcome="ran", reasons=[], test="t")
    seal(tmp_path / "run")
    reader = RunReader(tmp_path / "run")
    events = list(reader.events())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.mono for event in events] == sorted(event.mono for event in events)
    assert [show.moment(event.utc) for event in events] == told[: len(events)]
    assert [int(m.value.number) for m in reader.measurements()] == [0, 1, 2, 3, 4]
    assert [attempt.outcome for attempt in reader.attempts()] == ["ran"]
    assert verify(tmp_path / "run").ok


CLOCKS = {
    "kvgate/engine/control.py",  # an approval that claims to be signed in times to come
    "kvgate/engine/load_several.py",  # how far clients' clocks are from ours: they begin together
    "kvgate/serving/api.py",  # the `created` of OpenAI's protocol, in whole seconds
    "kvgate/serving/ledger.py",  # how long ago another process touched a file, by the file's time
    "kvgate/serving/pool.py",  # the same
    "kvgate/telemetry/hostclock.py",  # asks how far a host's clock is from ours
    "kvgate/telemetry/hostsampler.py",  # answers that, on the host
    "kvgate/telemetry/recorder.py",  # samples are kept by our own time
    "kvgate/workloads/replay.py",  # how far hosts' clocks are from ours: they begin at one moment
    "kvgate/workloads/replay_host.py",  # when that is, by the host's clock, read once
}


def test_nothing_waits_or_measures_by_the_wall_clock() -> None:
    """`datetime.now` stamps records; lengths of time are differences of time.monotonic()."""
    found = []
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            wall = isinstance(node, ast.Attribute) and ast.unparse(node).startswith("time.time")
            if wall or any(_is_now(operand) for operand in _operands(node)):
                found.append(f"{path.relative_to(SRC)}:{node.lineno}")
    assert [each for each in found if each.split(":")[0] not in CLOCKS] == []


def _operands(node: ast.AST) -> list[ast.expr]:
    """Return what is computed with or compared here."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    return [node.left, *node.comparators] if isinstance(node, ast.Compare) else []


def _is_now(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("time.now", ".utcnow"))


def test_a_report_tells_how_long_a_run_took_by_the_monotonic_clock() -> None:
    event = namedtuple("event", "utc mono boot")
    noon = datetime.datetime(2027, 1, 1, 12, tzinfo=UTC)
    hour = datetime.timedelta(hours=1)
    assert page._took_s(event(noon, 10.0, "a"), event(noon - hour, 25.5, "a")) == 15.5
    assert page._took_s(event(noon, 10.0, "a"), event(noon + hour, 1.0, "b")) == 3600
    assert page._took_s(event(noon, 10.0, "a"), event(noon - hour, 1.0, "b")) == 0
