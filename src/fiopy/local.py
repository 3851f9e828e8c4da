"""Runs commands on this machine, by subprocess; deadline and ``stop`` end whole process groups."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from fiopy.runner import Finished

_GRACE_S = 5.0
_PIECE = 65536


class LocalRunner:
    """fio here. Output beyond `cap_bytes` a stream is counted and dropped."""

    def __init__(self, *, cap_bytes: int = 256 * 2**20) -> None:
        self._cap_bytes = cap_bytes

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        """Run `argv` to its end; it is ended after `timeout_s`."""
        running = self.start(argv, deadline_s=timeout_s)
        while (finished := running.wait(timeout_s + _GRACE_S)) is None:
            pass
        return finished

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        on_stdout: Callable[[bytes], None] | None = None,
    ) -> LocalProcess:
        """Start `argv` in a process group of its own."""
        return LocalProcess(argv, deadline_s, on_stdout, self._cap_bytes)

    def write_file(self, path: str, data: bytes) -> None:
        """Write a small file whole."""
        Path(path).write_bytes(data)

    def remove_file(self, path: str) -> bool:
        """Remove the file; return whether it is gone."""
        with contextlib.suppress(OSError):
            Path(path).unlink(missing_ok=True)
        return not Path(path).exists()


class LocalProcess:
    """One command of this machine, watched by a thread that knows its deadline."""

    def __init__(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_stdout: Callable[[bytes], None] | None,
        cap_bytes: int,
    ) -> None:
        self._argv = tuple(argv)
        self._on_stdout = on_stdout
        self._cap_bytes = cap_bytes
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._dropped = 0
        self._timed_out = False
        self._ended = threading.Event()
        self._exit_status: int | None = None
        self._started_at = datetime.datetime.now(datetime.UTC)
        self._begun = time.monotonic()
        self._signal_of_end: int | None = None
        self._elapsed_s = 0.0
        try:
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError) as err:
            self._process = None
            self._kept["stderr"] += f"{self._argv[0]}: {err.strerror}\n".encode()
            self._end(127)
            return
        threading.Thread(target=self._watch, args=(self._process, deadline_s), daemon=True).start()

    def wait(self, timeout_s: float) -> Finished | None:
        """Return how it ended, or None if it still runs after `timeout_s`."""
        return self._finished() if self._ended.wait(timeout_s) else None

    def stop(self) -> Finished:
        """End it (TERM to its group, KILL after 5 s) and return how it ended."""
        self._signal(signal.SIGTERM)
        if not self._ended.wait(_GRACE_S):
            self._signal(signal.SIGKILL)
            self._ended.wait()
        return self._finished()

    def _watch(self, process: subprocess.Popen[bytes], deadline_s: float) -> None:
        """Drain both streams until they close or the deadline comes, then note the end."""
        readers = [
            threading.Thread(target=self._drain, args=(name, stream), daemon=True)
            for name, stream in (("stdout", process.stdout), ("stderr", process.stderr))
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(max(0.0, self._begun + deadline_s - time.monotonic()))
        if any(reader.is_alive() for reader in readers):
            self._timed_out = True
            self._signal(signal.SIGTERM)
            readers[0].join(_GRACE_S)
        try:
            status = process.wait(max(0.05, self._begun + deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:  # it closed its streams and lives, or ignored TERM
            self._timed_out = True
            self._signal(signal.SIGKILL)
            status = process.wait()
        self._signal(signal.SIGKILL)  # whatever is left of its group
        for reader in readers:
            reader.join()
        if status < 0 and not self._timed_out:
            self._signal_of_end = -status
        self._end(None if self._timed_out else status if status >= 0 else 128 - status)

    def _drain(self, name: str, stream: IO[bytes] | None) -> None:
        if stream is None:
            return
        kept = self._kept[name]
        with stream:
            while piece := os.read(stream.fileno(), _PIECE):
                room = max(0, self._cap_bytes - len(kept))
                kept += piece[:room]
                self._dropped += max(0, len(piece) - room)
                if name == "stdout" and self._on_stdout:
                    self._on_stdout(piece)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _end(self, status: int | None) -> None:
        self._exit_status = status
        self._elapsed_s = time.monotonic() - self._begun
        self._ended.set()

    def _finished(self) -> Finished:
        return Finished(
            argv=self._argv,
            exit_status=self._exit_status,
            stdout=bytes(self._kept["stdout"]),
            stderr=bytes(self._kept["stderr"]),
            started_at=self._started_at,
            elapsed_s=self._elapsed_s,
            timed_out=self._timed_out,
            dropped_bytes=self._dropped,
            signal=self._signal_of_end,
        )
