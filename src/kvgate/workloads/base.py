"""What workloads share: estimates, and a folder on the host that is ours, marked, and removed."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
from collections.abc import Callable, Iterator

from kvgate.errors import CommandError, NotRunError, ParseError, TransportError
from kvgate.model.record import EvidenceRef
from kvgate.witness import Witness, as_evidence

OnProgress = Callable[[str], None]
"""Is told in a phrase what goes on, from any thread; not recorded."""

MARKER = ".kvgate-scratch"
"""The file in a scratch folder whose token proves that the folder is ours to remove."""

_TOKEN_DIGITS = 32
_ASK_S = 20.0
_REMOVE_S = 300.0
_GUARD_S = 7 * 24 * 3600.0

# $1: the folder, $2: its token. The left side ends with its leash: when we end it, when the link
# is lost, when we were killed. The right side, in a session of its own, then removes the folder if
# it is there and its marker is still ours: twice, as a workload may be ending just then.
_REMOVER = f"""\
echo ready
exec >/dev/null 2>&1
cat
[ "$(cat "$1/{MARKER}")" = "$2" ] || exit 0
rm -rf -- "$1"; sleep 3; rm -rf -- "$1"
"""
_GUARD = """\
while :; do sleep 3600; done | setsid sh -c "$3" kvgate-guard "$1" "$2"
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

    1. the inventory must name a scratch folder that is no device; 2. `mktemp` makes a folder of a
    unique name in it; 3. a marker goes in whose token is from the evidence of that; 4. the file
    system must have room for `needs_bytes`; 5. a guard on the host removes it if we are gone;
    6. afterwards, only a folder whose marker holds that token is removed.

    Raises NotRunError (no scratch, not writable, no room), ParseError, TransportError.
    """
    base = _declared(witness)  # 1.
    path, token = _make(witness, base, purpose)  # 2.
    with contextlib.ExitStack() as held:
        try:
            witness.transport.write_file(f"{path}/{MARKER}", token)  # 3.
            room = witness.ask(["df", "-kP", path], timeout_s=_ASK_S)  # 4.
            free = free_bytes(room.stdout)
            _require_room(f"{witness.host.name}: {base}", free, needs_bytes)
            held.enter_context(_guarded(witness, path, token))  # 5.
            yield ScratchFolder(path, free, (room.ref,))
        except BaseException as err:
            try:
                _remove(witness, path, token)  # 6.
            except TransportError as second:  # the first error is what matters
                err.add_note(
                    f"{path} on {witness.host.name} could not be removed: {second.message}"
                )
            raise
        _remove(witness, path, token)  # 6. before the guard is let go


@contextlib.contextmanager
def _guarded(witness: Witness, path: str, token: bytes) -> Iterator[None]:
    """Keep a guard on the host for the block: it ends without removing anything when we end it."""
    ready = threading.Event()
    guard = witness.transport.start(
        ["sh", "-c", _GUARD, "kvgate-guard", path, token.decode("ascii"), _REMOVER],
        deadline_s=_GUARD_S,
        on_stdout=lambda _: ready.set(),
    )
    if not ready.wait(_ASK_S):
        guard.kill()
        raise CommandError(witness.host.name, f"the guard of {path} did not start")
    try:
        yield
    finally:
        with contextlib.suppress(TransportError):
            guard.kill()
            witness.keep(as_evidence(guard.wait(_ASK_S)))


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


def _make(witness: Witness, base: str, purpose: str) -> tuple[str, bytes]:
    """Return the folder and its token, which no other folder has: of the answer that made it."""
    name = f"{base}/kvgate-{purpose}-"
    made = witness.ask(["mktemp", "-d", f"{name}XXXXXXXX"], timeout_s=_ASK_S)
    if not made.result.ok:
        raise NotRunError(
            (made.result.describe() + f" ({witness.host.name})",),
            hint=f"make {base} there and let this login write to it",
        )
    path = made.stdout.decode("utf-8", "replace").rstrip("\n")
    if not (path.startswith(name) and re.fullmatch(r"[A-Za-z0-9]{8}", path[len(name) :], re.ASCII)):
        raise ParseError(f"{witness.host.name}: mktemp answered {path[:80]!r}, not {name}…")
    return path, made.ref[:_TOKEN_DIGITS].encode("ascii")


def _remove(witness: Witness, path: str, token: bytes) -> None:
    """Remove the folder if its marker holds our token; raises CommandError if it stays."""
    host = witness.host.name
    try:
        there = witness.ask(["cat", f"{path}/{MARKER}"], timeout_s=_ASK_S, cap_bytes=4096).stdout
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
