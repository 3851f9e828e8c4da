"""Connections to one endpoint, kept alive: a request out, its answer's bytes in, with times."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from typing import Protocol, cast

from kvgate.errors import ParseError
from kvgate.load.http1 import Response
from kvgate.load.rows import Failure

IDLE_MOST_S = 2.0
"""How long an unused connection is used again. uvicorn, under vLLM, closes it after 5 s
(``--timeout-keep-alive``), and nothing is sent on one that may be closing: it would be lost."""

SWEEP_S = 0.02
"""How often it is looked whose time is up."""

PIECE_BYTES = 64 * 2**10
"""How much of a request is written at once: others' events wait for no more than that."""


class Enough(Exception):
    """A receiver wants no more of a body: the response counts as ended, its connection is."""


class Receiver(Protocol):
    """Takes what comes of one request; exactly one of `ended` and `failed` is its last call."""

    def head(self, response: Response) -> None:
        """Take the response's status and headers."""

    def body(self, piece: bytes, at: float) -> None:
        """Take a piece of the body that arrived at monotonic `at`.

        ParseError fails the request with its message; Enough ends it.
        """

    def ended(self) -> None:
        """Take the end of a whole response."""

    def failed(self, failure: Failure, error: str) -> None:
        """Take the reason that no more will come."""


class Connection(asyncio.Protocol):
    """One connection; carries one request at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._response = Response()
        self._writable = asyncio.Event()
        self._headed = False
        self._sending = False
        self.used_until = 0.0
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, once connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=PIECE_BYTES)
        self._writable.set()
        self.open = True

    def pause_writing(self) -> None:
        """Hold back what is still to be sent."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Go on with what is still to be sent."""
        self._writable.set()

    async def send(self, request: bytes, receiver: Receiver) -> None:
        """Send `request`, in pieces as the endpoint takes them; what comes goes to `receiver`."""
        self._receiver, self._response, self._headed = receiver, Response(), False
        transport = cast("asyncio.Transport", self._transport)
        if len(request) <= PIECE_BYTES:
            transport.write(request)
            return
        self._sending = True
        view = memoryview(request)
        for at in range(0, len(request), PIECE_BYTES):
            await self._writable.wait()
            if self._receiver is not receiver:  # answered, or lost, before all was sent
                return
            transport.write(bytes(view[at : at + PIECE_BYTES]))
            await asyncio.sleep(0)
        self._sending = False

    def data_received(self, data: bytes) -> None:
        """Take what has come; the time is taken before anything is done with it."""
        at = time.monotonic()
        receiver, response = self._receiver, self._response
        if receiver is None:  # nothing was asked
            self.abort()
            return
        try:
            pieces = response.feed(data)
            if not self._headed and response.status is not None:
                self._headed = True
                receiver.head(response)
            if pieces:  # all came at one time
                receiver.body(pieces[0] if len(pieces) == 1 else b"".join(pieces), at)
        except ParseError as err:
            self._fail(Failure.PROTOCOL, err.message)
            return
        except Enough:
            self.abort()
            receiver.ended()
            return
        if response.complete and self._receiver is receiver:
            self._finish(receiver)

    def eof_received(self) -> None:
        """Take the end of what the endpoint sends: the connection is closed."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the connection's end, and tell what it cut off."""
        self.open = False
        self._pool.lost(self)
        self._writable.set()  # whoever waits to write sees that nobody receives
        receiver = self._receiver
        if receiver is None:
            return
        cut = self._response.end()
        if not cut and exc is None:
            self._finish(receiver)
            return
        why = f": {type(exc).__name__}: {exc}" if exc is not None else ""
        if self._response.status is None and not self._headed:
            self._fail(Failure.CONNECTION, f"the connection ended {cut}{why}")
        else:
            self._fail(Failure.TRUNCATED, f"the connection ended in mid-answer, {cut}{why}")

    def abort(self) -> None:
        """End the connection at once; what was under way is told nothing more."""
        self._receiver = None
        self.open = False
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()

    def _finish(self, receiver: Receiver) -> None:
        self._receiver = None
        if self._response.keep_alive and self.open and not self._sending:
            self.used_until = time.monotonic()
            self._pool.take_back(self)
        else:
            self.abort()
        receiver.ended()

    def _fail(self, failure: Failure, error: str) -> None:
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            receiver.failed(failure, error)


class Pool:
    """The connections to one address. Lookups are done once; nothing is read from the environment.

    A connection that was used last is used first, so that those that are too many grow old.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._addresses: list[str] = []
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._waiting: dict[Connection, tuple[float, Callable[[], None]]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    def wait(self, connection: Connection, deadline: float, expire: Callable[[], None]) -> None:
        """Have `expire` called once the loop's time is past `deadline`, unless `waited` is before.

        One timer looks after all of them, to `SWEEP_S`.
        """
        self._waiting[connection] = (deadline, expire)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def waited(self, connection: Connection) -> None:
        """Take back what `wait` asked for."""
        self._waiting.pop(connection, None)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        late = [each for each, (deadline, _) in self._waiting.items() if deadline <= now]
        for connection in late:
            self._waiting.pop(connection)[1]()
        self._sweeper = loop.call_later(SWEEP_S, self._sweep) if self._waiting else None

    def idle(self) -> Connection | None:
        """Return an open connection that nobody uses, None if there is none fresh enough."""
        while self._idle:
            connection = self._idle.pop()
            if connection.open and time.monotonic() - connection.used_until <= IDLE_MOST_S:
                return connection
            connection.abort()
        return None

    def take_back(self, connection: Connection) -> None:
        """Take a connection whose request has ended, for the next one."""
        self._idle.append(connection)

    def lost(self, connection: Connection) -> None:
        """Take the end of a connection."""
        self._all.discard(connection)

    async def connect(self) -> Connection:
        """Return a new connection; raises OSError (ssl.SSLError too) where there can be none."""
        loop = asyncio.get_running_loop()
        if not self._addresses:
            found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            self._addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        last: OSError | None = None
        for address in self._addresses:
            try:
                _, connection = await loop.create_connection(
                    lambda: Connection(self),
                    address,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )
            except ssl.SSLError:
                raise
            except OSError as err:
                last = err
            else:
                self._all.add(connection)
                return connection
        raise last or OSError(f"{self._host} has no address")

    def close(self) -> None:
        """End every connection."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self._all):
            connection.abort()
        self._all.clear()
        self._idle.clear()
