"""Makes requests: quick ones where they are taken, others ahead, in a thread of its own.

A prompt of 50,000 tokens takes milliseconds to write down, in which nothing else could be noticed;
one of a hundred takes less than what two threads lose by turns at one interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from kvgate.load.endpoint import Endpoint
from kvgate.load.rows import Request, Row
from kvgate.load.source import Source, Told

QUICK_S = 0.0005
"""What computing a request may take in the event loop's thread: some 4,000 token ids."""

BLOCKED_S = 0.02
"""What making one may take in all; shorter, it is as likely that others had the processor."""

TRIED = 8
"""How many requests are made before the load begins, to see how long they take."""

SLOW_MOST, SLOW_PART = 2, 0.02
"""How many slow ones are made in the event loop's thread before the feeder's takes over; as a part
of all, as now and then one is slow because of the machine, or of Python's garbage."""

AHEAD_BYTES = 32 * 2**20
"""How much is kept ready at most, beside one request: 100 prompts of 50,000 tokens."""

STRETCH_S = 0.0001
"""How long the feeder works before it offers the interpreter to the event loop's thread."""

REFILL = 32
"""How many requests may be missing before more are made: few, so that it takes no time."""

SWITCH_S = 0.0005
"""After how long the feeder's thread lets the event loop's have the interpreter, at most."""


_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class Ready:
    """A request and its bytes as they go out."""

    request: Request
    encoded: bytes


class Feeder:
    """Asks a source for requests and encodes them; used from one event loop, as a context.

    `ahead` is how many are kept ready. What the source raises comes out of `take` and `ended`.
    """

    def __init__(self, source: Source, endpoint: Endpoint, *, ahead: int) -> None:
        self._source, self._endpoint, self._ahead = source, endpoint, ahead
        self._ready: deque[Ready] = deque()
        self._bytes = 0
        self._last = False
        self._error: BaseException | None = None
        self._told: deque[tuple[Row, Told, asyncio.Future[Ready | None]]] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._work = threading.Event()
        self._stopping = False
        self._called = False
        self._loop = asyncio.get_running_loop()
        self._here = True
        self._late = self._slow = self._timed = 0
        self._thread = threading.Thread(target=self._run, name="load-feeder", daemon=True)

    def __enter__(self) -> Feeder:
        """Make the first requests ready; those that take long are made in a thread from now on."""
        for _ in range(min(TRIED, self._ahead)):
            if not self._here or self._last or self._error is not None:
                break
            try:
                self._take_time(self._make)
            except BaseException as err:  # noqa: BLE001  comes out where it is waited for
                self._error = err
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; waits for the request that is being made."""
        self._stopping = True
        self._work.set()
        if not self._here:
            self._thread.join()

    def _take_time(self, make: Callable[[], _T]) -> _T:
        """Do what is done in the event loop's thread, and see how long it takes."""
        careful = self._late >= SLOW_MOST  # a look at the processor's time takes some itself
        begun_cpu = time.thread_time() if careful else 0.0
        began = time.monotonic()
        made = make()
        took = time.monotonic() - began
        if took > QUICK_S:
            self._late += 1
            blocked = took > BLOCKED_S or not careful
            self._slow += blocked or time.thread_time() - begun_cpu > QUICK_S
        self._timed += 1
        if self._slow > SLOW_MOST and self._slow > SLOW_PART * self._timed:
            self._move()
        return made

    def _move(self) -> None:
        """Have everything made by the feeder's thread from now on."""
        self._here = False
        self._work.set()
        self._thread.start()

    async def take(self) -> Ready | None:
        """Return the next request, waiting for it to be made; None once there is none."""
        if self._here and not self._ready and not self._last and self._error is None:
            self._take_time(self._make)
        while not self._ready:
            if self._error is not None:
                raise self._error
            if self._last:
                return None
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._takers.append(waiter)
            self._work.set()
            await waiter
        ready = self._ready.popleft()
        self._bytes -= len(ready.encoded)
        missing = self._ahead - len(self._ready)
        if not self._here and missing >= min(REFILL, self._ahead) and not self._last:
            self._work.set()
        return ready

    async def ended(self, row: Row, told: Told) -> Ready | None:
        """Tell the source of an answer; return its session's next turn, None if it has none."""
        if not self._source.follows:
            return None
        if self._error is not None:
            raise self._error
        if self._here:
            return self._take_time(lambda: self._next_turn(row, told))
        follow: asyncio.Future[Ready | None] = self._loop.create_future()
        self._told.append((row, told, follow))
        self._work.set()
        return await follow

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._work.wait()
                self._work.clear()
                self._fill()
        except BaseException as err:  # noqa: BLE001  comes out where it is waited for
            self._error = err
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(self._wake)

    def _fill(self) -> None:
        """Answer what was told and make requests, by small pieces, until enough are ready."""
        yielded = time.monotonic()
        while not self._stopping:
            if self._told:
                self._follow(*self._told.popleft())
            elif not self._last and (not self._ready or self._has_room()):
                self._make()
            else:
                break
            if time.monotonic() - yielded > STRETCH_S:
                time.sleep(0)  # the event loop's thread first
                yielded = time.monotonic()
        self._call()

    def _has_room(self) -> bool:
        return len(self._ready) < self._ahead and self._bytes < AHEAD_BYTES

    def _make(self) -> None:
        request = self._source.next()
        if request is None:
            self._last = True
        else:
            ready = Ready(request, self._endpoint.request(request))
            self._bytes += len(ready.encoded)
            self._ready.append(ready)
        self._call()

    def _call(self) -> None:
        """Have those who wait look again."""
        if self._takers and not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._wake)

    def _follow(self, row: Row, told: Told, follow: asyncio.Future[Ready | None]) -> None:
        ready = self._next_turn(row, told)
        self._loop.call_soon_threadsafe(_answer, follow, ready)

    def _next_turn(self, row: Row, told: Told) -> Ready | None:
        request = self._source.ended(row, told)
        return None if request is None else Ready(request, self._endpoint.request(request))

    def _wake(self) -> None:
        """Let as many look again as there are requests; in the event loop's thread."""
        self._called = False
        count = len(self._ready)
        while self._takers and (count > 0 or self._last or self._error is not None):
            waiter = self._takers.popleft()
            count -= 1
            if not waiter.done():
                waiter.set_result(None)
        if self._error is not None:
            while self._told:
                *_, follow = self._told.popleft()
                if not follow.done():
                    follow.set_exception(self._error)


def _answer(follow: asyncio.Future[Ready | None], ready: Ready | None) -> None:
    if not follow.done():
        follow.set_result(ready)


_switching = threading.Lock()
_switchers = 0
_usual = (0.0, (0, 0, 0))


YOUNG = 20_000
"""How many objects may be new before they are looked through for garbage (usual: 700)."""

_NEVER = 2**31 - 1


@contextlib.contextmanager
def quick_switches() -> Iterator[None]:
    """Have threads of this process give up the interpreter sooner, while any load is running.

    Nor is all that lives looked through for garbage meanwhile: with 100,000 rows that would take
    tens of milliseconds. What is young is, as ever.
    """
    global _switchers, _usual
    with _switching:
        if not _switchers:
            _usual = sys.getswitchinterval(), gc.get_threshold()
            sys.setswitchinterval(min(SWITCH_S, _usual[0]))
            gc.set_threshold(max(YOUNG, _usual[1][0]), _usual[1][1], _NEVER)
        _switchers += 1
    try:
        yield
    finally:
        with _switching:
            _switchers -= 1
            if not _switchers:
                sys.setswitchinterval(_usual[0])
                gc.set_threshold(*_usual[1])
