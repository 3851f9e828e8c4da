"""Worker processes on this machine: each scans what it is asked for, and ends when we do."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from kvgate.workloads.scanner.frames import read_result, request

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


class Processes:
    """`jobs` workers, started as ``[*entry, "--worker", settings]``; a context manager."""

    def __init__(self, entry: Sequence[str], jobs: int, settings: Settings) -> None:
        self.jobs = jobs
        self._command = [*entry, "--worker", json.dumps(settings)]
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._tend, daemon=True) for _ in range(jobs)]
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._ending = False

    def __enter__(self) -> Processes:
        for each in self._threads:
            each.start()
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

    def _tend(self) -> None:
        """Pass requests on to one worker; one that ends early is replaced, twice at most."""
        worker = None
        try:
            while True:
                asked = self._asked.get()
                if asked is None:
                    return
                why = ""
                for _ in range(_TRIES):
                    if worker is None:
                        worker = self._start()
                    packed = _ask(worker, request(*asked))
                    if packed is not None or self._ending:
                        break
                    why, worker = self._lost(worker), None
                self._done.put(Done(asked[0], packed, why))
        finally:
            if worker is not None:
                self._lost(worker)

    def _start(self) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1 << 16
        )
        self._workers.add(worker)
        return worker

    def _lost(self, worker: subprocess.Popen[bytes]) -> str:
        with contextlib.suppress(OSError):
            if worker.stdin is not None:
                worker.stdin.close()
        try:
            status = worker.wait(5)
        except subprocess.TimeoutExpired:
            worker.kill()
            status = worker.wait()
        if worker.stdout is not None:
            worker.stdout.close()
        self._workers.discard(worker)
        return f"its worker ended {_TRIES} times ({_told(status)})"


def _told(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _ask(worker: subprocess.Popen[bytes], line: bytes) -> dict[str, Any] | None:
    if worker.stdin is None or worker.stdout is None:
        return None
    try:
        worker.stdin.write(line)
        worker.stdin.flush()
        return read_result(worker.stdout)
    except (OSError, ValueError):
        return None
