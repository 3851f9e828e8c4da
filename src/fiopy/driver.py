"""Runs fio: job file, process, progress, deadline, result."""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from fiopy import jobfile
from fiopy.errors import FioJobError
from fiopy.found import Found
from fiopy.job import Job
from fiopy.progress import Progress, Watch
from fiopy.runner import Finished, Runner, Running
from fiopy.verdict import Run, judge

_GRACE_S = 15.0  # what the runner gets to report an end beyond the deadline
_LOOK_EVERY_S = 0.1  # how soon a cancel is seen


def run(
    jobs: Sequence[Job],
    runner: Runner,
    *,
    folder: str,
    deadline_s: float,
    fio: str = "fio",
    found: Found | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    progress_every_s: int = 1,
    cancel: threading.Event | None = None,
    stop_file: str | None = None,
) -> Run:
    """Run `jobs` with fio and return what it measured.

    1. check the jobs against the fio that was `found` (see `find`), if given; 2. write the job
    file into `folder` (on the runner's machine); 3. start fio; 4. wait, calling `on_progress`
    about every `progress_every_s` from the thread that reads; 5. remove the job file; 6. read the
    result. ``output.jobs`` of the returned Run is never empty. Once there is a file `stop_file` (on
    the runner's machine), fio ends jobs that move early; what it measured so far is its result.

    Raises FioJobError and FioUnfit (nothing was started), FioMissing, FioCancelled, FioTimeout,
    FioKilled, FioNoSpace, FioEngineMissing, FioVerifyFailed, FioFailed, FioOutputError; all that
    come after the start carry ``run``. What the runner raises passes through.
    """
    text = jobfile.to_text(jobs)
    if progress_every_s < 1:
        raise FioJobError(f"progress_every_s is {progress_every_s}; fio takes whole seconds from 1")
    if found is not None:
        found.check(jobs)  # 1.
    path = job_path(folder, jobs[0].name)
    argv = [fio, "--output-format=json", *_stopping(stop_file, folder)]
    watch = None
    if on_progress is not None:
        argv.append(f"--status-interval={progress_every_s}")
        watch = Watch(on_progress).feed
    finished, cancelled = carry_out(
        [*argv, path], {path: text}, runner, deadline_s=deadline_s, cancel=cancel, on_stdout=watch
    )
    return judge(text, finished, cancelled)  # 6.


def _stopping(stop_file: str | None, folder: str) -> list[str]:
    """Return the options by which fio ends at a file; `folder` takes verifying jobs' states."""
    return [] if stop_file is None else [f"--trigger-file={stop_file}", f"--aux-path={folder}"]


def job_path(folder: str, name: str) -> str:
    """Return where the job file called after `name` stands in `folder`."""
    return f"{folder.rstrip('/')}/{re.sub(r'[^A-Za-z0-9._-]', '_', name)[:60]}.fio"


def carry_out(
    argv: Sequence[str],
    files: Mapping[str, str],
    runner: Runner,
    *,
    deadline_s: float,
    cancel: threading.Event | None = None,
    on_stdout: Callable[[bytes], None] | None = None,
) -> tuple[Finished, bool]:
    """Run `argv` with `files` (path → text) beside it; return its end and whether cancelled.

    It has ended and the files are gone on every way out.
    """
    try:
        for path, text in files.items():
            runner.write_file(path, text.encode())  # 2.
        running = runner.start(argv, deadline_s=deadline_s, on_stdout=on_stdout)  # 3.
        return _wait(running, deadline_s, cancel)  # 4.
    finally:
        for path in files:
            runner.remove_file(path)  # 5.


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
