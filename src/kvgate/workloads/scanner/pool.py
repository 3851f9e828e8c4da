"""Worker processes on this machine: each scans what it is asked for, and ends when we do."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from kvgate.workloads.scanner.frames import read_result, request, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvgate.workloads.scanner.course import Settings
    from kvgate.workloads.scanner.reading import Piece

_TRIES = 2


class Done(NamedTuple):
    """What became of some pieces: a result, or why there is none."""

    pieces: list[Piece]
    packed: dict[str, Any] | None
    why: str


class _Worker:
    """A worker process and the pipes to and from it."""

    def __init__(self, pid: int, requests: int, results: int) -> None:
        self.pid = pid
        self._requests = os.fdopen(requests, "wb")
        self._results = os.fdopen(results, "rb", buffering=1 << 16)

    def ask(self, line: bytes) -> dict[str, Any] | None:
        """Return what it answers to a request; None where it ended instead."""
        try:
            self._requests.write(line)
            self._requests.flush()
            return read_result(self._results)
        except (OSError, ValueError):
            return None

    def end(self) -> str:
        """Have it end, by closing its pipe; return how it ended."""
        with contextlib.suppress(OSError):
            self._requests.close()
        self._results.close()
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSIGNALED(status):
            return f"signal {os.WTERMSIG(status)}"
        return f"exit status {os.WEXITSTATUS(status)}"

    def forget(self) -> None:
        """Close our ends of its pipes: this is another worker, which has them by its birth."""
        os.close(self._requests.fileno())
        os.close(self._results.fileno())

    def kill(self) -> None:
        """End it now."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class Processes:
    """`jobs` workers; a context manager.

    Workers are forked where this process has no other thread: they start at once and share its
    memory. Otherwise, and to replace one, they are started as ``[*entry, "--worker", settings]``.
    """

    def __init__(self, entry: Sequence[str], jobs: int, settings: Settings) -> None:
        self.jobs = jobs
        self._settings = settings
        self._command = [*entry, "--worker", json.dumps(settings)]
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._workers: set[_Worker] = set()
        self._ending = False

    def __enter__(self) -> Processes:
        alone = threading.active_count() == 1
        first = [self._forked() if alone else None for _ in range(self.jobs)]
        for worker in first:
            thread = threading.Thread(target=self._tend, args=(worker,), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        for _each in self._threads:
            self._asked.put(None)
        for worker in list(self._workers):
            worker.kill()
        for each in self._threads:
            each.join(10)

    def submit(self, pieces: list[Piece], below: dict[int, int]) -> None:
        """Have `pieces` scanned."""
        self._asked.put((pieces, below))

    def next(self) -> Done:
        """Wait for pieces that are done, in any order."""
        return self._done.get()

    def _tend(self, worker: _Worker | None) -> None:
        """Pass requests on to one worker; one that ends early is replaced, twice at most."""
        try:
            while True:
                asked = self._asked.get()
                if asked is None:
                    return
                packed, why = None, ""
                for _ in range(_TRIES):
                    worker = worker or self._spawned()
                    packed = worker.ask(request(*asked))
                    if packed is not None or self._ending:
                        break
                    why, worker = self._ended(worker), None
                self._done.put(Done(asked[0], packed, why))
        finally:
            if worker is not None:
                self._ended(worker)

    def _spawned(self) -> _Worker:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        started = subprocess.Popen(self._command, stdin=theirs_in, stdout=theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        started.returncode = 0  # we wait for it ourselves
        return self._added(_Worker(started.pid, ours_out, ours_in))

    def _forked(self) -> _Worker:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            self._be_worker((ours_out, ours_in), theirs_in, theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        return self._added(_Worker(pid, ours_out, ours_in))

    def _be_worker(self, ours: tuple[int, int], requests: int, results: int) -> None:
        """Serve until the requests end, then end; never return."""
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the scan ends us
            for fd in ours:
                os.close(fd)
            for other in self._workers:  # or they would not end with the scan
                other.forget()
            with os.fdopen(requests, "rb") as asked, os.fdopen(results, "wb") as told:
                serve(asked, told, self._settings)
            status = 0
        finally:
            os._exit(status)

    def _added(self, worker: _Worker) -> _Worker:
        self._workers.add(worker)
        return worker

    def _ended(self, worker: _Worker) -> str:
        self._workers.discard(worker)
        return f"its worker ended {_TRIES} times ({worker.end()})"
