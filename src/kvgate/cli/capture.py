"""The verb capture: a site's own workload as a trace without its texts."""

from __future__ import annotations

import argparse
import os
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kvgate.errors import KvgateError, UsageError

if TYPE_CHECKING:
    from kvgate.kv.capture import Blinder, Writer

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def capture_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Write a trace of logs, or of what passes through, without any text."""
    from kvgate.kv.capture import Blinder, Writer
    from kvgate.kv.trace_tokens import encoder

    tokenizer = Path(arguments.tokenizer) if arguments.tokenizer else None
    blinder = Blinder(arguments.block, encoder(tokenizer))
    with _new(arguments.out) as file:
        writer = Writer(file, arguments.block)
        if arguments.proxy:
            uncounted = _pass(arguments, blinder, writer)
        else:
            uncounted = 0
            try:
                _logs(arguments, blinder, writer)
            except KvgateError:
                Path(arguments.out).unlink()  # a part of a log is no trace; the next try may write
                raise
    told = f"; {uncounted} too large, or cut off, to be in it" if uncounted else ""
    print(f"{arguments.out}: {writer.count} requests{told}; the salt is gone", file=sys.stderr)
    if not writer.count:
        print(
            f"kvgate: no request with a prompt was seen: {arguments.out} is empty", file=sys.stderr
        )
        return 2
    return 0


def _logs(arguments: argparse.Namespace, blinder: Blinder, writer: Writer) -> None:
    from kvgate.kv.capture import Seen, in_order
    from kvgate.kv.capture_logs import access_log, engine_log

    def seen() -> Iterator[Seen]:
        for name in arguments.access_log or ():
            yield from access_log(Path(name), blinder)
        for name in arguments.engine_log or ():
            yield from engine_log(Path(name), blinder)

    for each in in_order(seen()):
        writer.write(each)


def _new(path: str) -> IO[bytes]:
    """Open a new file that only its owner can read; raises UsageError."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}; nothing was captured") from err


def _pass(arguments: argparse.Namespace, blinder: Blinder, writer: Writer) -> int:
    """Pass requests through until stopped; return how many could not be counted."""
    from aiohttp import web

    from kvgate.serving.passthrough import Passthrough

    host, port = listening(arguments.listen)
    upstream = urllib.parse.urlsplit(arguments.proxy)
    if upstream.scheme not in ("http", "https") or not upstream.hostname:
        raise UsageError(f"--proxy: '{arguments.proxy}' is no http://HOST:PORT")
    proxy = Passthrough(arguments.proxy, blinder, writer)
    if host not in LOOPBACK:
        print(f"kvgate: listening beyond this machine, on {host}", file=sys.stderr)

    def told(_text: str) -> None:
        also = f"{arguments.proxy} is also at {host}:{port}"
        print(f"kvgate: {also}; Ctrl-C ends it", file=sys.stderr)

    try:
        web.run_app(
            proxy.application(), host=host, port=port, print=told, access_log=None,
            shutdown_timeout=5, handle_signals=True,
        )  # fmt: skip
    except OSError as err:
        raise UsageError(f"--listen {host}:{port}: {err.strerror or err}") from err
    return proxy.uncounted


def listening(text: str) -> tuple[str, int]:
    """Return where to listen, loopback unless a host is told; raises UsageError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not int(port) < 65536:
        raise UsageError(f"--listen: '{text}' is no [HOST:]PORT")
    return host.strip("[]") or LOOPBACK[0], int(port)
