"""A mock endpoint with a script of bytes and pauses, on loopback, on an event loop of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest
from aiohttp import web

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
