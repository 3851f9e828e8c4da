"""One load by several clients at once: each sends its share, all begin together, rows are merged.

The clients are Dask workers on test equipment that carries kvgate; never hosts under test.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import time
from collections.abc import Sequence
from typing import Any

from kvgate.errors import KvgateError, UsageError
from kvgate.load.endpoint import Endpoint
from kvgate.load.issued import Issued
from kvgate.load.parts import Done, Part, run_part
from kvgate.load.rows import LoadResult, Row
from kvgate.load.shape import Closed
from kvgate.workloads.dask_cluster import LOOK_S, connected

BARRIER_S = 2.0
"""Seconds from when all clients have answered to their common beginning, at least."""

ASKED_TIMES = 5
"""How often a client's clock is asked; the answer of the shortest round trip counts."""

APART_MOST_S = 0.25
"""How far apart clients may begin; beyond it they were no load of one shape."""

END_GRACE_S = 120.0
"""How much longer than its time and time-out a share may take before its client is lost."""

ANSWER_WITHIN_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """What one client did: its name, when its rows began by our clock, and what came of it."""

    client: str
    began: float
    done: Done | None
    problem: str = ""


class Clients:
    """The clients of a cluster, as a context: what was started for them ends with it.

    Of a closed loop each has its part of the users, of an open loop every n-th session (or
    conversation of a trace), at the times they have in the whole. A client that is lost is named,
    and nothing follows from the load. Raises UsageError for a cluster that can't be had.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._held = contextlib.ExitStack()
        self._cluster: Any = None

    def __enter__(self) -> Clients:
        """Connect, or start what is to be started."""
        self._cluster = self._held.enter_context(connected(self._where))
        return self

    def __exit__(self, *_: object) -> None:
        """End what was started."""
        self._held.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the clients there are now."""
        return tuple(sorted(self._cluster.scheduler_info(n_workers=-1)["workers"]))

    def run(self, endpoint: Endpoint, part: Part) -> Done:
        """Run `part` from every client at once; raises UsageError for more clients than users."""
        cluster, workers = self._cluster, self.names
        if isinstance(part.shape, Closed) and part.shape.concurrency < len(workers):
            raise UsageError(
                f"{part.shape.concurrency} users can't be shared by {len(workers)} clients",
                hint="choose a concurrency of at least one a client",
            )
        ahead = {each: _clock_ahead(cluster, each) for each in workers}
        begin = time.time() + BARRIER_S
        futures = []
        for number, worker in enumerate(workers):
            own = part.of(number, len(workers))
            only = {"workers": [worker], "allow_other_workers": False, "pure": False}
            futures.append(cluster.submit(share, endpoint, own, begin + ahead[worker], **only))
        shares = [
            _answer(cluster, future, worker, ahead[worker], _longest_s(endpoint, part))
            for future, worker in zip(futures, workers, strict=True)
        ]
        return merged(part, endpoint, shares)


def _longest_s(endpoint: Endpoint, part: Part) -> float | None:
    """Return how long a share may take; None where only its requests end it."""
    if part.duration_s is None:
        return None
    return BARRIER_S + part.duration_s + endpoint.timeout_s + END_GRACE_S


def _now() -> float:
    """Return a worker's clock."""
    return time.time()


def _clock_ahead(cluster: Any, worker: str) -> float:
    """Return by how many seconds a worker's clock is ahead of ours; raises UsageError."""
    best = (float("inf"), 0.0)
    for _ in range(ASKED_TIMES):
        sent, asked = time.time(), time.monotonic()
        future = cluster.submit(_now, workers=[worker], allow_other_workers=False, pure=False)
        try:
            there = float(future.result(timeout=ANSWER_WITHIN_S))
        except Exception as err:
            raise UsageError(
                f"client {worker} does not answer: {type(err).__name__}: {str(err)[:200]}",
                hint="does it carry this kvgate? is it still up?",
            ) from err
        trip = time.monotonic() - asked
        best = min(best, (trip, there - sent - trip / 2))
    return best[1]


def share(endpoint: Endpoint, part: Part, begin: float) -> tuple[float, Done | str]:
    """Wait for `begin` on this clock, run the share; return when it began, and what came of it."""
    wait_s = begin - time.time()
    if wait_s < 0:
        return begin, f"was asked {-wait_s:.1f} s too late to begin with the others"
    time.sleep(wait_s)
    began = time.time()
    try:
        return began, run_part(endpoint, part)
    except KvgateError as err:
        return began, err.message


def _answer(cluster: Any, future: Any, worker: str, ahead: float, longest_s: float | None) -> Share:
    """Return what a client did; one that is lost says so."""
    try:
        began, done = _awaited(cluster, future, worker, longest_s)
    except Exception as err:  # noqa: BLE001  whatever a worker raises is its own loss
        lost = f"client {worker} was lost: {type(err).__name__}: {str(err)[:200]}"
        return Share(worker, 0.0, None, lost)
    if isinstance(done, str):
        return Share(worker, began - ahead, None, f"client {worker}: {done}")
    return Share(worker, began - ahead, done)


def _awaited(
    cluster: Any, future: Any, worker: str, longest_s: float | None
) -> tuple[float, Done | str]:
    """Wait for a worker's answer; raises ConnectionError once it is gone, what it raised, else.

    Dask would wait for ever for the one worker that may do it.
    """
    ends = None if longest_s is None else time.monotonic() + longest_s
    look_s = LOOK_S
    while True:
        try:
            found: tuple[float, Done | str] = future.result(timeout=look_s)
        except TimeoutError:
            if future.done():
                if future.status != "finished":
                    raise
                look_s *= 2  # its rows are on their way: that is not to be lost
            if ends is not None and time.monotonic() > ends:
                future.cancel()
                raise
            if worker not in cluster.scheduler_info(n_workers=-1)["workers"]:
                future.cancel()
                raise ConnectionError("it is gone from the cluster") from None
        else:
            return found


def merged(part: Part, endpoint: Endpoint, shares: Sequence[Share]) -> Done:
    """Return the shares as one load, its rows on one time line; every problem is told."""
    untold = [each.problem for each in shares if each.problem]
    known = [(each, each.done) for each in shares if each.done is not None]
    first = min((each.began for each, _ in known), default=0.0)
    last = max((each.began for each, _ in known), default=0.0)
    if last - first > APART_MOST_S:
        untold.append(f"the clients began {last - first:.2f} s apart")
    issued, notes = Issued(), []
    rows: list[Row] = []
    warm_up: list[Row] = []
    for each, done in known:
        untold += [f"client {each.client}: {why}" for why in done.untold]
        notes += [f"client {each.client}: {note}" for note in done.notes]
        issued.take(done.issued)
        rows += [_later(row, each.began - first) for row in done.result.rows]
        warm_up += [_later(row, each.began - first) for row in done.result.warm_up]
    results = [done.result for _, done in known]
    begun_at = datetime.datetime.fromtimestamp(first, datetime.UTC)
    result = LoadResult(
        base_url=endpoint.base_url,
        model=endpoint.model,
        concurrency=sum(each.concurrency for each in results),
        started_at=min((each.started_at for each in results), default=begun_at),
        elapsed_s=max((each.elapsed_s for each in results), default=0.0) + last - first,
        lag_max_s=max((each.lag_max_s for each in results), default=0.0),
        rows=tuple(sorted(rows, key=_ended)),
        warm_up=tuple(sorted(warm_up, key=_ended)),
        held_back=sum(each.held_back for each in results),
        unsent=sum(each.unsent for each in results),
    )
    return Done(part=part, result=result, issued=issued, untold=tuple(untold), notes=tuple(notes))


def _ended(row: Row) -> float:
    return row.ended_s


def _later(row: Row, by_s: float) -> Row:
    """Return `row` on a time line that began `by_s` earlier than its own."""
    due_s = None if row.due_s is None else row.due_s + by_s
    return dataclasses.replace(row, sent_s=row.sent_s + by_s, due_s=due_s)
