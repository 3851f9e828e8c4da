"""Frames between a controller and its workers: a JSON header and bytes, each by its length.

Nothing in a frame is executed, whoever wrote it; a frame over the limits ends the reading.
"""

from __future__ import annotations

import datetime
import json
import struct
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from kvgate.errors import (
    CommandError,
    HostKeyError,
    HostUnreachableError,
    KvgateError,
    LoginError,
    TransportError,
)
from kvgate.transport.base import CommandResult
from kvgate.untrusted import known_as

_LENGTHS = struct.Struct(">II")
_MOST_HEADER = 4 * 2**20
_MOST_BODY = 2**30
_ERRORS: dict[str, type[TransportError]] = {
    kind.__name__: kind for kind in (HostUnreachableError, HostKeyError, LoginError, CommandError)
}

Header = dict[str, Any]


class Sender:
    """Writes frames to a stream, whole and in turn, from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, header: Header, *body: bytes) -> None:
        """Write one frame; raises OSError where nobody reads."""
        head = json.dumps(header, separators=(",", ":")).encode("ascii")
        lengths = _LENGTHS.pack(len(head), sum(map(len, body)))
        with self._lock:
            self._stream.write(b"".join((lengths, head, *body)))
            self._stream.flush()


def received(stream: BinaryIO) -> Iterator[tuple[Header, bytes]]:
    """Yield frames until the stream ends; one that is torn, or no frame, ends it too."""
    while True:
        lengths = stream.read(_LENGTHS.size)
        if len(lengths) < _LENGTHS.size:
            return
        head_bytes, body_bytes = _LENGTHS.unpack(lengths)
        if head_bytes > _MOST_HEADER or body_bytes > _MOST_BODY:
            return
        head, body = stream.read(head_bytes), stream.read(body_bytes)
        if len(head) < head_bytes or len(body) < body_bytes:
            return
        header = json.loads(head)
        if not isinstance(header, dict):
            return
        yield header, body


def told(result: CommandResult, argv: list[str]) -> Header:
    """Return the header of a result; its stdout and stderr are the frame's body.

    ``free_of`` is the digest of the secrets that were searched for in vain.
    """
    count, secrets = known_as()
    return {
        "argv": None if list(result.argv) == argv else list(result.argv),
        "exit_status": result.exit_status,
        "out": len(result.stdout),
        "started_at": result.started_at.isoformat(),
        "elapsed_s": result.elapsed_s,
        "timed_out": result.timed_out,
        "stdout_dropped": result.stdout_dropped,
        "stderr_dropped": result.stderr_dropped,
        "signal": result.signal,
        "masked": result.masked,
        "free_of": secrets if result.free_of == count else None,
    }


def result_of(header: Header, body: bytes, host: str, argv: tuple[str, ...]) -> CommandResult:
    """Return the result that `told` made a header of; raises KeyError for another header.

    Where this process knows other secrets than that one, it is searched for them again.
    """
    out = header["out"]
    count, secrets = known_as()
    return CommandResult(
        host=host,
        argv=argv if header["argv"] is None else tuple(header["argv"]),
        exit_status=header["exit_status"],
        stdout=body[:out],
        stderr=body[out:],
        started_at=datetime.datetime.fromisoformat(header["started_at"]),
        elapsed_s=header["elapsed_s"],
        timed_out=header["timed_out"],
        stdout_dropped=header["stdout_dropped"],
        stderr_dropped=header["stderr_dropped"],
        signal=header["signal"],
        masked=header["masked"],
        free_of=count if header["free_of"] == secrets else None,
    )


def failed(err: BaseException) -> Header:
    """Return the header of an error that kept a command from having a result."""
    if not isinstance(err, KvgateError):
        return {"error": "", "message": f"{type(err).__name__}: {err}", "hint": ""}
    host = err.host if isinstance(err, TransportError) else ""
    return {
        "error": type(err).__name__,
        "host": host,
        "message": err.message.removeprefix(f"{host}: "),
        "hint": err.hint,
    }


def error_of(header: Header, host: str) -> KvgateError:
    """Return the error that `failed` made a header of, of the same class where it is a host's."""
    kind = _ERRORS.get(header["error"])
    if kind is not None:
        return kind(header["host"], header["message"], hint=header["hint"])
    return CommandError(host, f"kvgate broke: {header['message']}", hint=header["hint"])
