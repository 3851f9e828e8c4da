"""Long programs of the lab as children on the leash: a SIGKILL of kvgate ends them as well."""

from __future__ import annotations

import os
import selectors
import subprocess
from collections.abc import Sequence

from kvgate.errors import HarnessError
from kvgate.lab.needs import PATH
from kvgate.lab.progress import Say, Waiting
from kvgate.transport import leash

_KEPT = 4000
_LIMIT_S = 3600.0


def run(argv: Sequence[str], *, waiting: Waiting, say: Say) -> None:
    """Run `argv` to its end, saying its lines as they come; raises HarnessError where it fails."""
    words = leash.command("lab", argv, deadline_s=_LIMIT_S, env={"PATH": PATH, "LC_ALL": "C"})
    child = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,  # the leash: it ends what it runs once this is closed
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        told = _told(child, waiting, say)
    finally:
        if child.stdin:
            child.stdin.close()
        status = child.wait(60)
        if child.stdout:
            child.stdout.close()
    if status != 0:
        last = told[-1200:].decode("utf-8", "replace").strip()
        raise HarnessError(f"lab: `{argv[0]} … {argv[-1]}` exited {status}: {last}")


def _told(child: subprocess.Popen[bytes], waiting: Waiting, say: Say) -> bytes:
    """Return the end of what `child` printed until it closed its output."""
    if child.stdout is None:
        raise HarnessError("lab: a child without an output")
    kept = rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(0.5):
                waiting.pause()
                continue
            piece = os.read(child.stdout.fileno(), 65536)
            if not piece:
                return kept
            kept = (kept + piece)[-_KEPT:]
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                say(line.decode("utf-8", "replace"))
