"""Sends one request and makes a row of it, whatever happens."""

from __future__ import annotations

import dataclasses
import datetime
import json
import time

import aiohttp

from kvgate.errors import ParseError
from kvgate.load.rows import Failure, Request, Row
from kvgate.load.sse import SseParser
from kvgate.load.stream import Answer

ERROR_BODY_CAP_BYTES = 2048


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where to send to and how; ``extensions`` asks for token ids and kvgate's digest of logits."""

    base_url: str
    model: str
    timeout_s: float
    extensions: bool = True

    def body(self, request: Request) -> bytes:
        """Return the request's JSON: greedy, streamed, with usage."""
        fields = {
            "model": self.model,
            "prompt": request.prompt,
            "max_tokens": request.output_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.extensions:
            fields |= {"return_token_ids": True, "kvgate_logits": True, "ignore_eos": True}
        return json.dumps(fields).encode()


class Refused(Exception):
    """The endpoint answered, but not with a stream; the message says with what."""


async def send(
    http: aiohttp.ClientSession, endpoint: Endpoint, request: Request, *, origin: float
) -> Row:
    """Send `request` and return its row; the clock runs from before the connection is asked for.

    `origin` is the monotonic start of the load. Only cancellation comes out as an exception.
    """
    answer = Answer()
    sent_at = datetime.datetime.now(datetime.UTC)
    sent = time.monotonic()
    failure = await _attempt(http, endpoint, request, answer, sent)
    return Row(
        session=request.session,
        sent_at=sent_at,
        sent_s=sent - origin,
        ttft_s=answer.times_s[0] if answer.times_s else None,
        token_times_s=tuple(answer.times_s),
        end_s=time.monotonic() - sent,
        asked_tokens=request.output_tokens,
        prompt_tokens=answer.reported("prompt_tokens"),
        output_tokens=answer.reported("completion_tokens"),
        cached_tokens=answer.cached_tokens(),
        output_sha256=answer.digest(),
        logits_sha256=answer.logits_sha256,
        failure=failure[0] if failure else None,
        error=failure[1] if failure else "",
    )


async def _attempt(
    http: aiohttp.ClientSession, endpoint: Endpoint, request: Request, answer: Answer, sent: float
) -> tuple[Failure, str] | None:
    """Receive `answer` and return what is wrong with it, or with the way to it."""
    failure: tuple[Failure, str] | None
    try:
        await _receive(http, endpoint, endpoint.body(request), answer, sent)
        failure = answer.judge(request.output_tokens)
    except Refused as err:
        failure = (Failure.HTTP, str(err))
    except ParseError as err:
        failure = (Failure.PROTOCOL, err.message)
    except TimeoutError:
        failure = (Failure.TIMEOUT, f"no whole answer within {endpoint.timeout_s:g} s")
    except aiohttp.ClientPayloadError as err:
        failure = (Failure.TRUNCATED, f"the connection ended in mid-answer: {err}")
    except (aiohttp.ClientError, OSError) as err:
        failure = (Failure.CONNECTION, f"{type(err).__name__}: {err}")
    if answer.engine_error is not None:  # says more than how the stream then ended
        failure = (Failure.ENGINE, answer.engine_error)
    return failure


async def _receive(
    http: aiohttp.ClientSession, endpoint: Endpoint, body: bytes, answer: Answer, sent: float
) -> None:
    """Post `body` and fold the stream into `answer` until its end."""
    async with http.post(
        f"{endpoint.base_url}/v1/completions",
        data=body,
        headers={"Content-Type": "application/json", "Accept": "text/event-stream"},
        timeout=aiohttp.ClientTimeout(total=endpoint.timeout_s),
        allow_redirects=False,
    ) as response:
        if response.status != 200 or response.content_type != "text/event-stream":
            said = (await response.content.read(ERROR_BODY_CAP_BYTES)).decode("utf-8", "replace")
            raise Refused(f"{response.status} {response.content_type}: {said[:300]}")
        parser = SseParser()
        async for piece in response.content.iter_any():
            at_s = time.monotonic() - sent
            for event in parser.feed(piece):
                answer.add(event, at_s)
        if not parser.close() and not answer.done:
            raise aiohttp.ClientPayloadError("an event was cut off")
