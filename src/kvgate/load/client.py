"""Sends one request and makes a row of it, whatever happens."""

from __future__ import annotations

import asyncio
import datetime
import errno
import json
import ssl
import time
from typing import Any

from kvgate.errors import ParseError
from kvgate.load.endpoint import Endpoint as Endpoint
from kvgate.load.http1 import Response
from kvgate.load.rows import Failure, Request, Row
from kvgate.load.source import Told
from kvgate.load.sse import SseParser
from kvgate.load.stream import Answer
from kvgate.load.wire import Connection, Enough, Pool
from kvgate.untrusted import mask, plain

ERROR_BODY_CAP_BYTES = 2048
ANSWER_CAP_BYTES = 4 * 2**20
TOKEN_CAP_BYTES = 16 * 2**10
"""The most an answer may hold: so much, and so much a token; an event of one takes 0.2 to 1 kB."""


HELD_BYTES = 256 * 2**10
"""How much of an answer is held before it is read."""


class Exchange:
    """One request's answer as it arrives; `over` is set at its end, whatever that is.

    What arrives is held with its time and read at the end, so that reading one answer does not
    make others' tokens wait.
    """

    def __init__(self, answer: Answer, begun: float, asked_tokens: int) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failure: tuple[Failure, str] | None = None
        self._answer = answer
        self._begun = begun
        self._parser = SseParser()
        self._room = ANSWER_CAP_BYTES + asked_tokens * TOKEN_CAP_BYTES
        self._refused: Response | None = None
        self._said = b""
        self._held: list[bytes] = []
        self._held_at: list[float] = []
        self._held_bytes = 0

    def head(self, response: Response) -> None:
        """Take the head: anything but a stream is refused, in its own words."""
        if response.status != 200 or response.content_type != "text/event-stream":
            self._refused = response

    def body(self, piece: bytes, at: float) -> None:
        """Fold a piece of the stream into the answer; raises ParseError for what is no stream."""
        if self._refused is not None:
            self._said += piece[:ERROR_BODY_CAP_BYTES]
            if len(self._said) >= ERROR_BODY_CAP_BYTES:
                raise Enough
            return
        self._room -= len(piece)
        if self._room < 0:
            raise ParseError("an answer that is far longer than what was asked for")
        self._held.append(piece)
        self._held_at.append(at)
        self._held_bytes += len(piece)
        if self._held_bytes > HELD_BYTES:
            self._read()

    def ended(self) -> None:
        """Take the whole response's end."""
        self._end()
        if self._refused is None and not self._parser.close() and not self._answer.done:
            self._note(Failure.TRUNCATED, "the answer ended in mid-event: an event was cut off")

    def failed(self, failure: Failure, error: str) -> None:
        """Take the reason that no more will come."""
        self._end()
        self._note(failure, error)

    def _note(self, failure: Failure, error: str) -> None:
        """Keep the first failure."""
        if self.failure is None:
            self.failure = (failure, error)

    def _read(self) -> None:
        """Fold what is held into the answer; raises ParseError for what is no stream."""
        held, held_at = self._held, self._held_at
        self._held, self._held_at, self._held_bytes = [], [], 0
        add, begun = self._answer.add, self._begun
        for data, at in self._parser.feed_all(held, held_at):
            add(data, at - begun)

    def _end(self) -> None:
        if self._refused is not None:
            self._note(Failure.HTTP, refusal(self._refused, self._said))
        else:
            try:
                self._read()
            except ParseError as err:
                self._note(Failure.PROTOCOL, err.message)
        if not self.over.done():
            self.over.set_result(None)


def refusal(response: Response, said: bytes) -> str:
    """Return what an endpoint answered that is no stream of events, for people."""
    text = said[:ERROR_BODY_CAP_BYTES].decode("utf-8", "replace")
    try:
        fields = json.loads(text)
        error = fields.get("error", fields)
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, AttributeError, RecursionError):
        pass  # no JSON of OpenAI's: told as it is
    what = f"{response.status} {response.content_type or 'without a type'}"
    if response.status is not None and 300 <= response.status < 400:
        where = response.headers.get("location", "nowhere")
        what += f": a redirect to {where[:200]!r}, which is not followed"
    return f"{what}: {text[:300]}"


async def send(
    pool: Pool,
    endpoint: Endpoint,
    request: Request,
    *,
    origin: float,
    due: float | None = None,
    encoded: bytes | None = None,
) -> tuple[Row, Told]:
    """Send `request`; return its row and what its answer held.

    The clock runs from `due` or, without it, from before the connection is asked for; `origin` is
    the monotonic start of the load. `encoded` is the request as it goes out, where it was made
    ready. Only cancellation, and a request that can't be written, come out as exceptions.
    """
    encoded = endpoint.request(request) if encoded is None else encoded
    answer = Answer()
    sent_at, sent = datetime.datetime.now(datetime.UTC), time.monotonic()
    begun = sent if due is None else due
    exchange = Exchange(answer, begun, request.output_tokens)
    await _exchange(pool, endpoint, encoded, exchange)
    end_s = time.monotonic() - begun
    failure = _judged(answer, exchange, request)
    row = Row(
        session=request.session,
        sent_at=sent_at,
        sent_s=sent - origin,
        end_s=end_s,
        failure=failure[0] if failure else None,
        error=_harmless(failure[1], endpoint) if failure else "",
        turn=request.turn,
        due_s=None if due is None else due - origin,
        asked_tokens=request.output_tokens,
        **_of_answer(answer),
    )
    return row, _told(answer, request)


def _of_answer(answer: Answer) -> dict[str, Any]:
    """Return the part of a row that the answer tells."""
    return {
        "ttft_s": answer.times_s[0] if answer.times_s else None,
        "token_times_s": tuple(answer.times_s),
        "prompt_tokens": answer.reported("prompt_tokens"),
        "output_tokens": answer.reported("completion_tokens"),
        "cached_tokens": answer.cached_tokens(),
        "output_sha256": answer.digest(),
        "logits_sha256": answer.logits_sha256,
    }


def _told(answer: Answer, request: Request) -> Told:
    """Return what a session's next turn goes on from."""
    ids = () if isinstance(request.prompt, str) else tuple(answer.token_ids)
    return ids or "".join(answer.texts)


def _judged(answer: Answer, exchange: Exchange, request: Request) -> tuple[Failure, str] | None:
    """Return what is wrong with the answer, or with the way to it."""
    if answer.engine_error is not None:  # says more than how the stream then ended
        return Failure.ENGINE, answer.engine_error
    return exchange.failure or answer.judge(request.output_tokens)


def _harmless(said: str, endpoint: Endpoint) -> str:
    """Return what an endpoint said without secrets and control characters."""
    if endpoint.key:
        said = said.replace(endpoint.key, "(the key)")
    return mask(plain(said))


async def _exchange(pool: Pool, endpoint: Endpoint, encoded: bytes, exchange: Exchange) -> None:
    """Have `encoded` answered, within the endpoint's time; every end is noted in `exchange`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + endpoint.timeout_s
    connection = pool.idle()
    if connection is None:
        connection = await _connect(pool, endpoint, exchange, deadline)
        if connection is None:
            return

    def expire() -> None:
        connection.abort()
        exchange.failed(Failure.TIMEOUT, f"no whole answer within {endpoint.timeout_s:g} s")

    pool.wait(connection, deadline, expire)
    try:
        await connection.send(encoded, exchange)
        await exchange.over
    except asyncio.CancelledError:
        connection.abort()
        raise
    finally:
        pool.waited(connection)


async def _connect(
    pool: Pool, endpoint: Endpoint, exchange: Exchange, deadline: float
) -> Connection | None:
    """Return a new connection; None, with the reason in `exchange`, where there can be none."""
    try:
        async with asyncio.timeout_at(deadline):
            return await pool.connect()
    except TimeoutError:
        exchange.failed(Failure.TIMEOUT, f"no connection within {endpoint.timeout_s:g} s")
    except ssl.SSLCertVerificationError as err:
        exchange.failed(
            Failure.TLS, f"its certificate can't be trusted: {err.verify_message or err.reason}"
        )
    except ssl.SSLError as err:
        exchange.failed(Failure.TLS, f"no TLS with it: {err.reason or err}")
    except OSError as err:
        ours = err.errno in (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL)
        exchange.failed(
            Failure.CLIENT if ours else Failure.CONNECTION, f"{type(err).__name__}: {err}"
        )
    return None
