"""fiopy's errors as ours: which are no verdict on the storage, with host, command and next step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import fiopy
from kvgate.errors import HarnessError, KvgateError, NotRunError, ParseError, TransportError
from kvgate.witness import Witness


def what_it_met(err: fiopy.FioFailed) -> fiopy.Output:
    """Return the output of a fio that ran and met errors of the storage; else raise `err` again.

    What ended fio before its time (a signal, no room, no engine) says nothing of the storage.
    """
    output = err.run.output if err.run else None
    if (
        isinstance(err, fiopy.FioKilled | fiopy.FioNoSpace | fiopy.FioEngineMissing)
        or output is None
        or output.exit_status is None
        or not output.jobs
        or not output.error
    ):
        raise err
    return output


@contextlib.contextmanager
def translated(witness: Witness) -> Iterator[None]:
    """Translate fiopy's errors into ours, with the host's name and fio's command.

    Raises NotRunError (no fio, too old, without the engine, no room), ParseError, HarnessError.
    A lost link stays the TransportError it is, with a note of what it was lost in.
    """
    try:
        yield
    except fiopy.FioError as err:
        raise _ours(witness.host.name, err) from err
    except TransportError as err:
        err.add_note(f"{witness.host.name}: the link was lost while fio was run there")
        raise


def _ours(host: str, err: fiopy.FioError) -> KvgateError:
    told = f"{host}: {_command(err)}{err.message}"
    if isinstance(err, fiopy.FioMissing):
        hint = "install the package 'fio' there, or set its path under 'tools'"
        return NotRunError((told,), hint=hint)
    if isinstance(err, fiopy.FioUnfit | fiopy.FioEngineMissing):
        hint = "install a newer fio there, or one with that engine, and set it under 'tools'"
        return NotRunError((told,), hint=hint)
    if isinstance(err, fiopy.FioNoSpace):
        hint = "free some space, or choose a smaller size in the plan"
        return NotRunError((f"{told} (the file system ran full under fio)",), hint=hint)
    if isinstance(err, fiopy.FioOutputError):
        return ParseError(told, hint=err.hint)
    return HarnessError(told, hint=err.hint)


def _command(err: fiopy.FioError) -> str:
    """Return the command that was run, where one was."""
    return f"`{' '.join(err.run.finished.argv)}`: " if err.run else ""
