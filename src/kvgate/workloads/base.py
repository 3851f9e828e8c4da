"""What workloads share: estimates, and a folder on the host that is ours, marked, and removed."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import re
import time
from collections.abc import Callable, Iterator, Sequence

from kvgate.errors import CommandError, NotRunError, ParseError, TransportError
from kvgate.model.record import EvidenceRef
from kvgate.transport.base import CommandResult
from kvgate.transport.first_line import FirstLine
from kvgate.transport.recorded import UnrecordedError
from kvgate.untrusted import plain
from kvgate.witness import Witness, as_evidence

OnProgress = Callable[[str], None]
"""Is told in a phrase what goes on, from any thread; not recorded."""

MARKER = ".kvgate-scratch"
"""The file in a scratch folder whose token proves that the folder is ours to remove."""

_NOT_MADE = "not made: "
_ASK_S = 20.0
_REMOVE_S = 300.0
_GUARD_S = 7 * 24 * 3600.0

# The right side, in a session of its own, makes the folder ($1: its path without the last eight
# characters), marks it with a token, and says both: nothing is made that is not guarded. The left
# side ends with its leash: when we end it, when the link is lost, when we were killed. The right
# side then removes the folder if it is there and its marker is still ours: twice, as a workload
# may be ending just then.
_KEEPER = f"""\
trap '' PIPE HUP
made=$(mktemp -d "$1XXXXXXXX" 2>&1) || {{ echo "{_NOT_MADE}$made"; exit 1; }}
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')
printf %s "$token" 2>/dev/null >"$made/{MARKER}" ||
  {{ rm -f -- "$made/{MARKER}"; rmdir -- "$made"; echo "{_NOT_MADE}$made takes no file"; exit 1; }}
echo "$token $made"
exec >/dev/null 2>&1
cat
[ "$(cat "$made/{MARKER}")" = "$token" ] || exit 0
rm -rf -- "$made"; sleep 3; rm -rf -- "$made"
"""
_GUARD = """\
while :; do sleep 3600; done | setsid sh -c "$2" kvgate-guard "$1"
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """What a workload will take, for `kvgate plan`: seconds about, bytes written at most."""

    seconds: float
    bytes_written: int


@dataclasses.dataclass(frozen=True, slots=True)
class ScratchFolder:
    """A folder on a host that this run made. ``free_bytes`` is what its file system had left."""

    path: str
    free_bytes: int
    evidence: tuple[EvidenceRef, ...]


@contextlib.contextmanager
def scratch_folder(witness: Witness, purpose: str, *, needs_bytes: int) -> Iterator[ScratchFolder]:
    """Make a folder in the host's scratch folder, and remove it on every way out.

    1. the inventory must name a scratch folder that is no device; 2. a guard on the host makes a
    folder of a unique name in it, with a marker, and removes it if we are gone; 3. the file system
    must have room for `needs_bytes`; 4. afterwards, only a folder with that marker is removed.

    A recorded host is asked what was asked then; it has no folder to guard or to remove.
    Raises NotRunError (no scratch, not writable, no room), ParseError, TransportError.
    """
    base = _declared(witness)  # 1.
    with contextlib.ExitStack() as held:
        said = held.enter_context(_guarded(witness, f"{base}/kvgate-{purpose}-"))  # 2.
        path, token = _made(witness, base, purpose, said)
        try:
            room = witness.ask(["df", "-kP", path], timeout_s=_ASK_S)  # 3.
            free = free_bytes(room.stdout)
            _require_room(f"{witness.host.name}: {base}", free, needs_bytes)
            yield ScratchFolder(path, free, (room.ref,))
        except BaseException as err:
            try:
                _remove(witness, path, token)  # 4.
            except TransportError as second:  # the first error is what matters
                err.add_note(
                    f"{path} on {witness.host.name} could not be removed: {second.message}"
                )
            raise
        _remove(witness, path, token)  # 4. before the guard is let go


@contextlib.contextmanager
def _guarded(witness: Witness, stem: str) -> Iterator[bytes]:
    """Keep a guard on the host for the block; yields its first line, which is evidence."""
    argv = ["sh", "-c", _GUARD, "kvgate-guard", stem, _KEEPER]
    if witness.host.transport == "recorded":
        recorded = witness.transport.run(argv, timeout_s=_ASK_S)
        witness.keep(as_evidence(recorded))
        yield recorded.stdout
        return
    first = FirstLine()
    started_at, begun = datetime.datetime.now(datetime.UTC), time.monotonic()
    guard = witness.transport.start(argv, deadline_s=_GUARD_S, on_stdout=first.take)
    try:
        said = first.line(_ASK_S, ended=guard.poll)
        if not said:
            guard.kill()
            how = guard.wait(_ASK_S).describe()
            raise CommandError(witness.host.name, f"no guard of {stem}… could be started: {how}")
        said_after_s = time.monotonic() - begun
        witness.keep(as_evidence(_so_far(witness, argv, said, started_at, said_after_s)))
        yield said
    finally:
        with contextlib.suppress(TransportError):
            guard.kill()
            guard.wait(_ASK_S)


def _so_far(
    witness: Witness,
    argv: Sequence[str],
    said: bytes,
    started_at: datetime.datetime,
    elapsed_s: float,
) -> CommandResult:
    """Return what a process that still runs has said; a kill of ours must not cost it."""
    return CommandResult(
        host=witness.host.name,
        argv=tuple(argv),
        exit_status=None,
        stdout=said,
        stderr=b"",
        started_at=started_at,
        elapsed_s=elapsed_s,
    )


def _declared(witness: Witness) -> str:
    """Return the declared scratch folder without trailing slashes."""
    scratch = (witness.host.scratch or "").rstrip("/")
    where = witness.host.name
    if not scratch:
        raise NotRunError(
            (f"{where}: the inventory names no scratch folder",),
            hint="add 'scratch: /a/folder' to the host; files are made only there",
        )
    parts = scratch.split("/")
    if (
        parts[0]
        or ".." in parts
        or parts[1] in ("proc", "sys")
        or (parts[1] == "dev" and parts[2:3] != ["shm"])
    ):
        raise NotRunError(
            (f"{where}: '{scratch}' is no folder for files",),
            hint="name a folder by its full path, not below /dev, /proc or /sys",
        )
    return scratch


_SAID = re.compile(rb"([0-9a-f]{32}) ([^\n]+)\n")


def made_folder(argv: Sequence[str], said: bytes) -> tuple[str, str] | None:
    """Return (path without its last eight characters, path) of the folder that a guard made.

    None where `argv` is not a guard's command, or it made none.
    """
    match = _SAID.fullmatch(said)
    if len(argv) != 6 or list(argv[:4]) != ["sh", "-c", _GUARD, "kvgate-guard"] or not match:
        return None
    path, stem = match[2].decode("utf-8", "replace"), argv[4]
    unique = path[len(stem) :]
    if not path.startswith(stem) or not re.fullmatch(r"[A-Za-z0-9]{8}", unique, re.ASCII):
        return None
    return stem, path


def _made(witness: Witness, base: str, purpose: str, said: bytes) -> tuple[str, bytes]:
    """Return the folder and its token; raises NotRunError where it was not made, ParseError."""
    host, stem = witness.host.name, f"{base}/kvgate-{purpose}-"
    if said.startswith(_NOT_MADE.encode()):
        why = plain(said[len(_NOT_MADE) :].decode("utf-8", "replace")).strip()
        raise NotRunError(
            (f"{host}: {why}",),
            hint=f"make {base} there and let this login write to it; one that is mounted read-only "
            "can't be used: remount it (rw), or name another",
        )
    made = made_folder(["sh", "-c", _GUARD, "kvgate-guard", stem, _KEEPER], said)
    if made is None:
        raise ParseError(f"{host}: the guard answered {said[:80]!r}, not {stem}…")
    return made[1], said[:32]


def _remove(witness: Witness, path: str, token: bytes) -> None:
    """Remove the folder if its marker holds our token; raises CommandError if it stays."""
    try:
        _removed(witness, path, token)
    except UnrecordedError:
        return  # kvgate was killed before it removed the folder: then its guard did


def _removed(witness: Witness, path: str, token: bytes) -> None:
    host = witness.host.name
    try:
        there = witness.ask(["cat", f"{path}/{MARKER}"], timeout_s=_ASK_S, cap_bytes=4096).stdout
    except UnrecordedError:
        raise
    except CommandError as err:
        raise CommandError(
            host,
            f"{path} has lost its marker and is left as it is",
            hint="look at it and remove it by hand",
        ) from err
    if there != token:
        raise CommandError(host, f"{path} is not the folder this run made; it is left as it is")
    witness.ask(["rm", "-rf", "--", path], timeout_s=_REMOVE_S).result.expect_ok()


def _require_room(where: str, free: int, needs: int) -> None:
    if free < needs:
        raise NotRunError(
            (f"{where} has {free / 1e9:.2f} GB free, the workload needs {needs / 1e9:.2f} GB",),
            hint="free some space, choose another scratch folder, or a smaller size in the plan",
        )


_DF_LINE = re.compile(r"\s(\d{1,20})\s+(\d{1,20})\s+(\d{1,20})\s+\d{1,3}%\s+/", re.ASCII)


def free_bytes(answer: bytes) -> int:
    """Return the bytes available by `df -kP` (POSIX: 1024-byte units); raises ParseError."""
    lines = answer.decode("utf-8", "replace").splitlines()
    match = _DF_LINE.search(lines[1]) if len(lines) == 2 else None
    if not match or "1024" not in lines[0]:
        raise ParseError(f"df -kP: {answer[:120]!r} is not one file system in 1024-byte units")
    return int(match[3]) * 1024
