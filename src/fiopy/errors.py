"""fiopy's own exception family: every error says what happened and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fiopy.verdict import Run


class FioError(Exception):
    """Something fiopy can explain; ``hint`` is the reader's next step.

    ``run`` holds what fio printed and how it ended, where it got as far as being started: an
    error never loses the bytes it was read from.
    """

    def __init__(self, message: str, *, hint: str = "", run: Run | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.run = run

    def __str__(self) -> str:
        """Return the message and, when there is one, the hint on a line of its own."""
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class FioJobError(FioError):
    """A job or a job file holds an option or a value that is refused; nothing was started.

    ``job``, ``option`` (the field of Job, or the option of a job file), ``value`` and ``allowed``
    say what, where that is about one option.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        job: str = "",
        option: str = "",
        value: object = None,
        allowed: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.job = job
        self.option = option
        self.value = value
        self.allowed = allowed


class FioMissing(FioError):
    """There is no fio at the path it was looked for."""


class FioUnfit(FioError):
    """The fio that is there can't do the job: it is too old, or lacks the engine."""


class FioFailed(FioError):
    """fio ran and did not do its job: exit status, an I/O error, a failed verification."""


class FioKilled(FioFailed):
    """fio, or one of its jobs, was ended by a signal that was not ours; ``signal`` is its number.

    9 comes from the kernel for want of memory (or from somebody).
    """

    def __init__(
        self, message: str, *, signal: int, hint: str = "", run: Run | None = None
    ) -> None:
        super().__init__(message, hint=hint, run=run)
        self.signal = signal


class FioNoSpace(FioFailed):
    """The file system ran full (ENOSPC) under fio."""


class FioEngineMissing(FioFailed):
    """fio was not built with the I/O engine that a job names, or can't load it."""


class FioVerifyFailed(FioFailed):
    """What was read back is not what was written; ``run.output.verify_failures`` has where."""


class FioCancelled(FioFailed):
    """fio was ended because the caller asked for it."""


class FioTimeout(FioFailed):
    """fio was ended by its deadline."""


class FioOutputError(FioError):
    """What fio printed is cut, damaged or of a form that is not known: never a guess."""


class FioApart(FioFailed):
    """Initiators that were to work at once did not begin together, or it is not known whether."""
