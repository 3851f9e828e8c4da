"""A mock endpoint with a script of bytes and pauses, on loopback, on an event loop of its own."""

import asyncio
import contextlib
import datetime
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
from aiohttp import web

from kvgate.load.rows import LoadResult, Row

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.contextmanager
def serving(handler: Handler) -> Iterator[str]:
    """Serve `handler` at /v1/completions for the block; yields the base URL."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    urls: list[str] = []
    stop = asyncio.Event()

    async def run() -> None:
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/v1/completions", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        urls.append(f"http://{host}:{port}")
        ready.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


@pytest.fixture(scope="session")
def mock_endpoint():
    return serving


@pytest.fixture(scope="session")
def streaming():
    """Return a maker of handlers: pieces of bytes, or pauses in seconds, in order."""

    def make(*script: bytes | float, content_type: str = "text/event-stream") -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            await request.read()
            response = web.StreamResponse(headers={"Content-Type": content_type})
            await response.prepare(request)
            for part in script:
                if isinstance(part, bytes):
                    await response.write(part)
                else:
                    await asyncio.sleep(part)
            await response.write_eof()
            return response

        return handler

    return make


NOW = datetime.datetime(2026, 5, 12, tzinfo=datetime.UTC)


@pytest.fixture(scope="session")
def row_of() -> Callable[..., Row]:
    """Return what makes a row of a whole answer of 8 tokens, `tpot_s` apart."""

    def row_of(*, ttft_s: float = 0.1, tpot_s: float = 0.01, **other: Any) -> Row:
        times = tuple(ttft_s + tpot_s * place for place in range(8))
        fields = {
            "session": "session-000000",
            "sent_at": NOW,
            "sent_s": 0.0,
            "ttft_s": ttft_s,
            "token_times_s": times,
            "end_s": times[-1],
            "asked_tokens": 8,
            "prompt_tokens": None,
            "output_tokens": 8,
            "cached_tokens": None,
            "output_sha256": None,
            "logits_sha256": None,
        }
        return Row(**{**fields, **other})

    return row_of


@pytest.fixture(scope="session")
def result_of() -> Callable[[Sequence[Row]], LoadResult]:
    """Return what makes a load of rows, at a concurrency of 1, within 2 s."""

    def result_of(rows: Sequence[Row], **other: Any) -> LoadResult:
        fields = {
            "base_url": "http://127.0.0.1:1",
            "model": "tiny",
            "concurrency": 1,
            "started_at": NOW,
            "elapsed_s": 2.0,
            "lag_max_s": 0.001,
            "rows": tuple(rows),
        }
        return LoadResult(**{**fields, **other})

    return result_of
