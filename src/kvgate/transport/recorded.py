"""A host that is a recording: every command gets the answer it once got, or an error, never less.

The n-th same command in a scope (a gate, or a block in it) gets the n-th answer recorded there, so
that a run which was killed and goes on meets the answers that it would have met.
"""

from __future__ import annotations

import dataclasses
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence

from kvgate.errors import CommandError, HostUnreachableError
from kvgate.transport.base import OUTPUT_CAP_BYTES, CommandResult
from kvgate.transport.recording import Recording

Scope = Callable[[], str]
"""Tells in which gate or block is being asked just now; "" where nobody says."""

SURVEY = "/survey/"
"""Stands in the scope of a survey. Its commands are gathered once a host; the same answer to two
probes is one piece of evidence, and so one answer of a recording."""

_SHOWN = 200


class UnrecordedError(CommandError):
    """The recording has no answer (any more) to what was asked; less is never made up."""


def nowhere() -> str:
    """Return the scope of whoever names none: answers then come in the order of the recording."""
    return ""


class RecordedProcess:
    """A long command of a recording (see `transport.base.HostProcess`); ``pid`` is not known: 0.

    Its stdout arrives before `start` returns. One that ended by itself has ended (with timing:
    once its time is over); one that was ended by a signal runs until someone waits for it or ends
    it.
    """

    pid = 0

    def __init__(self, answer: CommandResult, over: threading.Event, wait_s: float) -> None:
        self._answer = answer
        self._over = over
        self._wait_s = wait_s
        self._failed: Exception | None = None
        self._ended = threading.Event()
        self._timer: threading.Timer | None = None
        if answer.exit_status is None and not answer.timed_out:
            return
        if wait_s:
            self._timer = threading.Timer(wait_s, self._ended.set)
            self._timer.daemon = True
            self._timer.start()
        else:
            self._ended.set()

    def feed(self, on_stdout: Callable[[bytes], None] | None) -> None:
        """Hand over what it wrote; an error of the reader ends it and is raised by `wait`."""
        if on_stdout is None or not self._answer.stdout:
            return
        try:
            on_stdout(self._answer.stdout)
        except Exception as err:  # noqa: BLE001  the reader's own; raised by wait()
            self._failed = err
            self._ended.set()

    def poll(self) -> bool:
        """Tell whether it has ended."""
        return self._ended.is_set() or self._over.is_set()

    def wait(self, timeout_s: float) -> CommandResult:
        """Return how it ended; raises CommandError if by the recording's timing it still runs."""
        if self._timer is not None and not self._ended.wait(timeout_s):
            raise CommandError(
                self._answer.host, f"`{self._answer.argv[0]}` still runs after {timeout_s:.1f} s"
            )
        return self.stop()

    def stop(self, grace_s: float = 5.0) -> CommandResult:  # noqa: ARG002  nothing to wait for
        """End it and return how it ended when it was recorded."""
        self.kill()
        if self._failed is not None:
            raise self._failed
        return self._answer

    def kill(self) -> None:
        """End it at once."""
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()


class RecordedTransport:
    """A Transport (see `transport.base`) to a recording; safe to use from several threads.

    Answers carry the times of the recording, so that what is computed from them is what was
    computed then. `timing` lets each take as long as it took.
    """

    def __init__(
        self, name: str, recording: Recording, *, scope: Scope = nowhere, timing: bool = False
    ) -> None:
        self.name = name
        self._recording = recording
        self._scope = scope
        self._timing = timing
        self._answers: dict[tuple[str, tuple[str, ...]], list[CommandResult]] = {}
        self._scoped = any(answer.scope for answer in recording.answers)
        for answer in recording.answers:
            for where in {answer.scope, ""}:
                self._answers.setdefault((where, answer.result.argv), []).append(answer.result)
        self._words = {word for answer in recording.answers for word in answer.result.argv}
        self._asked: dict[tuple[str, tuple[str, ...]], int] = {}
        self._files: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,  # noqa: ARG002  how it ended was decided when it was recorded
        stdin: bytes = b"",  # noqa: ARG002  ditto
        env: Mapping[str, str] | None = None,  # noqa: ARG002  ditto
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> CommandResult:
        """Return the recorded answer; UnrecordedError names a command that has none (any more)."""
        answer = self._next(tuple(argv))
        if self._timing and self._over.wait(answer.elapsed_s):
            raise HostUnreachableError(self.name, "the replay was ended")
        return _capped(answer, cap_bytes)

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,  # noqa: ARG002  as for run
        on_stdout: Callable[[bytes], None] | None = None,
        env: Mapping[str, str] | None = None,  # noqa: ARG002  as for run
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> RecordedProcess:
        """Return the recorded process; UnrecordedError as for `run`."""
        answer = self._next(tuple(argv))
        process = RecordedProcess(
            _capped(answer, cap_bytes), self._over, answer.elapsed_s if self._timing else 0.0
        )
        process.feed(on_stdout)
        return process

    def write_file(self, path: str, data: bytes, *, mode: int = 0o600) -> None:  # noqa: ARG002
        """Keep a file for `read_file`; CommandError where no recorded command ever named it."""
        if path not in self._words:
            raise CommandError(
                self.name,
                f"{path}: the recording of {self._recording.source} knows of no such file",
                hint="only files that the recorded commands named can be written there",
            )
        with self._lock:
            self._files[path] = data

    def read_file(self, path: str, *, cap_bytes: int = OUTPUT_CAP_BYTES) -> bytes:
        """Return what was written to `path`, else what the host once had in it."""
        with self._lock:
            written = self._files.get(path)
        if written is not None and len(written) <= cap_bytes:
            return written
        return self.run(["head", "-c", str(cap_bytes + 1), path], timeout_s=0).expect_ok().stdout

    def close(self) -> None:
        """End what is being waited for."""
        self._over.set()

    def _next(self, argv: tuple[str, ...]) -> CommandResult:
        scope = self._scope() if self._scoped else ""
        if why := self._recording.unreachable.get(scope.partition("/")[0]):
            raise HostUnreachableError(self.name, why)
        with self._lock:
            answers = self._answers.get((scope, argv), [])
            number = self._asked.get((scope, argv), 0)
            if number < len(answers):
                self._asked[scope, argv] = number + 1
                return answers[number]
            if answers and SURVEY in scope:
                return answers[-1]
        raise self._unrecorded(argv, scope, number)

    def _unrecorded(self, argv: tuple[str, ...], scope: str, number: int) -> UnrecordedError:
        command = shlex.join(argv)
        if len(command) > _SHOWN:
            command = command[:_SHOWN] + "…"
        where = f" in {scope}" if scope else ""
        source = self._recording.source
        elsewhere = sorted({s for s, words in self._answers if words == argv and s})
        if number:
            what = f"was answered {number} times{where} in the recording of {source}, not once more"
        elif elsewhere:
            what = f"was not asked{where} in the recording of {source}, only in {elsewhere[0]}"
        else:
            what = f"is not in the recording of {source}"
        return UnrecordedError(
            self.name,
            f"`{command}` {what}",
            hint="a recording answers what its gate was asked then; other suites, plans or tools "
            "need a new one",
        )


def _capped(answer: CommandResult, cap_bytes: int) -> CommandResult:
    """Return `answer` as a call with this cap would have had it."""
    over = [max(0, len(data) - cap_bytes) for data in (answer.stdout, answer.stderr)]
    if not any(over):
        return answer
    return dataclasses.replace(
        answer,
        stdout=answer.stdout[:cap_bytes],
        stderr=answer.stderr[:cap_bytes],
        stdout_dropped=answer.stdout_dropped + over[0],
        stderr_dropped=answer.stderr_dropped + over[1],
    )
