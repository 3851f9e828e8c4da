"""Machines as processes: known by pid and start time, so that no other process is ever ended.

The pid is written by a shell that then becomes the machine, and is known by folder and name until
then: a SIGKILL of ours at any moment leaves no machine that nobody knows of.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from kvgate.errors import HarnessError
from kvgate.lab.progress import Say, Waiting, quiet

PID_FILE = "pid"
MARK = "kvgate-lab"
"""What stands in the command line of each machine, and of the shell that becomes it."""

LOG = "qemu.log"
_TERM_S = 10.0
_KILL_S = 20.0
# Field 22 is the start time in clock ticks since boot (proc_pid_stat(5)), the 20th after the name
# in parentheses. The file is there whole or not at all. The outer shell ends at once: the machine
# is no child of ours.
_BECOME = """\
read -r told <"/proc/$$/stat"
began=$(echo "${told##*) }" | cut -d' ' -f20)
echo "$$ $began" >pid.new && mv pid.new pid && exec "$@"
"""
_START = f'/bin/sh -c "$0" {MARK} "$@" &'
_START_S = 60.0
_SETTLE_S = 0.3  # a wrong command line is refused at once


def start_time(pid: int) -> str | None:
    """Return when process `pid` began, in ticks since boot; None: it is gone, or a zombie."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    fields = told.rpartition(")")[2].split()
    return None if len(fields) < 20 or fields[0] in "ZX" else fields[19]


def running(folder: Path) -> int | None:
    """Return the pid of the process that `folder` tells of, if it is still that very process."""
    try:
        words = (folder / PID_FILE).read_text("ascii", "replace").split()
    except OSError:
        return None
    if len(words) != 2 or not words[0].isdecimal() or int(words[0]) < 2:
        return None
    return int(words[0]) if start_time(int(words[0])) == words[1] else None


def start(argv: Sequence[str], folder: Path, say: Say = quiet) -> int:
    """Start `argv` in `folder`, in a session of its own, and return its pid.

    Its output goes to qemu.log there. Raises HarnessError, with its last words, where it ends at
    once.
    """
    (folder / PID_FILE).unlink(missing_ok=True)
    with (folder / LOG).open("wb") as log:
        subprocess.run(
            ["/bin/sh", "-c", _START, _BECOME, *argv],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            check=True,
            timeout=_START_S,
        )
    waiting = Waiting(say, f"the start of {folder.name}", _START_S)
    while not (folder / PID_FILE).exists():
        waiting.pause(last_words(folder))
    time.sleep(_SETTLE_S)
    pid = running(folder)
    if pid is None:
        raise HarnessError(f"lab: {argv[0]} ended at once: {last_words(folder)}")
    return pid


def last_words(folder: Path, name: str = LOG, lines: int = 3) -> str:
    """Return the end of a machine's log or console on one line, for messages."""
    try:
        told = (folder / name).read_bytes()[-4096:].decode("utf-8", "replace")
    except OSError:
        return ""
    return " | ".join(line.strip() for line in told.splitlines()[-lines:] if line.strip())


def end(folder: Path, say: Say = quiet) -> bool:
    """End the process of `folder`, TERM then KILL, and forget it; tell whether there was one.

    Raises HarnessError where it outlives even KILL (a process wedged in the kernel).
    """
    pid = running(folder)
    if pid is not None and not (
        _ended(folder, pid, signal.SIGTERM, _TERM_S, say)
        or _ended(folder, pid, signal.SIGKILL, _KILL_S, say)
    ):
        raise HarnessError(f"lab: process {pid} of {folder.name} outlives SIGKILL")
    for stray in _strays(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(stray, signal.SIGKILL)
    (folder / PID_FILE).unlink(missing_ok=True)
    return pid is not None


def _strays(folder: Path) -> list[int]:
    """Return what was started for `folder` and had written no pid yet when kvgate was killed."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            mine = (each / "cwd").readlink() == folder.resolve()
            if mine and MARK.encode() in (each / "cmdline").read_bytes():
                found.append(int(each.name))
    return found


def _ended(folder: Path, pid: int, number: signal.Signals, limit_s: float, say: Say) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    waiting = Waiting(say, f"the end of {folder.name} (process {pid})", 2 * limit_s)
    while running(folder) == pid:
        if waiting.elapsed_s > limit_s:
            return False
        waiting.pause()
    return True
