"""fio's latency and histogram logs of one run: asked for, fetched as one piece of evidence, read.

Their size is bounded whatever the runtime: so many windows, and coarser bins in the histograms.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal

import fiopy
from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.workloads.host_runner import HostRunner

FETCH = 'for f; do printf "== %s\\n" "${f##*/}"; cat -- "$f" || exit 1; done'
"""Prints log files, each after a line with its name."""

GAP = "fio.longest_gap"
HALVES = "fio.second_half"
COARSENESS = 3
"""Of histograms: 8 bins a power of two, so that a percentile is told at most 12.5 % too high."""

_MOST_WINDOWS = 6000
_LEAST_MS = 100
_MOST_HISTOGRAMS = 100
_MOST_DRAWN = 300
_LEAST_WINDOWS = 4
_LEAST_HISTOGRAM_MS = 250
_FETCH_S = 60.0
_PERCENTS = (50, 99)


@dataclasses.dataclass(frozen=True, slots=True)
class Logs:
    """What one run's logs say: when something completed, and percentiles over time."""

    course: fiopy.Course
    spread: fiopy.Histograms
    course_ms: int  # the windows of `course`
    window_ms: int  # those of `spread`


def logged(jobs: Sequence[fiopy.Job], folder: str) -> list[fiopy.Job]:
    """Return `jobs` with a latency log and a histogram log in `folder`, all in one file each."""
    return [
        dataclasses.replace(
            job,
            latency_log=f"{folder}/log",
            log_every_ms=max(_LEAST_MS, math.ceil(_runtime_ms(job) / _MOST_WINDOWS)),
            histogram_log=f"{folder}/log",
            histogram_every_ms=_window_ms(_runtime_ms(job)),
            histogram_coarseness=COARSENESS,
            log_each_job=False,
        )
        for job in jobs
    ]


def _runtime_ms(job: fiopy.Job) -> float:
    return 1000 * (job.runtime_s or 0)


def _window_ms(length_ms: float) -> int:
    return max(_LEAST_HISTOGRAM_MS, math.ceil(length_ms / _MOST_HISTOGRAMS))


def paths(jobs: Sequence[fiopy.Job]) -> tuple[str, str]:
    """Return the paths of the latency and of the histogram log of `jobs`, made by `logged`."""
    return fiopy.log_files(jobs, "lat")[0], fiopy.log_files(jobs, "clat_hist")[0]


def fetch(runner: HostRunner, jobs: Sequence[fiopy.Job]) -> bytes | str:
    """Return what the logs of `jobs` hold, kept as evidence, or why it can't be had.

    The logs are removed. Raises TransportError where the host can't be asked.
    """
    done = runner.run(["sh", "-c", FETCH, "sh", *paths(jobs)], timeout_s=_FETCH_S)
    fiopy.remove_logs(jobs, runner)
    if done.exit_status != 0 or done.dropped_bytes:
        return "fio left no whole logs"
    return done.stdout


def told(text: bytes) -> Logs:
    """Read what `FETCH` printed, percentiles in at most some 100 windows; raises ParseError."""
    parts = {
        name: body for name, _, body in (part.partition(b"\n") for part in text.split(b"== ")[1:])
    }
    if set(parts) != {b"log_lat.log", b"log_clat_hist.log"}:
        raise ParseError("fio's logs: not one of latencies and one of histograms")
    try:
        end_ms = _end_ms(parts[b"log_lat.log"])
        course_ms, window_ms = max(_LEAST_MS, end_ms // _MOST_DRAWN), _window_ms(end_ms)
        course = fiopy.course([[parts[b"log_lat.log"]]], window_s=course_ms / 1000)
        spread = fiopy.histograms(
            [[parts[b"log_clat_hist.log"]]], window_s=window_ms / 1000, percents=_PERCENTS
        )
    except fiopy.FioOutputError as err:
        raise ParseError(f"fio's logs: {err.message}", hint=err.hint) from err
    return Logs(course, spread, course_ms, window_ms)


def _end_ms(log: bytes) -> int:
    """Return about when a log ends: the time in its last line; 0 where that is none."""
    first = log.rstrip(b"\n").rpartition(b"\n")[2].partition(b",")[0]
    return int(first) if first.isdigit() and len(first) < 12 else 0


def readings(directions: Sequence[str], text: bytes | str) -> Iterator[Reading]:
    """Yield the longest time without a completion, and the highest p99 of any window.

    Beside them, how many times the I/Os of the measured time's first half its second half has:
    what was measured while it rose or fell was no steady state.

    `text` is what `fetch` gave: where it is no logs, readings say why.
    """
    names = [GAP, HALVES, *(f"fio.{each}_clat_p99_peak" for each in directions)]
    try:
        logs = told(text) if isinstance(text, bytes) else None
    except ParseError as err:
        logs, text = None, err.message
    if logs is None:
        yield from (Reading(name=name, value=None, problem=str(text)) for name in names)
        return
    yield Reading(name=GAP, value=Quantity.of(longest_ms(logs.course), "ms"))
    halves = second_half(logs)
    few = f"fewer than {_LEAST_WINDOWS} windows of {logs.window_ms} ms, or none done in the first"
    ratio = None if halves is None else Quantity.of(f"{halves:.6f}", "x")
    yield Reading(name=HALVES, value=ratio, problem="" if ratio else few)
    for name, direction in zip(names[2:], directions, strict=True):
        peak = max(((ns, at) for at, ns in over_time(logs, direction, 99)), default=None)
        few = f"no window of {logs.window_ms} ms has the I/Os that a p99 takes"
        value = None if peak is None else Quantity.of(Decimal(repr(peak[0])) / 10**6, "ms")
        yield Reading(name=name, value=value, problem="" if peak else few)


def longest_ms(course: fiopy.Course) -> int:
    """Return the longest time in which nothing completed, at least what the log can tell."""
    found = course.gaps["all"]
    return max(found[0].length_ms if found else 0, course.resolution_ms)


def second_half(logs: Logs) -> float | None:
    """Return the I/Os of the second half over those of the first; None where that tells nothing.

    A window's counts are written when it is over; the last, unfinished one is left out.
    """
    counts: dict[int, int] = {}
    for begin_ms, spreads in logs.spread.windows:
        counts[begin_ms // logs.window_ms] = sum(each.samples for each in spreads.values())
    half = max(counts) // 2
    first = sum(count for at, count in counts.items() if 1 <= at <= half)
    second = sum(count for at, count in counts.items() if half < at <= 2 * half)
    return second / first if first and 2 * half >= _LEAST_WINDOWS else None


def over_time(logs: Logs, direction: str, percent: float) -> list[tuple[int, float]]:
    """Return (begin of the window in ms, percentile in ns), of windows whose sample carries it."""
    return [
        (begin_ms, each.ns)
        for begin_ms, spreads in logs.spread.windows
        if direction in spreads
        for each in spreads[direction].percentiles
        if each.percent == percent and each.ns is not None
    ]
