import os
import pathlib
import sys
from collections.abc import Iterator

import pytest

from kvgate.errors import CommandError, HarnessError, NotRunError
from kvgate.model.record import Evidence
from kvgate.serving.arms import ArmSetup, RunningEngine, start_engine
from kvgate.spec.inventory import Host, Role
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness

RECOMPUTE = ArmSetup(arm="recompute", seed=7, model="pico")


class Kept(list[Evidence]):
    """Evidence in memory; its reference is its place."""

    def keep(self, piece: Evidence) -> str:
        self.append(piece)
        return str(len(self) - 1)


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def witness(kept: Kept) -> Iterator[Witness]:
    transport = LocalTransport("h1")
    yield Witness(host(python=sys.executable), transport, kept.keep)
    transport.close()


def host(**tools: str) -> Host:
    return Host(roles=[Role.SERVING], transport="local", tools=tools, name="h1")


def gone(pid: int) -> bool:
    return not pathlib.Path(f"/proc/{pid}").exists()


def test_an_engine_serves_for_the_block_and_leaves_its_output(witness, kept, tmp_path) -> None:
    setup = ArmSetup(arm="local", seed=7, model="pico", kv_path=str(tmp_path))
    with start_engine(witness, setup) as engine:
        assert engine.answers()
        assert engine.base_url == f"http://127.0.0.1:{engine.port}"
        assert engine.direct_io in (True, False)
        assert engine.metrics(keep=True)["vllm:request_success_total"] == 1
        engine.wait_stored(5)
        pid = engine.pid
        assert pid != os.getpid()
    assert gone(pid)
    assert engine.evidence == ["0", "1"]
    assert b"vllm:request_success_total" in kept[0].stdout
    assert b'"ready": true' in kept[1].stdout


def test_it_restarts_at_the_same_address(witness) -> None:
    with start_engine(witness, RECOMPUTE) as engine:
        first, url = engine.pid, engine.base_url
        with pytest.raises(HarnessError, match="has not ended"):
            engine.restart()
        engine.stop()
        assert not engine.answers()
        engine.restart()
        assert engine.answers()
        assert engine.base_url == url
        assert engine.pid != first
    assert len(engine.evidence) == 2


def end_unasked(engine: RunningEngine) -> None:
    """Kill it behind the harness's back and wait until that is known."""
    os.kill(engine.pid, 9)
    engine._running().wait(10)


def test_an_engine_that_ends_by_itself_is_told(witness, kept) -> None:
    with (
        pytest.raises(CommandError, match="the engine ended by itself"),
        start_engine(witness, RECOMPUTE) as engine,
    ):
        end_unasked(engine)
    assert len(kept) == 1


def test_it_is_stopped_when_the_block_breaks(witness) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        start_engine(witness, RECOMPUTE) as engine,
    ):
        raise ZeroDivisionError
    assert gone(engine.pid)


def test_a_python_without_kvgate_is_not_run(kept, tmp_path) -> None:
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\necho "/usr/bin/python3: No module named kvgate" >&2\nexit 1\n')
    bare.chmod(0o755)
    witness = Witness(host(python=str(bare)), LocalTransport("h1"), kept.keep)
    with (
        pytest.raises(NotRunError, match="No module named kvgate"),
        start_engine(witness, RECOMPUTE),
    ):
        pass
    assert kept[0].exit_status == 1


def test_what_keeps_it_from_starting_is_said(witness, tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    setup = ArmSetup(arm="local", seed=7, model="pico", kv_path=str(tmp_path / "file"))
    with (
        pytest.raises(CommandError, match="no KV tier can be kept here"),
        start_engine(witness, setup),
    ):
        pass


@pytest.mark.parametrize(("arm", "path"), [("recompute", "/x"), ("local", None), ("device", None)])
def test_an_arm_and_its_path_must_agree(arm, path) -> None:
    with pytest.raises(ValueError, match=arm):
        ArmSetup(arm=arm, seed=1, kv_path=path)
