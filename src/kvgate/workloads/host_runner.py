"""Lets fiopy run on a host: its Runner over a Witness, every end of fio kept as evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fiopy
from kvgate.errors import CommandError, TransportError
from kvgate.model.record import EvidenceRef
from kvgate.transport.base import CommandResult, HostProcess
from kvgate.witness import Witness, as_evidence

ENV = {"LC_ALL": "C"}
"""What tools are started with, so that they print what parsers know."""

_GRACE_S = 10.0


class HostRunner:
    """A fiopy.Runner on the witness's host; ``evidence`` gathers what was kept, in order."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self.evidence: list[EvidenceRef] = []

    def run(self, argv: Sequence[str], *, timeout_s: float) -> fiopy.Finished:
        """Run `argv` to its end; raises TransportError where the host can't be asked."""
        testimony = self._witness.ask(argv, timeout_s=timeout_s, env=ENV)
        self.evidence.append(testimony.ref)
        return finished(testimony.result)

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        on_stdout: Callable[[bytes], None] | None = None,
    ) -> HostRunning:
        """Start `argv` on a leash: it ends on the host when this process or the link does."""
        tool, *rest = argv
        process = self._witness.transport.start(
            [self._witness.host.tools.get(tool, tool), *rest],
            deadline_s=deadline_s,
            on_stdout=on_stdout,
            env=ENV,
        )
        return HostRunning(process, self._kept)

    def write_file(self, path: str, data: bytes) -> None:
        """Write a job file and keep it, as the host gives it back: what fio was really given."""
        self._witness.transport.write_file(path, data)
        read_back = self._witness.ask(["cat", path], timeout_s=20)
        self.evidence.append(read_back.ref)
        if read_back.stdout != data:
            raise CommandError(self._witness.host.name, f"{path} does not hold what was written")

    def remove_file(self, path: str) -> bool:
        """Remove a file; return whether that went well (its folder is removed later anyway)."""
        try:
            return self._witness.ask(["rm", "-f", "--", path], timeout_s=60).result.ok
        except TransportError:
            return False

    def _kept(self, result: CommandResult) -> fiopy.Finished:
        self.evidence.append(self._witness.keep(as_evidence(result)))
        return finished(result)


class HostRunning:
    """A fio on the host."""

    def __init__(
        self, process: HostProcess, kept: Callable[[CommandResult], fiopy.Finished]
    ) -> None:
        self._process = process
        self._kept = kept

    def wait(self, timeout_s: float) -> fiopy.Finished | None:
        """Return how it ended, or None if it still runs after `timeout_s`."""
        try:
            result = self._process.wait(timeout_s)
        except CommandError:
            if not self._process.poll():
                return None
            result = self._process.wait(_GRACE_S)  # it ended just then
        return self._kept(result)

    def stop(self) -> fiopy.Finished:
        """End it and return how it ended."""
        return self._kept(self._process.stop())


def finished(result: CommandResult) -> fiopy.Finished:
    """Return a command's result as fiopy has it."""
    return fiopy.Finished(
        argv=result.argv,
        exit_status=result.exit_status,
        stdout=result.stdout,
        stderr=result.stderr,
        started_at=result.started_at,
        elapsed_s=result.elapsed_s,
        timed_out=result.timed_out,
        dropped_bytes=result.stdout_dropped + result.stderr_dropped,
        signal=result.signal,
    )
