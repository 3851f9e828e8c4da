"""A reverse proxy that passes requests through untouched and keeps a trace without their texts.

Bytes go on as they come, both ways; a copy of a request's body is held, up to a limit a request
and in all, until it is hashed, and then dropped. What is too large goes through uncounted in the
trace, and is told at the end. Nothing of a header is kept.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web
from aiohttp.client_exceptions import ClientError
from multidict import CIMultiDict
from yarl import URL

from kvgate.kv.capture import Blinder, Seen, Writer
from kvgate.kv.capture_logs import seen_of

MOST_BODY = 32 * 2**20
"""Bytes of a body that is hashed, at most."""

MOST_HELD = 8 * MOST_BODY
"""Bytes of all bodies held at once, at most."""

TAIL = 16 * 1024
"""Bytes of the end of an answer in which its usage is looked for."""

_HOP = re.compile(
    "connection|keep-alive|proxy-authenticate|proxy-authorization|t[e]|trailer|transfer-encoding|"
    "upgrade|host",
    re.IGNORECASE,
)
_USAGE = re.compile(rb'"completion_tokens"\s*:\s*(\d{1,9})')


@dataclasses.dataclass(slots=True)
class _Request:
    """One request on its way: when it came, its body's copy, and what its answer tells."""

    time_s: float
    body: bytearray | None = dataclasses.field(default_factory=bytearray)
    events: int = 0
    tail: bytes = b""
    done: bool = False
    seen: Seen | None = None


class Passthrough:
    """Passes requests on to `upstream` (``http://host:port``), and writes what it saw in order."""

    def __init__(self, upstream: str, blinder: Blinder, writer: Writer) -> None:
        self._upstream = upstream.rstrip("/")
        self._blinder, self._writer = blinder, writer
        self._queue: deque[_Request] = deque()
        self._held = 0
        self.passed = self.uncounted = 0

    async def _session(self, _app: web.Application) -> AsyncIterator[None]:
        connector = TCPConnector(limit=0)
        async with ClientSession(
            connector=connector, timeout=ClientTimeout(total=None), auto_decompress=False
        ) as self._client:
            yield

    def application(self) -> web.Application:
        """Return it as an application of aiohttp."""
        app = web.Application(client_max_size=0)
        app.cleanup_ctx.append(self._session)
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.passed += 1
        kept = _Request(time.monotonic())
        self._queue.append(kept)
        try:
            return await self._pass(request, kept)
        finally:
            await self._finish(kept)

    async def _pass(self, request: web.Request, kept: _Request) -> web.StreamResponse:
        body = self._copied(request, kept) if request.can_read_body else None
        headers = _onward(request.headers)
        try:
            async with self._client.request(
                request.method, URL(self._upstream + request.raw_path, encoded=True),
                headers=headers, data=body, allow_redirects=False,
            ) as answer:  # fmt: skip
                back = web.StreamResponse(status=answer.status, reason=answer.reason)
                back.headers.extend(_onward(answer.headers))
                await back.prepare(request)
                async for piece in answer.content.iter_any():
                    await back.write(piece)
                    _look(kept, piece)
                await back.write_eof()
                return back
        except ClientError as err:
            raise web.HTTPBadGateway(text=f"{type(err).__name__}: no answer behind kvgate") from err

    async def _copied(self, request: web.Request, kept: _Request) -> AsyncIterator[bytes]:
        """Yield a request's body as it comes, and copy it while there is room."""
        async for piece in request.content.iter_any():
            if kept.body is not None:
                kept.body += piece
                self._held += len(piece)
                if len(kept.body) > MOST_BODY or self._held > MOST_HELD:
                    self._drop(kept)
            yield piece

    def _drop(self, kept: _Request) -> None:
        if kept.body is not None:
            self._held -= len(kept.body)
            kept.body = None

    async def _finish(self, kept: _Request) -> None:
        """Hash what was copied, off the loop, and write whatever is now first in line."""
        body = None if kept.body is None else bytes(kept.body)
        if body is None:
            self.uncounted += 1
        elif body:
            output = _output(kept)
            made = asyncio.get_running_loop().run_in_executor(
                None, hashed, self._blinder, kept.time_s, body, output
            )
            kept.seen = await asyncio.shield(made)
        self._drop(kept)
        kept.done = True
        while self._queue and self._queue[0].done:
            first = self._queue.popleft()
            if first.seen is not None:
                self._writer.write(first.seen)


def hashed(blinder: Blinder, time_s: float, body: bytes, output: int) -> Seen | None:
    """Return what is written of a body; None where it is no request with a prompt."""
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return seen_of(blinder, time_s, value, output) if type(value) is dict else None


def _look(kept: _Request, piece: bytes) -> None:
    """Count what an answer puts out: events of a stream, and the end where its usage stands."""
    kept.events += piece.count(b"data:")
    kept.tail = (kept.tail + piece)[-TAIL:]


def _output(kept: _Request) -> int:
    """Return the tokens of an answer by its usage, else its events without the closing one."""
    found = _USAGE.findall(kept.tail)
    return int(found[-1]) if found else max(0, kept.events - 1)


def _onward(headers: Any) -> CIMultiDict[str]:
    """Return the headers that go on: all but those that are of one connection."""
    return CIMultiDict((name, text) for name, text in headers.items() if not _HOP.fullmatch(name))
