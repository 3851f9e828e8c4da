"""The closed loop: so many requests under way at any time, each sent when another has ended."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Callable, Iterable, Iterator

import aiohttp

from kvgate.load.client import Endpoint, send
from kvgate.load.rows import Failure, LoadResult, Request, Row

LAG_TICK_S = 0.005
RETRY_PAUSE_S = 0.1
"""How long a user waits after a refused connection before the next request, as people would."""


def closed_loop(
    endpoint: Endpoint,
    requests: Iterable[Request],
    *,
    concurrency: int,
    duration_s: float | None = None,
    on_row: Callable[[Row], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> LoadResult:
    """Send `requests` with `concurrency` under way, until they are used up or the time is.

    After `duration_s`, or once `stop()` is true, no further request is sent; those under way
    are waited for. `requests` may be endless then. `on_row` is told of every row as it ends, in
    this thread. Raises ValueError for a concurrency below 1.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency {concurrency} is below 1")
    loop = _Loop(endpoint, iter(requests), duration_s, on_row, stop)
    return asyncio.run(loop.run(concurrency))


class _Loop:
    """One run of the closed loop and the rows it has so far."""

    def __init__(
        self,
        endpoint: Endpoint,
        requests: Iterator[Request],
        duration_s: float | None,
        on_row: Callable[[Row], None] | None,
        stop: Callable[[], bool] | None,
    ) -> None:
        self._endpoint = endpoint
        self._requests = requests
        self._duration_s = duration_s
        self._on_row = on_row
        self._stop = stop
        self._rows: list[Row] = []
        self._lag_max_s = 0.0
        self._origin = 0.0

    async def run(self, concurrency: int) -> LoadResult:
        started_at = datetime.datetime.now(datetime.UTC)
        self._origin = time.monotonic()
        watch = asyncio.create_task(self._watch_lag())
        connector = aiohttp.TCPConnector(limit=0)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, trust_env=False) as http,
                asyncio.TaskGroup() as users,
            ):
                for _ in range(concurrency):
                    users.create_task(self._user(http))
        finally:
            watch.cancel()
        return LoadResult(
            base_url=self._endpoint.base_url,
            model=self._endpoint.model,
            concurrency=concurrency,
            started_at=started_at,
            elapsed_s=time.monotonic() - self._origin,
            lag_max_s=self._lag_max_s,
            rows=tuple(self._rows),
        )

    async def _user(self, http: aiohttp.ClientSession) -> None:
        """Send one request after another."""
        while not self._over() and (request := next(self._requests, None)) is not None:
            row = await send(http, self._endpoint, request, origin=self._origin)
            self._rows.append(row)
            if self._on_row is not None:
                self._on_row(row)
            if row.failure is Failure.CONNECTION:
                await asyncio.sleep(RETRY_PAUSE_S)

    def _over(self) -> bool:
        if self._stop is not None and self._stop():
            return True
        return self._duration_s is not None and time.monotonic() - self._origin >= self._duration_s

    async def _watch_lag(self) -> None:
        """Measure how late the event loop wakes this task: so late may a token be noticed."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_TICK_S
            await asyncio.sleep(LAG_TICK_S)
            self._lag_max_s = max(self._lag_max_s, loop.time() - due)
