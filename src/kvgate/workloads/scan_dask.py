"""Scans on Dask distributed: the pieces of a tree on workers that see the same file system.

One merged result, the same as that of one machine: what a worker gives is what a process here
gives. Dask runs a lost worker's pieces on another; pieces that no worker brings back are named.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator
from typing import Any

from kvgate.errors import UsageError
from kvgate.workloads.dask_cluster import LOOK_S, Watch, connected
from kvgate.workloads.scan import Told
from kvgate.workloads.scanner.course import Settings
from kvgate.workloads.scanner.engine import Asked
from kvgate.workloads.scanner.engine import scan as run_scan
from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.frames import scan_pieces
from kvgate.workloads.scanner.pool import Done
from kvgate.workloads.scanner.reading import Piece

_LEAST_AHEAD = 4


def scan(asked: Asked, where: str, told: Told) -> dict[str, Any]:
    """Scan on the cluster that `where` names (see `dask_cluster.connected`).

    Raises UsageError for paths that can't be, a cluster that can't be had, or workers that lack
    what this machine hashes with.
    """
    with connected(where) as client:

        @contextlib.contextmanager
        def pool(settings: Settings) -> Iterator[DaskPool]:
            yield DaskPool(client, settings)

        try:
            return run_scan(asked, pool, told)
        except ScanError as err:
            raise UsageError(err.message, hint=err.hint) from err


def _work(
    pieces: list[tuple[Any, ...]], settings: tuple[Any, ...], below: dict[int, int]
) -> dict[str, Any]:
    """Scan pieces on a worker."""
    return scan_pieces([Piece(*each) for each in pieces], Settings(*settings), below)


class DaskPool:
    """Workers of a Dask cluster, used as `scanner.pool.Processes` are."""

    def __init__(self, client: Any, settings: Settings) -> None:
        self._client, self._settings = client, settings
        self._watch = Watch(client)
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asked: dict[str, tuple[Any, list[Piece]]] = {}

    @property
    def jobs(self) -> int:
        """Return how many pieces are scanned at once: workers may come and go."""
        threads: dict[str, int] = self._client.nthreads()
        return max(_LEAST_AHEAD, sum(threads.values()))

    def submit(self, pieces: list[Piece], below: dict[int, int]) -> None:
        """Have `pieces` scanned by any worker."""
        plain = [tuple(each) for each in pieces]
        future = self._client.submit(
            _work, plain, tuple(self._settings), below, pure=False, retries=1
        )
        self._asked[future.key] = (future, pieces)
        future.add_done_callback(self._done.put)

    def next(self) -> Done:
        """Wait for pieces that are done; raises UsageError where no worker is left."""
        done: Any = None
        while done is None:
            try:
                done = self._done.get(timeout=LOOK_S)
            except queue.Empty:
                self._watch.look()
        future, pieces = self._asked.pop(done.key)
        try:
            packed: dict[str, Any] = future.result()
        except Exception as err:  # noqa: BLE001  whatever a worker raises names its pieces
            return Done(pieces, None, f"no worker brought it back: {_why(err)}")
        finally:
            future.release()
        return Done(pieces, packed, "")


def _why(err: BaseException) -> str:
    last: Callable[[], Any] | Any = getattr(err, "last_worker", None)
    lost = f" (the last was {getattr(last, 'address', last)})" if last is not None else ""
    return f"{type(err).__name__}: {str(err)[:200]}{lost}"
