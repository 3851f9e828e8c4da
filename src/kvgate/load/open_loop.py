"""The open loop: every request at its time, whatever became of those before it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable

from kvgate.load.feeder import Feeder, Ready
from kvgate.load.rows import Row
from kvgate.load.shape import Open
from kvgate.load.source import Told

LOOK_S = 0.5
"""How long is waited at most before it is asked whether the load is to end."""


class OpenLoop:
    """One open-loop run. `send` sends a request that is due at a monotonic time.

    `over` tells whether it is to end, `late` is told how much later a request was sent than it
    could have been. After `run`, ``held_back`` is how many had to wait for others to end, and
    ``unsent`` how many were due and never sent.
    """

    def __init__(
        self,
        feeder: Feeder,
        shape: Open,
        *,
        origin: float,
        until_s: float | None,
        send: Callable[[Ready, float], Awaitable[tuple[Row, Told]]],
        over: Callable[[], bool],
        late: Callable[[float], None],
    ) -> None:
        self._feeder, self._most = feeder, shape.max_in_flight
        self._origin, self._until_s = origin, until_s
        self._send, self._over, self._late = send, over, late
        self._heap: list[tuple[float, int, bool, Ready]] = []
        self._numbers = itertools.count()
        self._changed = asyncio.Event()
        self._in_flight = 0
        self._freed_s = 0.0
        self.held_back = 0
        self.unsent = 0

    async def run(self) -> None:
        """Send all, and wait for those under way."""
        async with asyncio.TaskGroup() as tasks:
            await self._next()
            held = None
            while not self._over() and (self._heap or self._in_flight):
                if not self._heap:
                    await self._wait(LOOK_S)
                    continue
                due_s, number, streamed, ready = self._heap[0]
                if (wait_s := due_s - self._now_s()) > 0:
                    await self._wait(wait_s)
                elif self._in_flight >= self._most:
                    self.held_back += number != held
                    held = number
                    await self._wait(LOOK_S)
                else:
                    heapq.heappop(self._heap)
                    could_s = max(due_s, self._freed_s) if number == held else due_s
                    self._in_flight += 1
                    tasks.create_task(self._one(ready, due_s, could_s))
                    if streamed:
                        await self._next()
            await self._count_unsent()

    async def _one(self, ready: Ready, due_s: float, could_s: float) -> None:
        row, told = await self._send(ready, self._origin + due_s)
        self._late(row.sent_s - could_s)
        self._freed_s = self._now_s()
        follow = await self._feeder.ended(row, told)
        if follow is not None:
            self._push(follow, streamed=False)
        self._in_flight -= 1
        self._changed.set()

    async def _next(self) -> None:
        """Take the next request of the source itself: one of them is always at hand."""
        ready = await self._feeder.take()
        if ready is not None:
            self._push(ready, streamed=True)

    def _push(self, ready: Ready, *, streamed: bool) -> None:
        due_s = ready.request.due_s
        if due_s is None:
            raise ValueError(f"{ready.request.session}: a request of an open loop is never due")
        heapq.heappush(self._heap, (due_s, next(self._numbers), streamed, ready))

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until a request has ended or become due."""
        self._changed.clear()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(min(seconds, LOOK_S), self._changed.set)
        await self._changed.wait()
        timer.cancel()

    async def _count_unsent(self) -> None:
        """Count what was due by now, or would have been by the end, and was not sent."""
        end_s = self._now_s()
        if self._until_s is not None:
            end_s = min(end_s, self._until_s)
        while self._heap and self._heap[0][0] < end_s:
            *_, streamed, _ready = heapq.heappop(self._heap)
            self.unsent += 1
            if streamed:
                await self._next()

    def _now_s(self) -> float:
        return time.monotonic() - self._origin
