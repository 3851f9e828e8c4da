"""Runs fio: job file, process, progress, deadline, result."""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Callable, Sequence

from fiopy import jobfile, output
from fiopy.errors import (
    FioCancelled,
    FioError,
    FioFailed,
    FioJobError,
    FioMissing,
    FioOutputError,
    FioTimeout,
)
from fiopy.job import Job
from fiopy.progress import Progress, Watch
from fiopy.result import Output
from fiopy.runner import Finished, Runner, Running
from fiopy.version import Version

_GRACE_S = 15.0  # what the runner gets to report an end beyond the deadline
_LOOK_EVERY_S = 0.1  # how soon a cancel is seen


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of fio: the job file it was given, how it ended, and what it said.

    ``output`` is None where what it printed could not be read.
    """

    job_text: str
    finished: Finished
    output: Output | None = None


def run(
    jobs: Sequence[Job],
    runner: Runner,
    *,
    folder: str,
    deadline_s: float,
    fio: str = "fio",
    on_progress: Callable[[Progress], None] | None = None,
    progress_every_s: int = 1,
    cancel: threading.Event | None = None,
) -> Run:
    """Run `jobs` with fio and return what it measured.

    1. write the job file into `folder` (on the runner's machine); 2. start fio; 3. wait, calling
    `on_progress` about every `progress_every_s` from the thread that reads; 4. remove the job
    file; 5. read the result. ``output.jobs`` of the returned Run is never empty.

    Raises FioJobError (nothing was started), FioMissing, FioCancelled, FioTimeout, FioFailed,
    FioOutputError; all but the first two carry ``run``. What the runner raises passes through.
    """
    text = jobfile.to_text(jobs)
    if progress_every_s < 1:
        raise FioJobError(f"progress_every_s is {progress_every_s}; fio takes whole seconds from 1")
    path = f"{folder.rstrip('/')}/{re.sub(r'[^A-Za-z0-9._-]', '_', jobs[0].name)[:60]}.fio"
    argv = [fio, "--output-format=json"]
    watch = None
    if on_progress is not None:
        argv.append(f"--status-interval={progress_every_s}")
        watch = Watch(on_progress).feed
    runner.write_file(path, text.encode())  # 1.
    try:
        running = runner.start([*argv, path], deadline_s=deadline_s, on_stdout=watch)  # 2.
        finished, cancelled = _wait(running, deadline_s, cancel)  # 3.
    finally:
        runner.remove_file(path)  # 4.
    return _judge(text, finished, cancelled)  # 5.


def _wait(
    running: Running, deadline_s: float, cancel: threading.Event | None
) -> tuple[Finished, bool]:
    """Return how fio ended and whether it was cancelled; it has ended on every way out."""
    give_up = time.monotonic() + deadline_s + _GRACE_S
    try:
        while time.monotonic() < give_up:
            finished = running.wait(_LOOK_EVERY_S if cancel else give_up - time.monotonic())
            if finished is not None:
                return finished, False
            if cancel is not None and cancel.is_set():
                return running.stop(), True
        return dataclasses.replace(running.stop(), timed_out=True), False
    except BaseException as err:  # noqa: BLE001  raised again below; fio must not go on writing
        try:
            running.stop()
        finally:
            raise err  # the first error, also where stopping raises another


def _judge(text: str, finished: Finished, cancelled: bool) -> Run:
    """Return the Run if it is a measurement; raises the error that fits otherwise."""
    run = Run(job_text=text, finished=finished)
    after = f"after {finished.elapsed_s:.1f} s"
    if cancelled:
        raise FioCancelled(f"fio was cancelled {after}", run=run)
    if finished.timed_out:
        raise FioTimeout(
            f"fio was ended {after} by its deadline",
            run=run,
            hint="the storage is slower than planned for, or hangs; see its log",
        )
    missing(finished)
    if finished.dropped_bytes:
        raise FioOutputError(
            f"{finished.dropped_bytes} bytes of fio's output were over the cap",
            run=run,
            hint="report less often, or group the jobs",
        )
    try:
        said = output.parse(finished.stdout, finished.stderr, finished.exit_status)
    except FioOutputError as err:
        err.run = run
        if finished.exit_status == 0:
            raise
        raise FioFailed(
            f"fio exited {finished.exit_status} {after}: {err.message}", hint=err.hint, run=run
        ) from err
    run = dataclasses.replace(run, output=said)
    if finished.exit_status is None:
        raise FioFailed(f"fio ended {after} without an exit status", run=run)
    if said.failed:
        raise FioFailed(f"fio exited {finished.exit_status} {after}: {said.why()}", run=run)
    if not said.jobs:
        raise FioOutputError("fio exited 0 and printed no result", run=run)
    return run


def missing(finished: Finished) -> None:
    """Raise FioMissing if `finished` says that there is no such command."""
    if finished.exit_status in (126, 127):
        raise FioMissing(
            f"there is no fio at '{finished.argv[0]}'",
            hint="install the package 'fio', or say where it is",
        )


def version(runner: Runner, *, fio: str = "fio", timeout_s: float = 20) -> Version:
    """Return fio's version; raises FioMissing, FioOutputError."""
    return Version.parse(_ask(runner, [fio, "--version"], timeout_s))


def engines(runner: Runner, *, fio: str = "fio", timeout_s: float = 20) -> tuple[str, ...]:
    """Return the I/O engines that fio was built with, as `fio --enghelp` lists them."""
    return parse_engines(_ask(runner, [fio, "--enghelp"], timeout_s))


def parse_engines(text: str) -> tuple[str, ...]:
    """Return the names below ``Available IO engines:``; raises FioOutputError if there are none."""
    _, heading, listed = text.partition("Available IO engines:")
    names = tuple(re.findall(r"^\s+([a-z0-9_-]+)$", listed, re.MULTILINE)) if heading else ()
    if not names:
        raise FioOutputError("`fio --enghelp` lists no engines")
    return names


def _ask(runner: Runner, argv: list[str], timeout_s: float) -> str:
    finished = runner.run(argv, timeout_s=timeout_s)
    missing(finished)
    if finished.exit_status != 0:
        complaint = finished.stderr.decode("utf-8", "replace").strip()[:300]
        raise FioError(f"`{' '.join(argv)}` exited {finished.exit_status}: {complaint}")
    return finished.stdout.decode("utf-8", "replace")
