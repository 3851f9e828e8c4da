"""How a fio ended → the Run it was, or the error that says what it met."""

from __future__ import annotations

import dataclasses
import re
import signal

from fiopy import output
from fiopy.errors import (
    FioCancelled,
    FioEngineMissing,
    FioFailed,
    FioKilled,
    FioNoSpace,
    FioOutputError,
    FioTimeout,
    FioVerifyFailed,
)
from fiopy.found import missing
from fiopy.result import EILSEQ, ENOSPC, Output
from fiopy.runner import Finished

_ENGINE = re.compile(r"engine (\S+) not loadable|fio: (?:failed to load|unknown) engine (\S+)")
_BY_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of fio: the job file it was given, how it ended, and what it said.

    ``output`` is None where what it printed could not be read.
    """

    job_text: str
    finished: Finished
    output: Output | None = None


def judge(text: str, finished: Finished, cancelled: bool) -> Run:
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
    _refuse_killed(run, after)
    if finished.dropped_bytes:
        raise FioOutputError(
            f"{finished.dropped_bytes} bytes of fio's output were over the cap",
            run=run,
            hint="report less often, or group the jobs",
        )
    run = dataclasses.replace(run, output=_said(run, after))
    return _measured(run, after)


def _refuse_killed(run: Run, after: str) -> None:
    """Raise FioKilled where a signal ended fio itself: nothing that it printed is whole."""
    status, number = run.finished.exit_status, run.finished.signal
    if number is None and status is not None and status - 128 in _BY_OTHERS:
        number = status - 128
    if number is not None and b"terminating on signal" not in run.finished.stdout:
        raise killed(number, f"fio was killed {after}", run)


def killed(number: int, what: str, run: Run) -> FioKilled:
    """Return the error for a fio, or a job of it, that signal `number` ended."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return FioKilled(
        f"{what} by {name}",
        signal=number,
        run=run,
        hint="the kernel kills for want of memory: look for 'Out of memory' in its log (dmesg)"
        if number == signal.SIGKILL
        else "somebody or something on the host ended it; see its logs",
    )


def _said(run: Run, after: str) -> Output:
    finished = run.finished
    try:
        return output.parse(finished.stdout, finished.stderr, finished.exit_status)
    except FioOutputError as err:
        err.run = run
        if finished.exit_status == 0:
            raise
        raise FioFailed(
            f"fio exited {finished.exit_status} {after}: {err.message}", hint=err.hint, run=run
        ) from err


def _measured(run: Run, after: str) -> Run:
    """Return `run` if its output is a measurement; raises the error that fits otherwise."""
    said, status = run.output, run.finished.exit_status
    if said is None or status is None:
        raise FioFailed(f"fio ended {after} without an exit status", run=run)
    if said.killed is not None:
        raise killed(said.killed, f"a job of fio was killed {after}", run)
    if said.failed:
        raise _failure(said, f"fio exited {status} {after}: {said.why()}", run)
    if not said.jobs:
        raise FioOutputError("fio exited 0 and printed no result", run=run)
    return run


def _failure(said: Output, what: str, run: Run) -> FioFailed:
    """Return the error for an output that is no measurement, by what fio complains of."""
    if said.signal is not None:
        return FioKilled(what, signal=said.signal, run=run)
    if said.verify_failures or said.error == EILSEQ:
        return FioVerifyFailed(
            what, run=run, hint="stop using the path; fio's lines name file and offset"
        )
    if said.error == ENOSPC:
        return FioNoSpace(what, run=run, hint="free some space, or take a smaller size")
    if any(_ENGINE.search(each.line) for each in said.complaints):
        return FioEngineMissing(
            what, run=run, hint="`fio --enghelp` lists the engines that this fio has"
        )
    return FioFailed(what, run=run)
