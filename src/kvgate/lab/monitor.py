"""QEMU's monitor (QMP): cables, resets and drives are pulled by it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvgate.errors import HarnessError

_ANSWER_S = 15.0


def execute(folder: Path, command: str, **arguments: object) -> Any:
    """Run one QMP command on the machine of `folder` and return what it returns.

    Raises HarnessError where the machine does not answer, or refuses.
    """
    request = {"execute": command, **({"arguments": arguments} if arguments else {})}
    try:
        with _connected(folder) as stream:
            answers = _answers(stream)
            next(answers)  # its greeting
            for words in ({"execute": "qmp_capabilities"}, request):
                stream.sendall(json.dumps(words).encode() + b"\n")
                told = next(each for each in answers if "event" not in each)
                if "error" in told:
                    why = told["error"].get("desc", told["error"])
                    raise HarnessError(f"lab: {folder.name}: {command}: {why}")
    except (OSError, StopIteration, ValueError) as err:
        raise HarnessError(
            f"lab: {folder.name}: its monitor does not answer: {str(err) or 'it hung up'}",
            hint="see `kvgate lab status`",
        ) from err
    return told["return"]


@contextlib.contextmanager
def _connected(folder: Path) -> Iterator[socket.socket]:
    """Yield the monitor's stream; its path may be longer than a socket's address may be."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(_ANSWER_S)
            stream.connect(f"/proc/self/fd/{place}/qmp")
            yield stream
    finally:
        os.close(place)


def _answers(stream: socket.socket) -> Iterator[dict[str, Any]]:
    """Yield what the monitor says, a line each; ends where it hangs up or is silent too long."""
    held, until = b"", time.monotonic() + _ANSWER_S
    while time.monotonic() < until:
        piece = stream.recv(65536)
        if not piece:
            return
        held += piece
        while b"\n" in held:
            line, _, held = held.partition(b"\n")
            yield json.loads(line)
