"""fio's course while it runs: the JSON documents of ``--status-interval`` as they come, as rates.

Why JSON documents and not fio's "eta" line: with ``--output-format=json`` fio prints that line
only if the result goes to a file (another file on the host), rounds it to three digits, and
changed its form between 2.x and 3.x. A document is exact, is read by the parser that reads the
result, and what came before a lost link remains readable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fiopy import jsonform
from fiopy.errors import FioOutputError
from fiopy.result import JobResult

_CAP = 16 * 2**20  # an unfinished document of more than this is not fio's


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What fio did since its last word; rates over that time, or 0 where nothing moved."""

    job: str  # names of the jobs that move, or of all
    elapsed_s: int | None
    read_bytes_per_s: float
    write_bytes_per_s: float
    read_iops: float
    write_iops: float

    @property
    def bytes_per_s(self) -> float:
        """Return both directions together."""
        return self.read_bytes_per_s + self.write_bytes_per_s

    @property
    def iops(self) -> float:
        """Return both directions together."""
        return self.read_iops + self.write_iops

    def __str__(self) -> str:
        return f"{self.job}: {self.bytes_per_s / 1e6:,.0f} MB/s, {self.iops:,.0f} IOPS"


class Watch:
    """Takes fio's stdout in pieces and calls back with a Progress a document.

    A document that can't be read is passed over: the run's result is judged when it is whole.
    """

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self._on_progress = on_progress
        self._pending = b""
        self._last: tuple[JobResult, ...] = ()

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of stdout."""
        self._pending += piece
        while (end := self._pending.find(b"\n}\n")) >= 0:
            document, self._pending = self._pending[: end + 3], self._pending[end + 3 :]
            self._say(document)
        if len(self._pending) > _CAP:
            self._pending = b""

    def _say(self, document: bytes) -> None:
        try:
            found, _ = jsonform.documents(document.decode("utf-8", "replace"))
            jobs = jsonform.jobs_of(found[-1]) if found else ()
        except FioOutputError:
            return
        if jobs:
            self._on_progress(between(self._last, jobs))
            self._last = jobs


def between(before: tuple[JobResult, ...], now: tuple[JobResult, ...]) -> Progress:
    """Return the rates between two documents; fio's own averages where they can't be compared."""
    rates = {"read": (0.0, 0.0), "write": (0.0, 0.0)}
    moving: list[str] = []
    for index, job in enumerate(now):
        earlier = before[index] if index < len(before) and len(before) == len(now) else None
        for direction, (bandwidth, iops) in rates.items():
            rate = _rate(earlier, job, direction)
            rates[direction] = bandwidth + rate[0], iops + rate[1]
            if rate[0] and job.name not in moving:
                moving.append(job.name)
    names = moving or list(dict.fromkeys(job.name for job in now))
    return Progress(
        job=", ".join(names[:3]) + (" …" if len(names) > 3 else ""),
        elapsed_s=max((job.elapsed_s for job in now if job.elapsed_s is not None), default=None),
        read_bytes_per_s=rates["read"][0],
        write_bytes_per_s=rates["write"][0],
        read_iops=rates["read"][1],
        write_iops=rates["write"][1],
    )


def _rate(before: JobResult | None, now: JobResult, direction: str) -> tuple[float, float]:
    moved = now.moved(direction)
    if moved is None:
        return 0.0, 0.0
    old = before.moved(direction) if before else None
    if old is None or moved.runtime_ms < old.runtime_ms:  # the first word, or reset after the ramp
        return moved.bytes_per_s, moved.iops
    seconds = (moved.runtime_ms - old.runtime_ms) / 1000
    if not seconds:
        return 0.0, 0.0
    return (
        max(0, (moved.total_bytes or 0) - (old.total_bytes or 0)) / seconds,
        max(0, (moved.total_ios or 0) - (old.total_ios or 0)) / seconds,
    )
