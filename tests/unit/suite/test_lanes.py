"""Blocks side by side: recorded as they end, errors told together, ended when interrupted."""

import contextlib
import threading
from typing import Any

import pytest

from kvgate.errors import HarnessError, NotRunError
from kvgate.spec.inventory import Host, Role
from kvgate.suite.lanes import one_by_one, side_by_side
from kvgate.witness import Answer

HOSTS = [Host(roles=[Role.SERVING], transport="local", name=name) for name in ("a", "b")]


class Block(contextlib.nullcontext[None]):
    def __init__(self, host: Host, part: int) -> None:
        super().__init__()
        self.key = f"{host.name}/{part}"
        self.labels = {"host": host.name, "part": str(part)}


class Interrupted(Block):
    """Ctrl-C while its measurements are recorded."""

    def __enter__(self) -> None:
        raise KeyboardInterrupt


class Bench:
    """Notes what was recorded, and for what each thread asks."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str]] = []
        self.asking: dict[int, str] = {}

    def asks_for(self, block: Block) -> None:
        self.asking[threading.get_ident()] = block.key

    def record(self, _: Answer, *, host: Host, phase: str, part: str) -> None:
        assert phase == "diagnosis"
        self.recorded.append((host.name, part))


def lanes(*parts: int) -> Any:
    return [[(host, Block(host, part)) for part in parts] for host in HOSTS]


def told() -> Answer:
    return Answer((), ())


def test_lanes_run_at_once_and_a_lane_in_its_order() -> None:
    bench: Any = Bench()
    both = threading.Barrier(2, timeout=60)

    def work(_host: Host, block: Any, _cancel: threading.Event) -> Answer:
        assert bench.asking[threading.get_ident()] == block.key
        both.wait()
        return told()

    side_by_side(bench, [*lanes(1, 2), []], work, phase="diagnosis")
    assert sorted(bench.recorded) == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    assert [part for host, part in bench.recorded if host == "a"] == ["1", "2"]
    side_by_side(bench, [], work, phase="diagnosis")


def test_what_is_missing_on_all_is_told_once_with_every_reason() -> None:
    bench: Any = Bench()

    def work(host: Host, _block: Any, _cancel: threading.Event) -> Answer:
        raise NotRunError((f"{host.name}: no rvs",), hint="install it")

    with pytest.raises(NotRunError) as err:
        side_by_side(bench, lanes(1, 2), work, phase="diagnosis")
    assert sorted(err.value.reasons) == ["a: no rvs", "b: no rvs"]
    assert err.value.hint == "install it"


def test_what_breaks_stops_no_other_and_outweighs_what_is_missing() -> None:
    bench: Any = Bench()

    def work(host: Host, block: Any, _cancel: threading.Event) -> Answer:
        if block.key == "a/1":
            raise NotRunError(("a: no rvs",))
        if block.key == "b/1":
            raise ValueError("ours")
        return told()

    with pytest.raises(HarnessError, match="b: kvgate broke: ValueError: ours"):
        side_by_side(bench, lanes(1, 2), work, phase="diagnosis")
    assert sorted(bench.recorded) == [("a", "2"), ("b", "2")]


def test_an_interrupt_tells_all_work_to_end_and_waits_for_it() -> None:
    bench: Any = Bench()
    ended: list[str] = []

    def work(host: Host, block: Any, cancel: threading.Event) -> Answer:
        if block.key == "a/1":
            return told()
        assert cancel.wait(60)
        ended.append(host.name)
        raise HarnessError(f"{host.name}: cancelled")

    made = lanes(1, 2)
    made[0][0] = (HOSTS[0], Interrupted(HOSTS[0], 1))
    with pytest.raises(KeyboardInterrupt):
        side_by_side(bench, made, work, phase="diagnosis")
    assert "b" in ended
    assert bench.recorded == []


def test_in_turn_none_stops_another_and_every_reason_is_told() -> None:
    done = []

    def act(name: str) -> None:
        done.append(name)
        if name == "broken":
            raise HarnessError("broken: kvgate broke")
        if name != "fine":
            raise NotRunError((f"{name}: no fio",), hint="install it")

    one_by_one(["fine"], act)
    with pytest.raises(NotRunError) as err:
        one_by_one(["a", "fine", "b"], act)
    assert err.value.reasons == ("a: no fio", "b: no fio")
    assert err.value.hint == "install it"
    with pytest.raises(HarnessError, match="broken: kvgate broke"):
        one_by_one(["a", "broken", "fine"], act)
    assert done == ["fine", "a", "fine", "b", "a", "broken", "fine"]


def test_one_error_alone_is_raised_as_it_is() -> None:
    alone = NotRunError(("a: no fio",))

    def act(_: str) -> None:
        raise alone

    with pytest.raises(NotRunError) as err:
        one_by_one(["a"], act)
    assert err.value is alone
