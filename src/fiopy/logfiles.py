"""Which log files fio writes for some jobs, by kind, and their removal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fiopy.job import Job
from fiopy.runner import Runner

_KINDS = {
    "latency_log": ("lat", "clat", "slat"),
    "bandwidth_log": ("bw",),
    "iops_log": ("iops",),
    "histogram_log": ("clat_hist",),
}


def log_files(jobs: Sequence[Job], kind: str) -> tuple[str, ...]:
    """Return the paths of the logs of `kind` (lat, clat, slat, bw, iops, clat_hist) of `jobs`.

    fio numbers the jobs of a job file, clones included, from 1; with ``log_each_job=False`` all
    of one prefix share a file. A sync engine writes no slat log.
    """
    field = next((each for each, kinds in _KINDS.items() if kind in kinds), None)
    if field is None:
        known = sorted(name for kinds in _KINDS.values() for name in kinds)
        raise ValueError(f"{kind!r} is no kind of log; one of: {', '.join(known)}")
    found: list[str] = []
    number = 0
    for job in jobs:
        prefix = getattr(job, field)
        for _ in range(job.jobs or 1):
            number += 1
            if prefix is not None:
                each = "" if job.log_each_job is False else f".{number}"
                found.append(f"{prefix}_{kind}{each}.log")
    return tuple(dict.fromkeys(found))


def remove_logs(jobs: Sequence[Job], runner: Runner) -> tuple[str, ...]:
    """Remove every log that fio may have written for `jobs`; return those that are still there."""
    return tuple(path for path in _all(jobs) if not runner.remove_file(path))


def _all(jobs: Sequence[Job]) -> Iterable[str]:
    for kinds in _KINDS.values():
        for kind in kinds:
            yield from log_files(jobs, kind)
