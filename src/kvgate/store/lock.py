"""One writer a run: a lock that names its holder and ends with its process."""

from __future__ import annotations

import datetime
import fcntl
import os
import socket
from pathlib import Path

from kvgate.errors import RunLockedError
from kvgate.store import disk
from kvgate.store.canonical import compact, parse, utc_text
from kvgate.store.layout import LOCK


class RunLock:
    """The exclusive lock (flock) on a run folder, held until `release` or the process's end.

    Raises RunLockedError, naming process, host and start, where another holds it. The file stays:
    removing it would let two writers lock two files of the same name.
    """

    def __init__(self, run: Path) -> None:
        self._file = disk.File.make_or_open(run / LOCK)
        try:
            with disk.told(run / LOCK, "locking"):
                fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.truncate(0)
            self._file.write(_me())
        except BaseException as err:  # an interrupt too: it must not leave the run locked
            self._file.close()
            if isinstance(err.__cause__, BlockingIOError):
                raise RunLockedError(
                    f"{run}: is being written by {_holder(run)}",
                    hint="wait for it, or end that process; the lock ends with it",
                ) from err
            raise

    def release(self) -> None:
        """Let the next writer in; a second call does nothing."""
        self._file.close()


def _me() -> bytes:
    return (
        compact(
            {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "start": utc_text(datetime.datetime.now(datetime.UTC)),
            }
        )
        + b"\n"
    )


def _holder(run: Path) -> str:
    try:
        holder = parse((run / LOCK).read_bytes())
        return f"process {holder['pid']:d} on {holder['host']} since {holder['start']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process (that is just starting)"
