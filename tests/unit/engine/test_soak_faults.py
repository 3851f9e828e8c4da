from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvgate.engine import soak_faults
from kvgate.engine.soak_faults import Scheduled, scheduled, suffer
from kvgate.errors import HarnessError, RepairError
from kvgate.faults.base import Fault, Injection, OnEvent
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence
from kvgate.spec.workload import SoakFault
from kvgate.witness import Witness

WITNESS = Witness(host=None, transport=None, store=lambda piece: f"ref of {piece.command[0]}")  # type: ignore[arg-type]
ENGINE: Any = object()
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
A_KILL = Evidence(
    host="ini1", command=("a kill",), exit_status=0, stdout=b"", stderr=b"",
    started_at=NOW, ended_at=NOW,
)  # fmt: skip


def fault(at: str, name: str = "engine_killed") -> SoakFault:
    return SoakFault.model_validate({"fault": name, "at": at, "back_within": "30 s"})


def test_each_fault_falls_into_one_window() -> None:
    faults = [fault("35 s"), fault("30 s"), fault("39.9 s"), fault("40 s"), fault("0 s")]
    found = {w: [each.offset_s for each in scheduled(faults, w, 10.0)] for w in range(6)}
    assert found == {0: [0.0], 1: [], 2: [], 3: [0.0, 5.0, pytest.approx(9.9)], 4: [0.0], 5: []}


Plant = Callable[[Callable[[Injection], None]], None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Return a function that makes every fault do what it is given between begin and end."""

    def plant(act: Callable[[Injection], None]) -> None:
        @contextlib.contextmanager
        def inject(
            witness: Any, target: Any, back_within_s: float, on_event: OnEvent | None
        ) -> Iterator[Injection]:
            assert (target.engine, back_within_s) == (ENGINE, 30.0)
            witness.keep(A_KILL)
            injection = Injection(fault="engine_killed", host="ini1", on_event=on_event)
            injection.mark("begun")
            act(injection)
            yield injection
            injection.mark("repaired")

        made = Fault(name="engine_killed", text="t", inject=inject)
        monkeypatch.setattr(soak_faults, "fault_named", lambda _name: made)

    return plant


def run(*due: Scheduled, stop: threading.Event | None = None) -> tuple[list[Any], list[str]]:
    kinds: list[str] = []
    done = suffer(
        due, WITNESS, ENGINE, origin=time.monotonic(), stop=stop or threading.Event(),
        journal=lambda kind, _injection: kinds.append(kind),
    )  # fmt: skip
    return done, kinds


def test_a_fault_that_was_proven_and_repaired(plant: Plant) -> None:
    plant(lambda injection: (time.sleep(0.05), injection.mark("proven"))[0])
    done, kinds = run(Scheduled(fault=fault("1 s"), offset_s=0.1))
    assert kinds == ["fault_begin", "fault_proven", "fault_repaired"]
    assert done[0].evidence == ("ref of a kill",)
    proven, recovery = done[0].readings
    assert (proven.name, proven.value) == ("soak.fault_proven", True)
    assert recovery.name == "soak.recovery_time"
    assert isinstance(recovery.value, Quantity)
    assert 0.05 <= recovery.value.to("s") < 5
    assert 0.1 <= done[0].span.begun_s < done[0].span.repaired_s


def broken(_injection: Injection) -> None:
    raise HarnessError("ini1: still there: the fault is not proven")


def unproven(_injection: Injection) -> None:
    """Neither raise nor prove."""


@pytest.mark.parametrize(
    ("act", "why"), [(broken, "still there"), (unproven, "not journalled from its begin")]
)
def test_a_fault_that_was_not_proven_has_a_problem(
    plant: Plant, act: Callable[[Injection], None], why: str
) -> None:
    plant(act)
    done, _ = run(Scheduled(fault=fault("1 s"), offset_s=0))
    assert [reading.value for reading in done[0].readings] == [None, None]
    assert all(why in reading.problem for reading in done[0].readings)
    assert done[0].span is not None


def test_a_repair_that_is_not_proven_stops_the_soak(plant: Plant) -> None:
    def lost(_injection: Injection) -> None:
        raise RepairError("ini1: the engine answers no request")

    plant(lost)
    with pytest.raises(RepairError, match="answers no request"):
        run(Scheduled(fault=fault("1 s"), offset_s=0))


def test_a_stop_ends_the_waiting_and_injects_nothing_more(plant: Plant) -> None:
    stop = threading.Event()
    plant(lambda injection: (injection.mark("proven"), stop.set())[0])
    begun = datetime.datetime.now(datetime.UTC)
    done, kinds = run(Scheduled(fault=fault("1 s"), offset_s=0),
                      Scheduled(fault=fault("60 s"), offset_s=60), stop=stop)  # fmt: skip
    assert len(done) == 1
    assert len(kinds) == 3
    assert datetime.datetime.now(datetime.UTC) - begun < datetime.timedelta(seconds=10)
