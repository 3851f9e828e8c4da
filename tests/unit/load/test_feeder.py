"""Where requests are made: quick ones in the event loop's thread, slow ones in another."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from kvgate.load import feeder as feeder_module
from kvgate.load.endpoint import Endpoint
from kvgate.load.feeder import Feeder
from kvgate.load.rows import Request, Row
from kvgate.load.source import Told

ENDPOINT = Endpoint(base_url="http://127.0.0.1:1", model="m", timeout_s=1)


def compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Noted:
    """Gives requests, each computed for `cost(n)` seconds, and notes in which thread."""

    follows = True

    def __init__(self, count: int, cost: Callable[[int], float]) -> None:
        self.count, self.cost = count, cost
        self.threads: list[int] = []
        self.answered: list[int] = []

    def next(self) -> Request | None:
        made = len(self.threads)
        if made == self.count:
            return None
        self.threads.append(threading.get_ident())
        compute(self.cost(made))
        return Request(session=f"s{made}", prompt=(made,), output_tokens=1)

    def ended(self, _row: Row, _told: Told) -> Request | None:
        self.answered.append(threading.get_ident())
        return None


def taken(source: Noted, row: Row, *, ahead: int = 4) -> list[str]:
    async def run() -> list[str]:
        found = []
        with Feeder(source, ENDPOINT, ahead=ahead) as feeder:
            while (ready := await feeder.take()) is not None:
                found.append(ready.request.session)
                assert await feeder.ended(row, ()) is None
                await asyncio.sleep(0)
        return found

    return asyncio.run(run())


def test_quick_ones_are_made_where_they_are_taken(row_of: Callable[..., Row]) -> None:
    source = Noted(200, lambda _: 0.0)
    assert taken(source, row_of()) == [f"s{n}" for n in range(200)]
    assert set(source.threads) == {threading.get_ident()} == set(source.answered)


def test_slow_ones_are_made_in_a_thread_of_their_own(row_of: Callable[..., Row]) -> None:
    source = Noted(40, lambda _: 0.002)
    assert taken(source, row_of()) == [f"s{n}" for n in range(40)]
    here = threading.get_ident()
    assert source.threads.count(here) == feeder_module.SLOW_MOST + 1
    assert len(set(source.threads) - {here}) == 1
    assert here not in source.answered


def test_a_few_slow_ones_move_nothing(row_of: Callable[..., Row]) -> None:
    source = Noted(600, lambda n: 0.002 if n in (100, 300, 500) else 0.0)
    assert len(taken(source, row_of())) == 600
    assert source.threads.count(threading.get_ident()) > 500


@pytest.mark.parametrize(("wait_s", "moved"), [(0.002, False), (0.03, True)])
def test_a_source_that_waits(row_of: Callable[..., Row], wait_s: float, moved: bool) -> None:
    """Waiting for a processor that others have is no reason to move; waiting for a disk is."""
    source = Noted(20, lambda _: 0.0)
    make = source.next

    def slow() -> Request | None:
        time.sleep(wait_s)
        return make()

    source.next = slow  # type: ignore[method-assign]
    with_limit = feeder_module.BLOCKED_S if moved else 10.0  # however busy the machine is
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeder_module, "BLOCKED_S", with_limit)
        taken(source, row_of())
    assert (len(set(source.threads)) > 1) == moved


@pytest.mark.parametrize("cost_s", [0.0, 0.002])
def test_what_a_source_raises_comes_out(row_of: Callable[..., Row], cost_s: float) -> None:
    class Broken(Noted):
        def next(self) -> Request | None:
            if len(self.threads) == 30:
                raise OSError("the trace is gone")
            return super().next()

    with pytest.raises(OSError, match="the trace is gone"):
        taken(Broken(50, lambda _: cost_s), row_of())


def test_no_thread_is_left(row_of: Callable[..., Row]) -> None:
    before = threading.active_count()
    taken(Noted(20, lambda _: 0.002), row_of())
    assert threading.active_count() == before
