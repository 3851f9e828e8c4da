"""Many hosts at once: answers as they come, within bounds of memory, and who is waited for."""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kvgate.errors import AskerLostError

GROUP = 64
"""How many answers are handed on together at most: so many share one wait for the disk."""

GATHER_S = 0.2
"""How long an answer waits for others to be handed on with."""

TELL_S = 0.5
"""How often it is told who is waited for."""

_P = TypeVar("_P")
_A = TypeVar("_A")
_T = TypeVar("_T")
Tell = Callable[[str, str], None]
"""Takes how far it is ("713 of 1,000 hosts have answered") and who is waited for."""


def asked_again(ask: Callable[[], _T]) -> _T:
    """Return what `ask` does, once more where our own process that asked was lost.

    For what only reads: what a command has done that was lost with it is not known.
    """
    try:
        return ask()
    except AskerLostError:
        return ask()


class _Asking:
    """Who is being asked, and what has come but was not taken yet."""

    def __init__(self, at_once: int) -> None:
        self.came: queue.Queue[tuple[int, object, BaseException | None]] = queue.Queue(at_once)
        self.since: dict[int, float] = {}  # number → when asking began, oldest first
        self.stopped = threading.Event()

    def ask(self, number: int, ask: Callable[[], object]) -> None:
        """Ask, and hand the answer over as soon as there is room for it."""
        if self.stopped.is_set():
            return
        self.since[number] = time.monotonic()
        try:
            told: tuple[int, object, BaseException | None] = number, ask(), None
        except BaseException as err:  # noqa: BLE001  raised again by who takes the answers
            told = number, None, err
        self.since.pop(number, None)
        while not self.stopped.is_set():
            with contextlib.suppress(queue.Full):
                self.came.put(told, timeout=TELL_S)
                return


def fan_out(
    parts: Sequence[_P],
    ask: Callable[[_P], _A],
    *,
    at_once: int,
    name: Callable[[_P], str],
    tell: Tell,
    give_up: Callable[[], None] | None = None,
) -> Iterator[list[tuple[_P, _A]]]:
    """Yield `ask` of every part with the part, in groups and as they come.

    `at_once` are asked at a time; where answers are taken slower than they come, asking waits.
    Raises what `ask` raises. When it is left early nothing more is asked; at an interrupt
    `give_up` is called, so that what is being asked ends soon. One at a time is asked in order,
    by the caller's own thread.
    """
    if at_once == 1:
        yield from _in_order(parts, ask, name, tell)
        return
    asking, taken = _Asking(at_once), 0
    pool = ThreadPoolExecutor(min(at_once, len(parts)) or 1)
    try:
        for number, part in enumerate(parts):
            pool.submit(asking.ask, number, functools.partial(ask, part))
        while taken < len(parts):
            group = _group(asking, len(parts) - taken)
            if not group:
                _tell(asking, parts, taken, name, tell)
                continue
            taken += len(group)
            yield [(parts[number], answer) for number, answer in group]  # type: ignore[misc]
    except KeyboardInterrupt:
        asking.stopped.set()
        if give_up is not None:
            give_up()
        raise
    finally:
        asking.stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _in_order(
    parts: Sequence[_P], ask: Callable[[_P], _A], name: Callable[[_P], str], tell: Tell
) -> Iterator[list[tuple[_P, _A]]]:
    for part in parts:
        tell("", f"{name(part)}'s answer")
        yield [(part, ask(part))]


def _group(asking: _Asking, most: int) -> list[tuple[int, object]]:
    """Return the answers that come within `GATHER_S` of the first; none: none came for a while."""
    group: list[tuple[int, object]] = []
    timeout, until = TELL_S, 0.0
    while len(group) < min(GROUP, most):
        try:
            number, answer, error = asking.came.get(timeout=timeout)
        except queue.Empty:
            break
        if error is not None:
            raise error
        until = until or time.monotonic() + GATHER_S
        group.append((number, answer))
        timeout = max(0.0, until - time.monotonic())
    return group


def _tell(
    asking: _Asking, parts: Sequence[_P], taken: int, name: Callable[[_P], str], tell: Tell
) -> None:
    """Say how far it is, and which host is waited for longest."""
    oldest = next(iter(list(asking.since)), None)
    answered = f"{taken:,} of {len(parts):,} hosts have answered"
    tell(answered, "" if oldest is None else f"{name(parts[oldest])}'s answer")
