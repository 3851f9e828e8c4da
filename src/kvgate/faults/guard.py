"""Undoes a fault on its host when we are gone: killed, or cut off, in the midst of it.

The guard is armed before anything is broken. Its left side ends with its leash; the right side,
in a session of its own, then runs the undo until that succeeds, unless it was told to stand down.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

from kvgate.errors import CommandError, NotRunError, TransportError
from kvgate.transport.base import CommandResult
from kvgate.transport.first_line import FirstLine
from kvgate.untrusted import plain
from kvgate.witness import Witness

_ASK_S = 30.0
_ARM_S = 60.0

# $1: seconds that one undo may take, then the undo. Tried again for about ten minutes.
_KEEPER = r"""
trap '' PIPE HUP TERM INT
limit=$1; shift
made=$(mktemp -d "${TMPDIR:-/tmp}/kvgate-fault-XXXXXXXX" 2>&1) && : >"$made/armed" ||
  { echo "not armed: $made"; exit 1; }
echo "armed $made"
exec >/dev/null 2>&1
cat
turn=0
while [ -e "$made/armed" ]; do
  if command -v timeout; then timeout -k 5 "$limit" "$@"; else "$@"; fi && break
  turn=$((turn + 1))
  [ "$turn" -lt 120 ] || break
  sleep 5
done
rm -f -- "$made/armed"
rmdir -- "$made"
"""
_GUARD = r"""
keeper=$1; shift
while :; do sleep 3600; done | setsid sh -c "$keeper" kvgate-fault-guard "$@"
"""
_ARMED = re.compile(rb"armed (/[A-Za-z0-9_./-]{1,200}/kvgate-fault-[A-Za-z0-9]{8})\n")


class Guard:
    """A guard that is armed on a host; it runs the undo when it ends, unless it stands down."""

    def __init__(self, witness: Witness, folder: str) -> None:
        self._witness = witness
        self.folder = folder

    def stand_down(self) -> None:
        """Tell it that the undo has been proven; raises CommandError where it can't be told."""
        self._witness.ask(
            ["rm", "-f", "--", f"{self.folder}/armed"], timeout_s=_ASK_S
        ).result.expect_ok()


@contextlib.contextmanager
def armed(
    witness: Witness, undo: Sequence[str], *, within_s: float, deadline_s: float
) -> Iterator[Guard]:
    """Keep a guard on the host for the block, which runs `undo` there if we are gone.

    It runs it too at the block's end, unless it stood down. At `deadline_s` it ends by itself, and
    undoes. Raises NotRunError where none can be armed, TransportError.
    """
    said = FirstLine()
    argv = ["sh", "-c", _GUARD, "kvgate-fault-guard", _KEEPER, f"{within_s:.0f}", *undo]
    process = witness.transport.start(argv, deadline_s=deadline_s, on_stdout=said.take)
    try:
        line = said.line(_ARM_S, ended=process.poll)
        match = _ARMED.fullmatch(line)
        if match is None:
            told = plain(line.decode("utf-8", "replace")).strip() or "it said nothing"
            raise NotRunError(
                (f"{witness.host.name}: no guard can be armed to undo a fault: {told}",),
                hint="nothing was broken; it needs sh, setsid, mktemp and a /tmp to write to",
            )
        yield Guard(witness, match[1].decode())
    finally:
        with contextlib.suppress(TransportError):
            process.kill()
            process.wait(_ASK_S)


def run(witness: Witness, words: Sequence[str], *, within_s: float) -> CommandResult:
    """Run a fault's command on its host, as root where the inventory allows that.

    Raises TransportError where the host can't be asked, CommandError where it came to no end.
    """
    result = witness.ask(witness.host.as_root(*words), timeout_s=within_s).result
    if result.exit_status is None:
        raise CommandError(
            witness.host.name,
            result.describe(),
            hint="a process in state D ends with nothing but its device or a reset of the host",
        )
    return result
