"""What `ssh` and `local` share: commands, processes and small files on a leash."""

from __future__ import annotations

import abc
import contextlib
import datetime
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from kvgate.errors import CommandError
from kvgate.transport import leash
from kvgate.transport.base import OUTPUT_CAP_BYTES, CommandResult
from kvgate.transport.pump import GIVE_UP_S, STATUS_S, Line, Pump
from kvgate.untrusted import known_secrets, mask, mask_bytes

FILE_TIMEOUT_S = 60.0
"""How long moving a small file may take."""

START_TIMEOUT_S = 30.0
"""How long a host may take to start a process and tell its pid."""

_WRITE = """\
umask 077
trap 'rm -f -- "$2"' EXIT
[ ! -d "$1" ] || { echo "$1: is a directory" >&2; exit 1; }
cat >"$2" && chmod "$3" "$2" && [ "$(wc -c <"$2")" -eq "$4" ] && mv -f -- "$2" "$1"
"""


_LARGE_BYTES = 2**20
_large = threading.Lock()
"""Held while a large output is searched for secrets, which takes several times its memory."""


class Start:
    """The moment a command was sent off, by both clocks: before the host could begin with it."""

    def __init__(self) -> None:
        self.utc = datetime.datetime.now(datetime.UTC)
        self._begun = time.monotonic()

    def elapsed_s(self) -> float:
        """Return the time since, to the µs that evidence keeps: what it tells can be told again."""
        return round(time.monotonic() - self._begun, 6)


class Process:
    """A HostProcess on a leash, carried by a thread of its own (see `transport.base`)."""

    def __init__(self, host: str, argv: tuple[str, ...], line: Line, start: Start) -> None:
        self.pid = 0  # until the leash reports it; `Leashed.start` waits for that
        self._host = host
        self._argv = argv
        self._line = line
        self._start = start
        self._pid_known = threading.Event()
        self._ended = threading.Event()
        self._pump: Pump | None = None
        self._result: CommandResult | None = None
        self._error: Exception | None = None

    def carry(self, pump: Pump, on_end: Callable[[Process], None]) -> None:
        """Start the thread that carries its streams; `on_end` is called when it has ended."""
        self._pump = pump

        def work() -> None:
            try:
                pump.run()
                self._result = result_of(self._host, self._argv, self._start, pump)
            except Exception as err:  # noqa: BLE001  on_stdout is the caller's; raised by wait()
                self._error = err
            finally:
                self._ended.set()
                self._pid_known.set()
                on_end(self)

        threading.Thread(target=work, name=f"{self._host}: {self._argv[0]}", daemon=True).start()

    def told_pid(self, pid: int) -> None:
        """Take the pid that the leash reports."""
        self.pid = pid
        self._pid_known.set()

    def wait_pid(self) -> None:
        """Return when the pid is known; raises CommandError if the host doesn't tell it."""
        if not self._pid_known.wait(START_TIMEOUT_S):
            self._line.hang_up()
            raise CommandError(
                self._host, f"`{self._argv[0]}` was not started within {START_TIMEOUT_S:.0f} s"
            )
        if not self.pid:
            result = self.wait(0)
            raise CommandError(self._host, f"not started: {result.describe()}")

    def poll(self) -> bool:
        """Tell whether it has ended."""
        return self._ended.is_set()

    def wait(self, timeout_s: float) -> CommandResult:
        """Return how it ended; CommandError if it still runs, HostUnreachableError: lost link."""
        if not self._ended.wait(timeout_s):
            raise CommandError(
                self._host, f"`{self._argv[0]}` still runs after {timeout_s:.1f} s more"
            )
        if self._result is None:
            raise self._error or CommandError(self._host, f"`{self._argv[0]}`: no result")
        return self._result

    def stop(self, grace_s: float = 5.0) -> CommandResult:
        """End it (TERM to its group, KILL after `grace_s`) and return how it ended."""
        self._ask(b"TERM\n")
        if not self._ended.wait(grace_s):
            self.kill()
        return self.wait(STATUS_S)

    def kill(self) -> None:
        """Send KILL to its process group at once."""
        self._ask(b"KILL\n")

    def say(self, line: str) -> None:
        """Hand `line` to a command that was started with ``talks``; one that has ended is deaf."""
        self._ask(line.encode("ascii") + b"\n")

    def hang_up(self) -> None:
        """Let the leash end it, without waiting."""
        self._line.hang_up()

    def join(self, timeout_s: float) -> bool:
        """Tell whether it has ended within `timeout_s`."""
        return self._ended.wait(timeout_s)

    def _ask(self, request: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended meanwhile: `wait` tells how
            self._line.write(memoryview(request))


class Leashed(abc.ABC):
    """A Transport (see `transport.base`) but for its lines, which a subclass opens."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._running: set[Process] = set()
        self._lock = threading.Lock()

    @abc.abstractmethod
    def open(self) -> None:
        """Make sure that the host can be asked; raises TransportError otherwise."""

    @abc.abstractmethod
    def _line(self, words: list[str], timeout_s: float) -> Line:
        """Run the leash `words` on the host; raises TransportError."""

    def _begun(self, words: list[str], timeout_s: float) -> tuple[Line, Start]:
        """Run the leash `words` for a command that is waited for; raises TransportError."""
        self.open()
        start = Start()
        return self._line(words, timeout_s), start

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
        words = leash.command(
            self.name, argv, deadline_s=timeout_s, stdin_bytes=len(stdin), env=env
        )
        line, start = self._begun(words, timeout_s)
        pump = Pump(line, timeout_s=timeout_s, cap_bytes=cap_bytes, stdin=stdin)
        pump.run()
        return result_of(self.name, tuple(argv), start, pump)

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        on_stdout: Callable[[bytes], None] | None = None,
        env: Mapping[str, str] | None = None,
        cap_bytes: int = OUTPUT_CAP_BYTES,
        talks: bool = False,
    ) -> Process:
        """Start `argv` on a leash; it is ended on the host at `deadline_s` at the latest.

        With `talks` it is told lines by `Process.say`; none may be a word of the leash's own.
        An exception of `on_stdout` ends the process and is raised by its `wait`.
        """
        words = leash.command(
            self.name, argv, deadline_s=deadline_s, env=env, report_pid=True, talks=talks
        )
        self.open()
        start = Start()
        line = self._line(words, min(deadline_s, START_TIMEOUT_S))
        process = Process(self.name, tuple(argv), line, start)
        pump = Pump(
            line,
            timeout_s=deadline_s,
            cap_bytes=cap_bytes,
            on_stdout=on_stdout,
            on_pid=process.told_pid,
        )
        with self._lock:
            self._running.add(process)
        process.carry(pump, self._forget)
        process.wait_pid()
        return process

    def write_file(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """Write a small file whole (temporary name in its folder, then rename)."""
        target = _as_path(path)
        spare = f"{target}.{secrets.token_hex(6)}.kvgate"
        self.run(
            ["sh", "-c", _WRITE, "sh", target, spare, f"{mode:o}", str(len(data))],
            timeout_s=FILE_TIMEOUT_S,
            stdin=data,
        ).expect_ok()

    def read_file(self, path: str, *, cap_bytes: int = OUTPUT_CAP_BYTES) -> bytes:
        """Return a file's bytes; raises CommandError if it is absent or over the cap."""
        result = self.run(
            ["head", "-c", str(cap_bytes + 1), _as_path(path)],
            timeout_s=FILE_TIMEOUT_S,
            cap_bytes=cap_bytes + 1,
        ).expect_ok()
        if len(result.stdout) > cap_bytes:
            raise CommandError(self.name, f"{path}: has more than {cap_bytes} bytes")
        return result.stdout

    def close(self) -> None:
        """Let the leash end all that was started, and wait until it has."""
        with self._lock:
            running = tuple(self._running)
        for process in running:
            process.hang_up()
        until = time.monotonic() + GIVE_UP_S
        for process in running:
            process.join(max(0.0, until - time.monotonic()))

    def _forget(self, process: Process) -> None:
        with self._lock:
            self._running.discard(process)


def result_of(host: str, argv: tuple[str, ...], start: Start, pump: Pump) -> CommandResult:
    """Return how the command that `pump` carried ended, secrets masked."""
    status = None if pump.timed_out else pump.status
    signal = status - 128 if status is not None and 128 < status <= 128 + 64 else None
    if pump.timed_out:
        pump.stdout.cut()
        pump.stderr.cut()
    known = known_secrets()  # before the search, so that none is missed
    with _large if len(pump.stdout) + len(pump.stderr) > _LARGE_BYTES else contextlib.nullcontext():
        stdout, in_stdout = mask_bytes(pump.stdout.take(), cut=bool(pump.stdout.dropped))
        stderr, in_stderr = mask_bytes(pump.stderr.take(), cut=bool(pump.stderr.dropped))
    words = tuple(mask(word) for word in argv)
    return CommandResult(
        host=host,
        argv=words,
        exit_status=None if signal else status,
        stdout=stdout,
        stderr=stderr,
        started_at=start.utc,
        elapsed_s=start.elapsed_s(),
        timed_out=pump.timed_out,
        stdout_dropped=pump.stdout.dropped,
        stderr_dropped=pump.stderr.dropped,
        signal=signal,
        held=(pump.stdout.share, pump.stderr.share),
        masked=in_stdout + in_stderr + sum(a != b for a, b in zip(words, argv, strict=True)),
        free_of=None if in_stdout or in_stderr else known,
    )


def _as_path(path: str) -> str:
    """Return `path` so that no tool takes it for an option."""
    return path if path.startswith("/") else f"./{path}"
