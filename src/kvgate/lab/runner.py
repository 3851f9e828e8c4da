"""Long programs of the lab on the leash: a SIGKILL of kvgate ends them as well."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from kvgate.errors import HarnessError
from kvgate.lab.needs import PATH
from kvgate.lab.progress import Say, Waiting
from kvgate.transport.local import LocalTransport

_LIMIT_S = 3600.0
_ENDED_S = 60.0
_TOGETHER = ("sh", "-c", 'exec "$@" 2>&1', "sh")
_ENV = {"PATH": PATH, "LC_ALL": "C"}


def run(argv: Sequence[str], *, waiting: Waiting, say: Say) -> None:
    """Run `argv` to its end, saying its lines as they come; raises HarnessError where it fails."""
    rest = b""

    def take(piece: bytes) -> None:
        nonlocal rest
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            say(line.decode("utf-8", "replace"))

    with contextlib.closing(LocalTransport("lab")) as here:
        child = here.start([*_TOGETHER, *argv], deadline_s=_LIMIT_S, on_stdout=take, env=_ENV)
        while not child.poll():
            waiting.pause()
        done = child.wait(_ENDED_S)
    if done.exit_status != 0:
        status = done.signal + 128 if done.signal else done.exit_status  # as shells have it
        last = done.stdout[-1200:].decode("utf-8", "replace").strip()
        raise HarnessError(f"lab: `{argv[0]} … {argv[-1]}` exited {status}: {last}")
