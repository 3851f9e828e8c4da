import os
import pathlib
import sys
from collections.abc import Iterator

import pytest

from kvgate.errors import CommandError, HarnessError, KvgateError, RepairError, UsageError
from kvgate.faults import process
from kvgate.faults.base import Target
from kvgate.faults.process import engine_killed
from kvgate.serving.arms import ArmSetup, RunningEngine, start_engine
from kvgate.spec.inventory import Host, Role
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness


@pytest.fixture
def witness() -> Iterator[Witness]:
    transport = LocalTransport("h1")
    host = Host(
        roles=[Role.SERVING], transport="local", tools={"python": sys.executable}, name="h1"
    )
    yield Witness(host, transport, lambda _: "0" * 64)
    transport.close()


@pytest.fixture
def engine(witness: Witness) -> Iterator[RunningEngine]:
    with start_engine(witness, ArmSetup(arm="recompute", seed=7, model="pico")) as running:
        yield running


def test_it_is_gone_for_the_block_and_back_after_it(witness, engine) -> None:
    events: list[str] = []
    pid, url = engine.pid, engine.base_url
    with engine_killed(
        witness, Target(engine=engine), 30, lambda kind, _: events.append(kind)
    ) as injection:
        assert not pathlib.Path(f"/proc/{pid}").exists()
        assert not engine.answers()
        assert events == ["fault_begin", "fault_proven"]
        assert injection.repaired is None
    assert events[-1] == "fault_repaired"
    assert injection.begun < injection.proven < injection.repaired
    assert engine.answers()
    assert (engine.base_url, engine.pid != pid) == (url, True)


def test_it_is_repaired_when_the_block_breaks(witness, engine) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        engine_killed(witness, Target(engine=engine)) as injection,
    ):
        raise ZeroDivisionError
    assert injection.repaired is not None
    assert engine.answers()


def test_no_stranger_is_killed(witness, engine) -> None:
    engine.pid, real = os.getpid(), engine.pid
    with pytest.raises(HarnessError, match="is not a serving engine: not killed"):
        engine_killed(witness, Target(engine=engine)).__enter__()
    engine.pid = real
    assert engine.answers()


def test_without_an_engine_there_is_no_such_fault(witness) -> None:
    with pytest.raises(UsageError, match="no engine"):
        engine_killed(witness, Target()).__enter__()


def test_an_engine_that_does_not_come_back_stops_the_run(
    witness, engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*, within_s: float) -> None:
        raise CommandError("h1", "the engine was not ready in time")

    with monkeypatch.context() as patch:
        patch.setattr(engine, "restart", refuse)
        with (
            pytest.raises(RepairError, match="did not start again after engine_killed") as caught,
            engine_killed(witness, Target(engine=engine)),
        ):
            pass
    assert "stop the run" in caught.value.hint


def test_an_engine_that_is_back_but_answers_nothing_stops_the_run(
    witness, engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine, "answers", lambda **_: False)
        with (
            pytest.raises(RepairError, match="answers no request"),
            engine_killed(witness, Target(engine=engine), 2.0),
        ):
            pass


def test_a_kill_that_did_not_happen_is_not_proven(
    witness, engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kill` reports success and does nothing: the fault is not proven, nothing restarted."""
    real = witness.transport.run

    def lie(argv, **more):
        return real(["true"] if argv[0] == "kill" else argv, **more)

    monkeypatch.setattr(process, "GONE_WITHIN_S", 0.5)
    monkeypatch.setattr(witness.transport, "run", lie)
    pid = engine.pid
    with pytest.raises(KvgateError, match=r"still runs|is still there"):
        engine_killed(witness, Target(engine=engine)).__enter__()
    assert engine.answers()
    assert engine.pid == pid
