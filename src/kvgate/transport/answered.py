"""A way to a host that has answered some commands already; all else goes to the real one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from kvgate.transport.base import OUTPUT_CAP_BYTES, CommandResult, HostProcess, Transport


class AnsweredTransport:
    """A Transport over `real` that gives what `answers` holds for a command without asking again.

    An answer counts for a command without stdin, under the environment that the answers were
    gathered in or one that asks for less.
    """

    def __init__(
        self,
        real: Transport,
        answers: Mapping[tuple[str, ...], CommandResult],
        *,
        env: Mapping[str, str],
    ) -> None:
        self.name = real.name
        self._real = real
        self._answers = answers
        self._env = env.items()

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> CommandResult:
        """Return the answer that is there, no more than `cap_bytes` of it; else run `argv`."""
        found = self._answers.get(tuple(argv))
        if found is None or stdin or not (env or {}).items() <= self._env:
            return self._real.run(
                argv, timeout_s=timeout_s, stdin=stdin, env=env, cap_bytes=cap_bytes
            )
        return _within(found, cap_bytes)

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        on_stdout: Callable[[bytes], None] | None = None,
        env: Mapping[str, str] | None = None,
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> HostProcess:
        """Start `argv` on the real way."""
        return self._real.start(
            argv, deadline_s=deadline_s, on_stdout=on_stdout, env=env, cap_bytes=cap_bytes
        )

    def write_file(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """Write a file on the real way."""
        self._real.write_file(path, data, mode=mode)

    def read_file(self, path: str, *, cap_bytes: int = OUTPUT_CAP_BYTES) -> bytes:
        """Read a file on the real way: it may have changed since."""
        return self._real.read_file(path, cap_bytes=cap_bytes)

    def close(self) -> None:
        """Leave the real way open: it belongs to who made it."""


def _within(result: CommandResult, cap_bytes: int) -> CommandResult:
    """Return `result` with what is over the cap dropped, and counted as dropped."""
    over_out, over_err = len(result.stdout) - cap_bytes, len(result.stderr) - cap_bytes
    if over_out <= 0 and over_err <= 0:
        return result
    return dataclasses.replace(
        result,
        stdout=result.stdout[:cap_bytes],
        stderr=result.stderr[:cap_bytes],
        stdout_dropped=result.stdout_dropped + max(0, over_out),
        stderr_dropped=result.stderr_dropped + max(0, over_err),
        free_of=None,
    )
