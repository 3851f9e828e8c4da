"""Values that contradict each other: fio takes them in silence and measures something else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fiopy.errors import FioJobError

if TYPE_CHECKING:
    from fiopy.job import Job

SYNCHRONOUS = ("psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "libhipfile", "libcufile")
"""Engines that have one I/O under way at most: fio caps ``iodepth`` at 1 and only notes it."""

Problem = tuple[str, str, str]
"""Field, what is wrong with it, and what is allowed instead."""


def check(job: Job) -> None:
    """Raise FioJobError for the first contradiction."""
    for look in (_place, _size, _time, _pattern, _data, _verify, _engine, _logs):
        for field, because, allowed in look(job):
            value = getattr(job, field)
            raise FioJobError(
                f"job '{job.name}': {field}: {because}; {allowed}",
                job=job.name,
                option=field,
                value=value,
                allowed=allowed,
            )


def _place(job: Job) -> Iterator[Problem]:
    if job.filename is None and job.directory is None:
        yield (
            "filename",
            "neither filename nor directory: fio would write into its working folder",
            "name one of them",
        )
    if job.directory is not None and job.filename is not None and job.filename.startswith("/"):
        yield "directory", "filename is a full path already", "leave one of them out"


def _size(job: Job) -> Iterator[Problem]:
    size, block = job.size_bytes, job.block_bytes
    if size and block and size < block:
        yield "size_bytes", f"{size} is less than one block of {block}", f"at least {block}"
    if job.runtime_s is None and size is None:
        yield "size_bytes", "neither size_bytes nor runtime_s: the job has no end", "set one"
    for field in ("block_bytes", "offset_bytes", "offset_increment_bytes"):
        value = getattr(job, field)
        if job.direct and value and value % 512:
            yield (
                field,
                f"O_DIRECT (direct) takes no {value} bytes",
                "a multiple of 512, and of the device's block size",
            )


def _time(job: Job) -> Iterator[Problem]:
    if job.time_based and not job.runtime_s:
        yield "time_based", "time_based needs runtime_s", "set runtime_s over 0"
    if job.time_based and job.loops:
        yield "loops", "time_based goes on until its time is over", "one of the two"
    if job.rate_bytes_per_s and job.rate_iops:
        yield "rate_iops", "rate_bytes_per_s limits the job too", "one of the two"


def _pattern(job: Job) -> Iterator[Problem]:
    mixed = job.pattern.reads and job.pattern.writes
    if job.read_pct is not None and not mixed:
        yield (
            "read_pct",
            f"it means nothing for rw={job.pattern}",
            "only with readwrite and randrw",
        )
    if job.random_pct is not None and not job.pattern.random:
        yield (
            "random_pct",
            f"it means nothing for rw={job.pattern}",
            "only with randread, randwrite and randrw",
        )
    if job.no_random_map and not job.pattern.random:
        yield "no_random_map", f"rw={job.pattern} has no map", "only with random patterns"
    for field in ("end_fsync", "fsync_every", "verify_backlog"):
        if getattr(job, field) and not job.pattern.writes:
            yield field, f"rw={job.pattern} writes nothing", "only with patterns that write"


def _data(job: Job) -> Iterator[Problem]:
    for field in ("dedupe_pct", "compress_pct", "refill_buffers"):
        if job.zero_buffers and getattr(job, field):
            yield field, "zero_buffers makes all data zeros", "one of the two"
    if job.compress_chunk_bytes and job.compress_pct is None:
        yield "compress_chunk_bytes", "there is no compress_pct", "set both"


def _verify(job: Job) -> Iterator[Problem]:
    if job.verify is None:
        for field in ("do_verify", "verify_fatal", "save_verify_state", "verify_backlog"):
            if getattr(job, field):
                yield field, "there is no verify", "set verify too"
        return
    if job.pattern.reads and job.pattern.writes and job.do_verify is not False:
        yield (
            "verify",
            f"rw={job.pattern} reads blocks that hold no checksum yet",
            "write first, then read back with rw=read or randread; or do_verify=False",
        )
    reads_back = job.verify_backlog or job.do_verify is False
    if job.time_based and job.pattern.writes and not reads_back:
        yield (
            "time_based",
            "a job that writes until its time is over never reads back what it wrote",
            "end it by size_bytes, or do_verify=False, or set verify_backlog",
        )
    if job.zero_buffers:
        yield "zero_buffers", "blocks of zeros can't hold a checksum", "not with verify"
    if job.pattern.random and job.no_random_map and job.pattern.writes:
        yield (
            "no_random_map",
            "blocks written twice fail their verification (fio's HOWTO, norandommap)",
            "not with verify",
        )


def _engine(job: Job) -> Iterator[Problem]:
    depth = job.queue_depth or 1
    if job.engine in SYNCHRONOUS and depth > 1:
        yield (
            "queue_depth",
            f"ioengine={job.engine} has one I/O under way at most, fio would cap {depth} at 1",
            "1, or libaio or io_uring, or more jobs",
        )
    for each in dataclasses.fields(job):
        option = each.metadata.get("option")
        if option and option.engine and getattr(job, each.name) is not None:
            engines = option.engine.split()
            if job.engine not in engines:
                has = f"ioengine={job.engine} has no such option"
                yield each.name, has, "only with " + " or ".join(engines)
    if job.engine in ("libhipfile", "libcufile") and not job.direct:
        yield "direct", f"ioengine={job.engine} refuses buffered I/O", "True"


def _logs(job: Job) -> Iterator[Problem]:
    logged = any((job.latency_log, job.bandwidth_log, job.iops_log))
    for field in ("log_every_ms", "log_maximum", "log_offset"):
        if getattr(job, field) and not logged:
            yield field, "there is no log", "set latency_log, bandwidth_log or iops_log"
    if job.log_offset and job.log_every_ms:
        yield "log_offset", "averages (log_every_ms) are of no one offset", "one of the two"
    if job.log_maximum and not job.log_every_ms:
        yield "log_maximum", "single I/Os have no maximum", "with log_every_ms"
    for field in ("histogram_every_ms", "histogram_coarseness"):
        if getattr(job, field) is not None and not job.histogram_log:
            yield field, "there is no histogram log", "set histogram_log"
    if job.histogram_log and not job.histogram_every_ms:
        yield "histogram_log", "fio writes none without log_hist_msec", "set histogram_every_ms"
