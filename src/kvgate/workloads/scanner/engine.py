"""Runs a scan: list, hand out, merge, keep what was found, tell how far it is."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from kvgate.workloads.scanner import hashing
from kvgate.workloads.scanner.chunks import chunker
from kvgate.workloads.scanner.course import Settings
from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.index import ENTRY_BYTES
from kvgate.workloads.scanner.listing import Listing, pieces, roots_of
from kvgate.workloads.scanner.result import document
from kvgate.workloads.scanner.sample import ALWAYS, BLOCK, codecs
from kvgate.workloads.scanner.state import State
from kvgate.workloads.scanner.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MB = 1_000_000
SIZES = (4096, 8192, 32768, 131072)
"""Block sizes that are looked at unless others are asked for; with content-defined chunks."""

SAMPLES = 1024
"""How many blocks are compressed, about."""

_OURS_BYTES = 120 * MB
_WORKER_BYTES = 30 * MB
_FEWEST_KEYS = 4096
_SAVE_S = 5.0
_SAVE_SHARE = 20
_TELL_S = 1.0


class Asked(NamedTuple):
    """What is asked: `paths`, block `sizes`, whether `chunked`, bytes of `memory` for all of it."""

    paths: Sequence[str]
    sizes: Sequence[int] = SIZES
    chunked: bool = True
    memory: int = 1000 * MB
    jobs: int = 0  # 0: as many as suit this machine
    state: str = ""
    samples: int = SAMPLES


class Progress(NamedTuple):
    """How far a scan is: files listed so far, or bytes scanned of all, in how many seconds."""

    files: int
    bytes: int
    total: int
    elapsed_s: float

    def left_s(self) -> float | None:
        """Return the seconds left at the rate so far, None where that can't be said yet."""
        if not self.bytes:
            return None
        return self.elapsed_s * (self.total - self.bytes) / self.bytes


def jobs_of(asked: Asked) -> int:
    """Return how many workers: more than cores on a small machine, as they also wait for disks."""
    return asked.jobs or max(6, min(16, len(os.sched_getaffinity(0))))


def settings_of(asked: Asked, total: int) -> Settings:
    """Return the settings for a tree of `total` bytes; raises ScanError where memory is too small.

    Content-defined chunks are left out where nothing can cut them; the result tells. Half of what
    the processes themselves leave is for the merged keys, half for the workers' own.
    """
    sizes = tuple(sorted(set(asked.sizes)))
    if any(size % 4096 or size > 128 * 1024 or size % sizes[0] for size in sizes):
        raise ScanError("block sizes are multiples of 4 KiB and of the smallest, up to 128 KiB")
    chunked = asked.chunked and chunker() is not None
    levels = len(sizes) + chunked
    if not levels:
        raise ScanError(
            "no block size is asked for that can be had",
            "content-defined chunks need pyfastcdc or NumPy: install kvgate[scan]",
        )
    room = asked.memory - _OURS_BYTES - jobs_of(asked) * _WORKER_BYTES
    limit = room // 2 // levels // ENTRY_BYTES
    if limit < _FEWEST_KEYS:
        least = asked.memory - room + _FEWEST_KEYS * 2 * levels * ENTRY_BYTES
        raise ScanError(f"memory: {asked.memory} bytes are too few: {least} is the least")
    blocks = max(1, total // BLOCK)
    rate = min(ALWAYS, asked.samples * ALWAYS // blocks)
    return Settings(sizes, chunked, limit, rate)


def scan(
    asked: Asked,
    pool_of: Callable[[Settings], Any],
    told: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Any]:
    """Scan, and return the result document; `pool_of` makes the workers (`Processes`, or others).

    Raises ScanError for paths, settings or a state that can't be.
    """
    began = time.monotonic()
    roots = roots_of(asked.paths)
    state = State(asked.state)
    try:
        plain = {name: value for name, value in asked._asdict().items() if name not in _FREE}
        state.same({**plain, "paths": [each.decode("latin-1") for each in roots], **_tools()})
        listed = Listing(state, roots, lambda n: told(Progress(n, 0, 0, _since(began))))
        listed.run()
        counts = state.meta("counts")
        totals = Totals(_settings(state, asked, min(counts["bytes"], counts["used"])))
        totals.load(state)
        with pool_of(totals.settings) as pool:
            _Run(state, totals, pool, told, counts).run(roots)
        return document(state, roots, totals, elapsed_s=_since(began))
    finally:
        state.close()


_FREE = ("jobs", "state", "paths")


def _settings(state: State, asked: Asked, total: int) -> Settings:
    """Return the settings that the scan began with, also when it goes on with other workers."""
    before = state.meta("settings")
    if before is not None:
        return Settings.from_json(before)
    settings = settings_of(asked, total)
    state.set("settings", settings)
    return settings


def _tools() -> dict[str, Any]:
    cutter = chunker()
    tools = {"hash": hashing.ALGORITHM, "chunker": cutter.name if cutter else None}
    return {**tools, "codecs": sorted(codecs())}


def _since(began: float) -> float:
    return time.monotonic() - began


class _Run:
    """The middle of a scan: hand out, merge, save."""

    def __init__(
        self, state: State, totals: Totals, pool: Any, told: Callable[[Progress], None], counts: Any
    ) -> None:
        self._state, self._totals, self._pool, self._told = state, totals, pool, told
        self._files, self._bytes = counts["files"], counts["bytes"]
        self._under_way = 0
        self._began = self._saved = self._said = time.monotonic()
        self._before = self._scanned()
        self._save_s = 0.0

    def run(self, roots: Sequence[bytes]) -> None:
        """Scan all that is left."""
        for batch in pieces(self._state, roots):
            self._pool.submit(batch, self._totals.below())
            self._under_way += 1
            while self._under_way >= 2 * self._pool.jobs:
                self._take()
        while self._under_way:
            self._take()
        self._totals.save(self._state)
        self._tell()

    def _take(self) -> None:
        done = self._pool.next()
        self._under_way -= 1
        if done.packed is None:
            self._totals.leave_out(done.pieces, done.why)
        else:
            self._totals.merge(done.pieces, done.packed)
        now = time.monotonic()
        if now - self._saved > max(_SAVE_S, _SAVE_SHARE * self._save_s):
            self._totals.save(self._state)
            self._saved = time.monotonic()
            self._save_s = self._saved - now
        if now - self._said > _TELL_S:
            self._tell()

    def _tell(self) -> None:
        self._said = time.monotonic()
        fresh = self._scanned() - self._before
        left = self._bytes - self._before
        self._told(Progress(self._files, fresh, left, self._said - self._began))

    def _scanned(self) -> int:
        counts = self._totals.counts
        return int(counts["bytes"] + counts["left_out"])
