"""What fiopy needs from whoever runs commands: this machine (``fiopy.local``), or another host."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Protocol


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended. ``exit_status`` is None where none came (deadline, link lost).

    ``signal`` is the one that ended it, where the runner knows; a status of 128 + n says so too.

    ``dropped_bytes`` counts output beyond the runner's cap: what is here is not whole.
    """

    argv: tuple[str, ...]
    exit_status: int | None
    stdout: bytes
    stderr: bytes
    started_at: datetime.datetime  # UTC
    elapsed_s: float
    timed_out: bool = False
    dropped_bytes: int = 0
    signal: int | None = None


class Running(Protocol):
    """A command that was started."""

    def wait(self, timeout_s: float) -> Finished | None:
        """Return how it ended, or None if it still runs after `timeout_s`."""
        ...

    def stop(self) -> Finished:
        """End it, with everything it started, and return how it ended."""
        ...


class Runner(Protocol):
    """Runs commands and keeps small files, here or elsewhere.

    A command that is not there ends with exit status 127, as a shell has it. Other errors of a
    runner (a lost link) pass through fiopy untouched.
    """

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        """Run `argv` to its end, at most `timeout_s`."""
        ...

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        on_stdout: Callable[[bytes], None] | None = None,
    ) -> Running:
        """Start `argv`; at `deadline_s` the runner ends it. `on_stdout` may be another thread's."""
        ...

    def write_file(self, path: str, data: bytes) -> None:
        """Write a small file whole."""
        ...

    def remove_file(self, path: str) -> bool:
        """Remove that file; return whether it is gone. Raises nothing."""
        ...
