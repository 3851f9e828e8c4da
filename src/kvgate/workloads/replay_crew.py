"""The threads that store and restore sessions: closed loop, or by arrivals; each chunk timed.

Each rank has its queue and its readers, as an engine's workers have: sessions come first in,
first out. One reader a rank is serial (one chunk at a time, as LMCache before its parallel read);
more are parallel. Spare threads make and check content meanwhile, which are replay's own work, so
that as many chunks as there are readers are under way all the time. Runs on hosts: the standard
library of Python 3.8.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvgate.workloads.replay_hist import Histogram
from kvgate.workloads.replay_place import aligned
from kvgate.workloads.replay_tier import MOST_TOLD, Damage, LostError, Tier

FEED_S = 0.002


class Work(NamedTuple):
    """A session to store (``version`` of it) or to restore; ``due_s`` after the start, if then."""

    session: int
    store: bool = False
    version: int = 0
    due_s: float = 0.0
    chunks: int = 0  # only its first so many; 0: all


class Outcome:
    """What came of a level: times, bytes, what was damaged, and the CPU time of parts of it."""

    def __init__(self) -> None:
        self.restored: list[tuple[int, float]] = []  # session, seconds
        self.stored: list[tuple[int, float]] = []
        self.reads, self.writes = Histogram(), Histogram()  # of chunks
        self.bytes_read = self.bytes_written = 0
        self.checked = self.damaged = 0
        self.damages: list[Damage] = []
        self.full = 0  # sessions that met ENOSPC
        self.lost = ""
        self.check_cpu_s = self.make_cpu_s = 0.0
        self.late_s = 0.0  # how late the last arrival was handed over at worst

    def merge(self, other: Outcome) -> None:
        """Count what a thread has counted."""
        self.reads.merge(other.reads)
        self.writes.merge(other.writes)
        self.bytes_read += other.bytes_read
        self.bytes_written += other.bytes_written
        self.checked += other.checked
        self.damaged += other.damaged
        self.damages = (self.damages + other.damages)[:MOST_TOLD]
        self.check_cpu_s += other.check_cpu_s
        self.make_cpu_s += other.make_cpu_s


class _Flight:
    """A session under way."""

    def __init__(self, work: Work, chunks: int, begun: float) -> None:
        self.work, self.left, self.begun = work, chunks, begun
        self.full = False


def threads_of(readers: int) -> int:
    """Return how many threads a rank has, each with a buffer of one chunk."""
    return readers + max(1, readers // 4)


class Crew:
    """Readers of one level; used once, as a context: threads and buffers are there inside it."""

    def __init__(self, tier: Tier, *, ranks: int, readers: int) -> None:
        self.tier, self.ranks = tier, ranks
        self.total = Outcome()
        each = threads_of(readers)
        self._slots = [threading.Semaphore(readers) for _ in range(ranks)]
        self._queues = [queue.SimpleQueue() for _ in range(ranks)]  # type: list[queue.SimpleQueue[tuple[_Flight, int] | None]]
        self._counts = [Outcome() for _ in range(ranks * each)]
        self._there = threading.Barrier(ranks * each + 1)
        self._threads = [
            threading.Thread(target=self._work, args=(n % ranks, out), daemon=True)
            for n, out in enumerate(self._counts)
        ]
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._active = 0
        self._next: Callable[[Crew], Work | None] | None = None
        self.busy: set[int] = set()  # sessions under way: not to be evicted
        self.evicted = 0  # counted by whoever evicts

    def __enter__(self) -> Crew:
        for thread in self._threads:
            thread.start()
        self._there.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for rank, line in enumerate(self._queues):
            for _thread in self._threads[rank :: self.ranks]:
                line.put(None)
        for thread in self._threads:
            thread.join()
        for out in self._counts:
            self.total.merge(out)

    def closed(self, following: Callable[[Crew], Work | None], concurrency: int) -> None:
        """Keep `concurrency` sessions under way until all have ended.

        `following` tells the next work, None for no more; one thread at a time asks it.
        """
        with self._lock:
            self._next = following
            for _ in range(concurrency):
                self._follow()
            if not self._active:
                self._done.set()
        self._done.wait()

    def by_arrival(self, works: Sequence[Work]) -> None:
        """Begin each session when it is due, whatever is under way; its time counts from then."""
        begun = time.perf_counter()
        for work in works:
            while (wait := begun + work.due_s - time.perf_counter()) > 0:
                time.sleep(min(wait, 1.0))
                if self.total.lost:
                    return
            with self._lock:
                self.total.late_s = max(self.total.late_s, -wait)
                self._submit(work, begun + work.due_s)
        while self._active:
            time.sleep(FEED_S)

    def _follow(self) -> None:
        work = self._next(self) if self._next and not self.total.lost else None
        if work is not None:
            self._submit(work, time.perf_counter())

    def _submit(self, work: Work, begun: float) -> None:
        places = work.chunks or self.tier.shape.places
        flight = _Flight(work, places, begun)
        self._active += 1
        self.busy.add(work.session)
        if work.store:
            self.tier.prepare(work.session)
        for place in range(places):
            self._queues[place % self.ranks].put((flight, place))

    def _work(self, rank: int, out: Outcome) -> None:
        line, slots = self._queues[rank], self._slots[rank]
        with aligned(self.tier.shape.chunk_bytes) as buffer:
            buffer[:] = bytes(len(buffer))  # its pages are there before anything is timed
            self._there.wait()
            while (task := line.get()) is not None:
                flight, place = task
                try:
                    if not (self.total.lost or flight.full):
                        self._chunk(buffer, flight, place, out, slots)
                except LostError as err:
                    self.total.lost = self.total.lost or str(err)
                except OSError:  # no room: the only one that a tier lets through
                    flight.full = True
                except Exception as err:  # noqa: BLE001  whoever waits must not wait for ever
                    self.total.lost = f"replay broke: {type(err).__name__}: {err}"
                self._landed(flight)

    def _chunk(
        self,
        buffer: memoryview,
        flight: _Flight,
        place: int,
        out: Outcome,
        slots: threading.Semaphore,
    ) -> None:
        session, tier = flight.work.session, self.tier
        if flight.work.store:
            self._make(buffer, flight, place, out)
            with slots:
                begun = time.perf_counter_ns()
                tier.write(buffer, session, place)
                out.writes.add(time.perf_counter_ns() - begun)
            out.bytes_written += len(buffer)
            return
        with slots:
            begun = time.perf_counter_ns()
            came = tier.read(buffer, session, place)
            out.reads.add(time.perf_counter_ns() - begun)
        out.bytes_read += came
        if not tier.shape.checked:
            return
        before = time.thread_time()
        damage = tier.damage(buffer, came, session, place)
        out.check_cpu_s += time.thread_time() - before
        out.checked += 1
        if damage is not None:
            out.damaged += 1
            out.damages = [*out.damages, damage][:MOST_TOLD]

    def _make(self, buffer: memoryview, flight: _Flight, place: int, out: Outcome) -> None:
        session, version = flight.work.session, flight.work.version
        before = time.thread_time()
        self.tier.make(buffer, session, place, version)
        made = time.thread_time()
        out.make_cpu_s += made - before
        if self.tier.shape.checked:
            self.tier.remember(buffer, session, place, version)
            out.check_cpu_s += time.thread_time() - made

    def _landed(self, flight: _Flight) -> None:
        with self._lock:
            flight.left -= 1
            if flight.left:
                return
            took = time.perf_counter() - flight.begun
            self._ended(flight, took)
            self._active -= 1
            self._follow()
            if not self._active:
                self._done.set()

    def _ended(self, flight: _Flight, took: float) -> None:
        work, tier = flight.work, self.tier
        self.busy.discard(work.session)
        if self.total.lost:
            return
        if not work.store:
            self.total.restored.append((work.session, took))
        elif flight.full:
            self.total.full += 1
            for path in tier.files(work.session):
                path.unlink(missing_ok=True)
        else:
            tier.sessions[work.session] = work.version
            self.total.stored.append((work.session, took))
