"""Finds the highest concurrency that keeps a service level, by loads of one workload."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from kvgate.load.parts import Done, Part
from kvgate.load.rows import Row
from kvgate.load.sessions import Sessions
from kvgate.load.shape import Closed
from kvgate.load.slo import Found, Level, Slo, level_of, search

TRIES = 3
"""How often a level is measured from which nothing follows, before the search gives up."""

OnRow = Callable[[Row], None]
Stop = Callable[[], bool]
Run = Callable[[Part, OnRow, Stop], Done]
"""Runs a part, tells every row, and stops once it is told to."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched for: the level that is to be kept, and how closely the edge is wanted."""

    slo: Slo
    most: int
    least: int = 1
    tolerance: float = 0.1
    repeats: int = 3


def find(
    asked: Search,
    what: Sessions,
    run: Run,
    *,
    on_level: Callable[[Level], None] | None = None,
    judged: Callable[[Done], str] | None = None,
) -> tuple[Found, list[Done]]:
    """Return the highest concurrency that keeps the level, and every load that was run for it.

    A load has ``Slo.requests_at`` its concurrency and sessions that none before it had (of a pool,
    those whose turn it is); it is stopped as soon as the level can't be kept any more. `judged`
    says why nothing follows from a load, "" where it does (default: what the load itself says).
    Raises what `run` does.
    """
    finder = _Finder(asked.slo, what, run, on_level, judged)
    found = search(
        finder.measure,
        least=asked.least,
        most=asked.most,
        tolerance=asked.tolerance,
        repeats=asked.repeats,
    )
    return found, finder.done


class _Finder:
    """Measures levels, each with the sessions that follow those of the one before."""

    def __init__(
        self,
        slo: Slo,
        what: Sessions,
        run: Run,
        on_level: Callable[[Level], None] | None,
        judged: Callable[[Done], str] | None,
    ) -> None:
        self.done: list[Done] = []
        self._slo, self._what, self._run = slo, what, run
        self._on_level, self._judged = on_level, judged
        self._first = what.first

    def measure(self, concurrency: int) -> Level:
        """Return what came of one concurrency; what can't be told is asked again, TRIES times."""
        for _ in range(TRIES):
            level = self._once(concurrency)
            if self._on_level:
                self._on_level(level)
            if level.kept is not None:
                break
        return level

    def _once(self, concurrency: int) -> Level:
        requests = self._slo.requests_at(concurrency)
        part = Part(
            name=f"concurrency {concurrency}",
            what=dataclasses.replace(self._what, first=self._first, count=requests),
            shape=Closed(concurrency=concurrency),
        )
        self._first += requests
        done = _until_hopeless(self._run, part, self._slo.hopeless(requests))
        self.done.append(done)
        untold = self._judged(done) if self._judged else "; ".join(done.untold)
        level = level_of(done.result, self._slo, concurrency=concurrency, untold=untold)
        if not untold and level.requests < requests:
            return _stopped(level, requests)
        return level


def _until_hopeless(run: Run, part: Part, hopeless: Callable[[Row], bool]) -> Done:
    lost = False

    def on_row(row: Row) -> None:
        nonlocal lost
        lost = hopeless(row) or lost

    return run(part, on_row, lambda: lost)


def _stopped(level: Level, requests: int) -> Level:
    """Return a level that was stopped as one that has missed: the rest could not have saved it."""
    told = f"{level.told}; stopped after {level.requests} of {requests}"
    return dataclasses.replace(level, kept=False, told=told)
