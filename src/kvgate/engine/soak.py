"""The soak's process: ``python -m kvgate.engine.soak RUN --gate G4``, and what others ask of it.

It is its run's only writer while it works. A supervisor starts it, shows its progress and then
lets the gate's tests read what it recorded. What is heavy is imported only once it works.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from kvgate.engine.progress import Progress
from kvgate.errors import KvgateError
from kvgate.spec.plan import Plan
from kvgate.store.reader import RunReader

GATE = "G4"
END_BLOCK = "soak/end"
"""The last block: once it is finished, so is the soak."""

INTERRUPTED = 3
"""Exit code of a soak that was told to stop; it goes on with the next window when resumed."""


def needed(plan: Plan, gate: str) -> bool:
    """Tell whether `gate` begins with a soak in this plan."""
    return gate == GATE and plan.workloads.soak is not None


def command(run: Path, gate: str) -> list[str]:
    """Return the command that soaks for `gate` of the run in folder `run`."""
    return [sys.executable, "-m", "kvgate.engine.soak", str(run), "--gate", gate]


def finished(reader: RunReader) -> bool:
    """Tell whether the run's soak came to its end (or was refused, with the reasons recorded)."""
    return any(event.fields["block"] == END_BLOCK for event in reader.events("block_end"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, and return the exit code: 0 at its end, 3 where it broke off and can be resumed."""
    parser = argparse.ArgumentParser(prog="kvgate.engine.soak", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--gate", default=GATE)
    parser.add_argument("--progress-fd", type=int)
    parser.add_argument("--alive-fd", type=int, help="closes when the supervisor is gone")
    given = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: stop.set())
    _watch_supervisor(given.alive_fd, stop)
    from kvgate.engine import soak_run

    progress = Progress(given.progress_fd)
    try:
        ended = soak_run.soak(
            given.run,
            given.gate,
            stop=stop,
            on_progress=lambda text, awaits="": progress.send("progress", text, awaits=awaits),
        )
    except KvgateError as err:
        sys.stderr.write(f"{err}\n")
        return err.exit_code if err.exit_code in (INTERRUPTED, 64) else INTERRUPTED
    return 0 if ended else INTERRUPTED


def _watch_supervisor(fd: int | None, stop: threading.Event) -> None:
    """Stop in order when the supervisor is gone: nobody would finish the run."""
    if fd is None:
        return

    def watch() -> None:
        with contextlib.suppress(OSError):
            os.read(fd, 1)  # returns at the end of file: the supervisor's end was closed
        stop.set()

    threading.Thread(target=watch, name="supervisor-watch", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
