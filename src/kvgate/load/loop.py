"""Runs a load: by so many users (closed loop), or at the times that are due (open loop)."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import resource
import time
from collections.abc import Callable, Iterable

from kvgate.load.client import Endpoint, send
from kvgate.load.feeder import Feeder, Ready, quick_switches
from kvgate.load.open_loop import LOOK_S, OpenLoop
from kvgate.load.rows import Failure, LoadResult, Request, Row
from kvgate.load.shape import Closed, Shape
from kvgate.load.source import Each, Source, Told
from kvgate.load.watch import SelfWatch
from kvgate.load.wire import Pool

RETRY_PAUSE_S = 0.1
"""How long a user waits after a refused connection before the next request, as people would."""

AHEAD_LEAST = 32
"""How many requests are made ready ahead, at least; twice the concurrency where that is more."""

AHEAD_OPEN = 1024
"""How many requests of an open loop are made ready ahead: of 5,000 a second, for 0.2 s."""

SPARE_DESCRIPTORS = 256
"""Open files that are left for all else, beside one for each connection."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a load; `result` is of what had ended by then."""

    def __init__(self, result: LoadResult) -> None:
        super().__init__()
        self.result = result


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

    As `run_load` does, without ramp and warm-up. Raises ValueError for a concurrency below 1.
    """
    shape = Closed(concurrency=concurrency)
    source = Each(requests)
    return run_load(endpoint, source, shape, duration_s=duration_s, on_row=on_row, stop=stop)


def run_load(
    endpoint: Endpoint,
    source: Source,
    shape: Shape,
    *,
    duration_s: float | None = None,
    warm_up_s: float = 0.0,
    on_row: Callable[[Row], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> LoadResult:
    """Send what `source` gives, in `shape`, until it is used up or the time is.

    After `duration_s` (which includes the first `warm_up_s`), or once `stop()` is true, no
    further request is sent; those under way are waited for. The source may be endless then, and
    is asked for more than is sent. Requests that were due in the warm-up have rows of their own.
    `on_row` is told of every row as it ends, in this thread, where nothing else goes on
    meanwhile. Raises UsageError for an endpoint that can't be one, ValueError for times that
    can't be, what the source raises, and Interrupted at Ctrl-C.
    """
    if not warm_up_s >= 0 or (duration_s is not None and not duration_s > warm_up_s):
        raise ValueError(f"{duration_s} s with a warm-up of {warm_up_s} s")
    load = _Load(endpoint, source, shape, duration_s, warm_up_s, on_row, stop)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner, quick_switches():
        runner.run(load.run())
    if load.interrupted:
        raise Interrupted(load.results[0])
    return load.results[0]


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the event loop: uvloop's where it is installed."""
    try:
        import uvloop  # 10 ms, so not before it is needed
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


class _Load:
    """One run of a load and the rows it has so far."""

    def __init__(
        self,
        endpoint: Endpoint,
        source: Source,
        shape: Shape,
        duration_s: float | None,
        warm_up_s: float,
        on_row: Callable[[Row], None] | None,
        stop: Callable[[], bool] | None,
    ) -> None:
        self._endpoint, self._source, self._shape = endpoint, source, shape
        self._duration_s, self._warm_up_s = duration_s, warm_up_s
        self._on_row, self._stop = on_row, stop
        self._rows: list[Row] = []
        self._warm_up: list[Row] = []
        self._watch = SelfWatch()
        self._origin = 0.0
        self.results: list[LoadResult] = []
        self.interrupted = False

    async def run(self) -> None:
        """Run the load; its result is in `results`: what a task returns asyncio writes out."""
        address, shape = self._endpoint.address(), self._shape
        if isinstance(shape, Closed):
            most, ahead = shape.concurrency, max(AHEAD_LEAST, 2 * shape.concurrency)
        else:
            most, ahead = shape.max_in_flight, AHEAD_OPEN
        _have_descriptors(most)
        pool = Pool(address.host, address.port, self._endpoint.tls())
        with (
            contextlib.closing(pool),
            contextlib.closing(self._watch),
            Feeder(self._source, self._endpoint, ahead=ahead) as feeder,
        ):
            started_at = datetime.datetime.now(datetime.UTC)
            self._origin = time.monotonic()
            self._watch.start()
            warm = asyncio.get_running_loop().call_later(self._warm_up_s, self._watch.begin)
            open_loop = await self._all(feeder, pool)
            warm.cancel()
            elapsed_s = time.monotonic() - self._origin
            watched = self._watch.stop()
        result = LoadResult(
            base_url=self._endpoint.base_url,
            model=self._endpoint.model,
            concurrency=most,
            started_at=started_at,
            elapsed_s=max(0.0, elapsed_s - self._warm_up_s),
            lag_max_s=watched.lag_max_s,
            rows=tuple(self._rows),
            warm_up=tuple(self._warm_up),
            warm_up_s=min(self._warm_up_s, elapsed_s),
            held_back=open_loop.held_back if open_loop else 0,
            unsent=open_loop.unsent if open_loop else 0,
            watched=watched,
        )
        self.results.append(result)

    async def _all(self, feeder: Feeder, pool: Pool) -> OpenLoop | None:
        """Send all requests; an error comes out as itself, not in a group. Return the open loop.

        Ctrl-C, which is a cancellation here, ends it: what has ended is not lost.
        """
        open_loop = None
        try:
            if isinstance(self._shape, Closed):
                await self._closed(feeder, pool, self._shape)
                return None
            open_loop = OpenLoop(
                feeder,
                self._shape,
                origin=self._origin,
                until_s=self._duration_s,
                send=functools.partial(self._one, pool),
                over=self._over,
                late=self._watch.sent,
            )
            await open_loop.run()
        except asyncio.CancelledError:
            self.interrupted = True
        except BaseExceptionGroup as group:
            raise _first(group) from group
        return open_loop

    async def _closed(self, feeder: Feeder, pool: Pool, shape: Closed) -> None:
        async with asyncio.TaskGroup() as users:
            for number in range(shape.concurrency):
                wait_s = shape.ramp_s * number / shape.concurrency
                users.create_task(self._user(feeder, pool, wait_s))

    async def _user(self, feeder: Feeder, pool: Pool, wait_s: float) -> None:
        """Send one request after another, after `wait_s`; a session's turns follow each other."""
        if wait_s:
            await asyncio.sleep(wait_s)
        follow: Ready | None = None
        while not self._over():
            ready = follow or await feeder.take()
            if ready is None or not await self._until_due(ready.request):
                return
            row, told = await self._one(pool, ready, None)
            follow = await feeder.ended(row, told)
            if row.failure is Failure.CONNECTION:
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _until_due(self, request: Request) -> bool:
        """Wait until `request` is due; tell whether it is still to be sent then."""
        if request.due_s is None:
            return True
        while not self._over():
            wait_s = self._origin + request.due_s - time.monotonic()
            if wait_s <= 0:
                return True
            await asyncio.sleep(min(wait_s, LOOK_S))
        return False

    async def _one(self, pool: Pool, ready: Ready, due: float | None) -> tuple[Row, Told]:
        """Send one request, and keep and tell its row."""
        row, told = await send(
            pool,
            self._endpoint,
            ready.request,
            origin=self._origin,
            due=due,
            encoded=ready.encoded,
        )
        begun_s = row.sent_s if row.due_s is None else row.due_s
        (self._warm_up if begun_s < self._warm_up_s else self._rows).append(row)
        if self._on_row is not None:
            self._on_row(row)
        return row, told

    def _over(self) -> bool:
        """Tell whether no further request is to be sent."""
        if self._stop is not None and self._stop():
            return True
        now_s = time.monotonic() - self._origin
        return self._duration_s is not None and now_s >= self._duration_s


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group that is none itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _have_descriptors(connections: int) -> None:
    """Raise this process's own limit of open files where `connections` may not fit in it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
