"""What every way to a host can do, whichever way it is (ssh, local, recorded).

A command is an argument list and has a deadline; no text from a host ever reaches a shell.
"""

from __future__ import annotations

import dataclasses
import datetime
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kvgate.errors import CommandError

OUTPUT_CAP_BYTES = 16 * 2**20
"""The most that is kept of stdout, and of stderr, unless a call says otherwise.

A hundred times what any tool answers, and little enough to hold when several hosts stream."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command on a host ended, whatever its exit status.

    ``exit_status`` is None where the host sent none: the deadline ended it (``timed_out``), a
    signal did (``signal``; a status of 128 + n counts as signal n, as shells have it), or the host
    just said none. ``stdout_dropped``/``stderr_dropped`` count bytes beyond the cap.
    Secrets in the texts are masked already (`kvgate.untrusted`); ``masked`` counts them.
    ``free_of``: against how many known secrets (`untrusted.known_secrets`) stdout and stderr were
    searched in vain; None where nobody has, or something was found. ``held`` is the share of memory
    (`transport.kept`) that the texts take as long as this is held.
    """

    host: str
    argv: tuple[str, ...]
    exit_status: int | None
    stdout: bytes
    stderr: bytes
    started_at: datetime.datetime  # UTC
    elapsed_s: float
    timed_out: bool = False
    stdout_dropped: int = 0
    stderr_dropped: int = 0
    signal: int | None = None
    masked: int = 0
    free_of: int | None = dataclasses.field(default=None, compare=False)
    held: object = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def ok(self) -> bool:
        """Tell whether it exited 0 with its output whole."""
        return self.exit_status == 0 and not (self.stdout_dropped or self.timed_out)

    def expect_ok(self) -> CommandResult:
        """Return self if it exited 0 with its output whole; raises CommandError otherwise."""
        if self.ok:
            return self
        raise CommandError(self.host, self.describe(), hint=self._hint())

    def describe(self) -> str:
        """Return a sentence: the command, how it ended, and the first line of its complaint."""
        how = (
            f"was ended after {self.elapsed_s:.1f} s by its deadline"
            if self.timed_out
            else f"{self._ended()} after {self.elapsed_s:.1f} s"
            if self.exit_status is not None
            else f"was ended after {self.elapsed_s:.1f} s by {_signal_name(self.signal)}"
            if self.signal is not None
            else f"ended after {self.elapsed_s:.1f} s without an exit status"
        )
        if self.ok is False and self.exit_status == 0:
            how += f", {self.stdout_dropped} bytes of its output over the cap"
        complaint = self.stderr.decode("utf-8", "replace").strip().splitlines()
        tail = f": {complaint[0][:300]}" if complaint else ""
        return f"`{_in_short(self.argv)}` {how}{tail}"

    def _ended(self) -> str:
        """Return how a command ended, or a document was answered (`transport.https`)."""
        return "was answered" if self.argv[:1] == ("GET",) else f"exited {self.exit_status}"

    def _hint(self) -> str:
        if self.exit_status == 127:
            return f"'{self.argv[0]}' is not installed there, or not in the PATH of this login"
        return ""


def _in_short(argv: Sequence[str]) -> str:
    """Return the command as people would write it, but for scripts and what is very long."""
    words = [word if "\n" not in word and len(word) < 200 else "…" for word in argv]
    text = shlex.join(words).replace("'…'", "…")
    return text if len(text) <= 200 else f"{text[:200]}…"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class HostProcess(Protocol):
    """A long command on a host, on a leash: it ends there when this link or process ends.

    stdout arrives by `on_stdout` as it comes (from another thread) and is kept up to the cap too.
    """

    pid: int  # on the host

    def poll(self) -> bool:
        """Tell whether it has ended."""
        ...

    def wait(self, timeout_s: float) -> CommandResult:
        """Return how it ended; raises CommandError if it still runs after `timeout_s`."""
        ...

    def stop(self, grace_s: float = 5.0) -> CommandResult:
        """End it (TERM to its process group, KILL after `grace_s`) and return how it ended."""
        ...

    def kill(self) -> None:
        """Send KILL to its process group at once (the fault `engine killed` uses this)."""
        ...


class Transport(Protocol):
    """A connection to one host; opened at first use, safe to use from several threads.

    Every method raises TransportError (HostUnreachableError, HostKeyError, LoginError) where the
    host can't be asked; how the command ended is in the result, never an exception.
    """

    name: str  # the host's name in the inventory

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> CommandResult:
        """Run `argv` and return how it ended; at `timeout_s` it is ended on the host too."""
        ...

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        on_stdout: Callable[[bytes], None] | None = None,
        env: Mapping[str, str] | None = None,
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> HostProcess:
        """Start `argv` on a leash; it is ended on the host at `deadline_s` at the latest."""
        ...

    def write_file(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """Write a small file whole (temporary name, then rename)."""
        ...

    def read_file(self, path: str, *, cap_bytes: int = OUTPUT_CAP_BYTES) -> bytes:
        """Return a file's bytes; raises CommandError if it is absent or over the cap."""
        ...

    def close(self) -> None:
        """Close the connection; what was started on it ends."""
        ...
