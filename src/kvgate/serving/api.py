"""The engine's HTTP surface: completions and chat (streamed or whole), models, health, metrics."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable

from aiohttp import web

from kvgate.serving.config import ModelConfig
from kvgate.serving.metrics import Metrics
from kvgate.serving.protocol import ApiError, CompletionRequest, error_body, parse_request
from kvgate.serving.replies import Ending, Replies, event, usage
from kvgate.serving.scheduler import Scheduler
from kvgate.serving.sequence import Generation, Step, Wanted

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BODY_CAP_BYTES = 16 * 2**20
"""The most a request may hold; 50,000 token ids are some 350 kB."""


class Api:
    """Answers requests by means of a scheduler; computes nothing itself."""

    def __init__(
        self, config: ModelConfig, model: str, scheduler: Scheduler, metrics: Metrics
    ) -> None:
        self._config = config
        self._model = model
        self._scheduler = scheduler
        self._metrics = metrics

    def app(self) -> web.Application:
        """Return the application with its routes; errors are OpenAI error objects."""
        app = web.Application(client_max_size=BODY_CAP_BYTES, middlewares=[_errors_as_objects])
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._show_metrics)
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, _: web.Request) -> web.Response:
        card = {
            "id": self._model,
            "object": "model",
            "owned_by": "kvgate",
            "max_model_len": self._config.max_tokens,
        }
        return web.json_response({"object": "list", "data": [card]})

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            text=self._metrics.render(self._scheduler.gauges()),
            content_type="text/plain",
            charset="utf-8",
        )

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        chat = request.path == "/v1/chat/completions"
        try:
            asked = parse_request(await request.read(), self._config, self._model, chat=chat)
        except web.HTTPRequestEntityTooLarge as err:
            self._metrics.add("kvgate:requests_refused_total")
            told = f"the body is larger than {BODY_CAP_BYTES} bytes"
            raise ApiError(413, "BadRequestError", told) from err
        except ApiError:
            self._metrics.add("kvgate:requests_refused_total")
            raise
        loop = asyncio.get_running_loop()
        steps: asyncio.Queue[Step] = asyncio.Queue()
        generation = Generation(
            asked.prompt,
            asked.max_tokens,
            lambda step: _hand_over(loop, steps, step),
            Wanted(
                stop=asked.stop, stop_token_ids=asked.stop_token_ids, cache_salt=asked.cache_salt
            ),
        )
        name = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        replies = Replies(name, self._model, int(time.time()), chat)
        self._scheduler.submit(generation)
        try:
            if asked.stream:
                return await self._stream(request, asked, generation, steps, replies)
            return await self._whole(asked, generation, steps, replies)
        finally:  # also when the client went away: then this handler is cancelled
            generation.cancelled = True

    async def _stream(
        self,
        request: web.Request,
        asked: CompletionRequest,
        generation: Generation,
        steps: asyncio.Queue[Step],
        replies: Replies,
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        with contextlib.suppress(ConnectionResetError):  # the client went away, as it may
            await self._send(request, response, asked, generation, steps, replies)
        return response

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        asked: CompletionRequest,
        generation: Generation,
        steps: asyncio.Queue[Step],
        replies: Replies,
    ) -> None:
        await response.prepare(request)
        opening = replies.first()
        lead = event(opening) if opening else b""  # with the first token, not before
        step, answered = None, 0
        while step is None or not step.last:
            step = await steps.get()
            answered += 1
            if step.error:
                await response.write(
                    b"data: " + error_body(500, "InternalServerError", step.error) + b"\n\n"
                )
                break
            await response.write(lead + self._piece(asked, generation, step, answered, replies))
            lead = b""
        else:
            if closing := self._closing(asked, generation, replies):
                await response.write(closing)
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()

    @staticmethod
    def _piece(
        asked: CompletionRequest,
        generation: Generation,
        step: Step,
        answered: int,
        replies: Replies,
    ) -> bytes:
        """Return the event of one token, with the usage so far where asked for."""
        piece = replies.piece(
            step.text,
            [step.token] if asked.token_ids else None,
            Ending(step.finish_reason, step.stop_reason),
        )
        if asked.continuous_usage:
            piece["usage"] = usage(generation.prompt_tokens, answered, generation.cached_tokens)
        return event(piece)

    @staticmethod
    def _closing(asked: CompletionRequest, generation: Generation, replies: Replies) -> bytes:
        """Return the event that ends a stream: usage and the digest of logits, where asked for."""
        if not (asked.include_usage or asked.logits_digest):
            return b""
        last = replies.usage(
            generation.prompt_tokens, generation.answered, generation.cached_tokens
        )
        if asked.logits_digest:
            last["kvgate"] = {"logits_sha256": generation.logits_digest()}
        return event(last)

    async def _whole(
        self,
        asked: CompletionRequest,
        generation: Generation,
        steps: asyncio.Queue[Step],
        replies: Replies,
    ) -> web.Response:
        taken: list[Step] = []
        while not taken or not taken[-1].last:
            taken.append(await steps.get())
            if taken[-1].error:
                raise ApiError(500, "InternalServerError", taken[-1].error)
        answer = replies.whole(
            "".join(step.text for step in taken),
            [step.token for step in taken] if asked.token_ids else None,
            Ending(taken[-1].finish_reason, taken[-1].stop_reason),
        )
        answer["usage"] = usage(generation.prompt_tokens, len(taken), generation.cached_tokens)
        if asked.logits_digest:
            answer["kvgate"] = {"logits_sha256": generation.logits_digest()}
        return web.json_response(answer)


def _hand_over(loop: asyncio.AbstractEventLoop, steps: asyncio.Queue[Step], step: Step) -> None:
    """Bring a step from a computing thread to the event loop."""
    loop.call_soon_threadsafe(steps.put_nowait, step)


@web.middleware
async def _errors_as_objects(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error, aiohttp's own included, with an OpenAI error object."""
    try:
        return await handler(request)
    except ApiError as err:
        return web.Response(status=err.status, body=err.body(), content_type="application/json")
    except web.HTTPException as err:
        body = error_body(
            err.status, "BadRequestError", f"{request.method} {request.path}: {err.reason}"
        )
        return web.Response(status=err.status, body=body, content_type="application/json")
