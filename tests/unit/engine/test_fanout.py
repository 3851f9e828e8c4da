"""Many asked at once: in groups as they come, within bounds, and nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kvgate.engine import fanout
from kvgate.engine.fanout import asked_again, fan_out
from kvgate.errors import AskerLostError, HostUnreachableError


def run(
    parts: list[int],
    ask: Callable[[int], object],
    at_once: int = 8,
    told: list[tuple[str, str]] | None = None,
) -> Iterator[list[tuple[int, object]]]:
    def tell(text: str, awaits: str) -> None:
        if told is not None:
            told.append((text, awaits))

    return fan_out(parts, ask, at_once=at_once, name=lambda part: f"node-{part}", tell=tell)


@pytest.mark.parametrize("at_once", [1, 3, 64, 500])
def test_every_part_is_answered_once(at_once: int) -> None:
    groups = list(run(list(range(300)), lambda part: part * part, at_once))
    assert sorted(pair for group in groups for pair in group) == [(n, n * n) for n in range(300)]
    assert max(map(len, groups)) <= fanout.GROUP


def test_nothing_to_ask_is_no_group() -> None:
    assert list(run([], lambda part: part)) == []


def test_a_slow_one_holds_up_no_other_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "TELL_S", 0.02)
    monkeypatch.setattr(fanout, "GATHER_S", 0.0)
    free = threading.Event()
    told: list[tuple[str, str]] = []

    def ask(part: int) -> int:
        if part == 17:
            free.wait(60)
        return part

    answered: list[int] = []
    for group in run(list(range(100)), ask, told=told):
        answered += [part for part, _ in group]
        if len(answered) == 99:
            threading.Timer(0.2, free.set).start()
    assert answered[-1] == 17
    assert ("99 of 100 hosts have answered", "node-17's answer") in told


def test_no_more_are_asked_at_once_than_allowed_and_slow_taking_slows_asking() -> None:
    lock = threading.Lock()
    begun, open_now, most = 0, 0, 0

    def ask(part: int) -> int:
        nonlocal begun, open_now, most
        with lock:
            begun, open_now = begun + 1, open_now + 1
            most = max(most, open_now)
        with lock:
            open_now -= 1
        return part

    answers = run(list(range(1000)), ask, at_once=4)
    next(answers)
    settled = threading.Event()
    settled.wait(0.3)
    with lock:
        # what was taken, what is in the queue, and one in each hand
        assert begun <= fanout.GROUP + 4 + 4
    assert sum(len(group) for group in answers) <= 1000
    assert most <= 4


def test_an_error_is_raised_and_nothing_more_is_asked() -> None:
    asked: list[int] = []

    def ask(part: int) -> int:
        asked.append(part)
        if part == 5:
            raise ZeroDivisionError
        return part

    with pytest.raises(ZeroDivisionError):
        list(run(list(range(10_000)), ask, at_once=2))
    assert len(asked) < 10_000
    assert threading.active_count() < 50


def test_left_early_its_threads_end() -> None:
    before = threading.active_count()
    answers = run(list(range(1000)), lambda part: part, at_once=16)
    next(answers)
    answers.close()  # type: ignore[attr-defined]  # a generator
    assert threading.active_count() <= before


def test_an_interrupt_gives_up_what_is_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "TELL_S", 0.02)
    free = threading.Event()

    def interrupt(_text: str, _awaits: str) -> None:
        raise KeyboardInterrupt  # as Ctrl-C does while nothing comes

    answers = fan_out(
        list(range(4)),
        lambda _: free.wait(60),
        at_once=4,
        name=str,
        tell=interrupt,
        give_up=free.set,
    )
    with pytest.raises(KeyboardInterrupt):
        next(answers)
    assert free.is_set()


def test_what_was_lost_with_its_asker_is_asked_once_more() -> None:
    tries: list[int] = []

    def lost(times: int) -> str:
        tries.append(1)
        if len(tries) <= times:
            raise AskerLostError("node-1", "its process has ended")
        return "well"

    assert asked_again(lambda: lost(1)) == "well"
    tries.clear()
    with pytest.raises(AskerLostError):
        asked_again(lambda: lost(2))
    assert len(tries) == 2


def test_what_the_host_did_is_not_asked_again() -> None:
    tries: list[int] = []

    def gone() -> str:
        tries.append(1)
        raise HostUnreachableError("node-1", "the link was lost while a command ran")

    with pytest.raises(HostUnreachableError):
        asked_again(gone)
    assert tries == [1]
