"""Where a load's requests come from: a source, asked for one after another and told what came."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kvgate.load.rows import Request, Row

Told = tuple[int, ...] | str
"""What an answer held: its token ids; its text where the engine gave none or the prompt was one."""


class Source(Protocol):
    """Gives the requests of a load, in the order of their ``due_s`` where they have one.

    Both methods are called by one thread, which is not the one that sends: they may take their
    time. More is asked for than is sent in the end: requests are made ready ahead.
    """

    follows: bool
    """Whether `ended` may return a request. False spares the sender the wait for it."""

    def next(self) -> Request | None:
        """Return the next request that waits for no answer; None once there is none, for good."""

    def ended(self, row: Row, answer: Told) -> Request | None:
        """Take an answered request; return its session's next turn, None if it has no more.

        The next turn's ``due_s`` (after the load's start) is when it is to be sent: the row's
        ``due_s + end_s`` and the time that its user thinks. In a closed loop that user waits so
        long, and is under way meanwhile.
        """


class Each:
    """A source of requests that follow no answer: those of `requests`, in their order."""

    follows = False

    def __init__(self, requests: Iterable[Request]) -> None:
        self._requests = iter(requests)

    def next(self) -> Request | None:
        """Return the next of the requests."""
        return next(self._requests, None)

    def ended(self, _row: Row, _answer: Told) -> Request | None:
        """Return None: nothing follows."""
        return None
