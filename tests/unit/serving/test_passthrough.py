"""The pass-through: bytes go on untouched both ways, what is kept is a trace without texts."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, web
from yarl import URL

from kvgate.cli.capture import listening
from kvgate.errors import UsageError
from kvgate.kv.capture import Blinder, Writer
from kvgate.kv.trace_tokens import encoder
from kvgate.serving import passthrough
from kvgate.serving.passthrough import Passthrough

SECRET = "a text that must not be kept " * 40
PIECES = [b'data: {"a"', b': 1}\n\ndata: {"b": 2}\n', b"\n", b"data: [DONE]\n\n"]


class Engine:
    """An engine that notes what it was sent and answers in pieces."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.release = asyncio.Event()
        self.release.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        content = await request.read()
        self.got.append((request.raw_path, dict(request.headers), content))
        if request.path == "/json":
            usage = {"usage": {"prompt_tokens": 2, "completion_tokens": 77}}
            return web.json_response(usage, status=201, headers={"X-Own": "yes"})
        if request.path == "/slow":
            await self.release.wait()
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for piece in PIECES:
            await answer.write(piece)
        return answer


async def serve(app: web.Application) -> tuple[web.AppRunner, str]:
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


Body = Callable[[ClientSession, str, Engine, Passthrough], Awaitable[None]]


def run(body: Body) -> list[dict[str, Any]]:
    """Run `body` against a pass-through before an engine; return the lines written."""
    out = io.BytesIO()

    async def main() -> None:
        engine = Engine()
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", engine.handle)
        behind, upstream = await serve(app)
        proxy = Passthrough(upstream, Blinder(16, encoder(None)), Writer(out, 16))
        before, url = await serve(proxy.application())
        try:
            async with ClientSession() as client:
                await body(client, url, engine, proxy)
        finally:
            await before.cleanup()
            await behind.cleanup()
        assert proxy._held == 0
        assert not proxy._queue

    asyncio.run(asyncio.wait_for(main(), 60))
    assert SECRET[:10].encode() not in out.getvalue()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def chat(text: str) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": text}], "stream": True}).encode()


def test_streams_pass_untouched_and_are_counted() -> None:
    async def body(client: ClientSession, url: str, engine: Engine, _: Passthrough) -> None:
        sent = chat(SECRET)
        at = URL(f"{url}/v1/chat?x=%2F1", encoded=True)
        headers = {"Authorization": "Bearer abcdefghijklmnop", "X-Trace": "7"}
        async with client.post(at, data=sent, headers=headers) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            assert await answer.read() == b"".join(PIECES)
        path, got, content = engine.got[0]
        assert (path, content) == ("/v1/chat?x=%2F1", sent)
        assert (got["Authorization"], got["X-Trace"]) == ("Bearer abcdefghijklmnop", "7")
        async with client.post(f"{url}/json", data=sent) as answer:
            assert (answer.status, answer.headers["X-Own"]) == (201, "yes")
        async with client.get(f"{url}/models") as answer:
            assert answer.status == 200

    first, second = run(body)
    assert (first["output_length"], second["output_length"]) == (2, 77)
    assert first["hash_ids"] == second["hash_ids"]
    assert set(first) == {"timestamp", "input_length", "output_length", "hash_ids", "block_size"}


def test_prompts_of_token_ids_are_in_the_trace() -> None:
    async def body(client: ClientSession, url: str, _: Engine, __: Passthrough) -> None:
        sent = json.dumps({"prompt": [900_000_000_001, *range(39)]}).encode()
        async with client.post(f"{url}/v1", data=sent) as answer:
            assert await answer.read() == b"".join(PIECES)

    (line,) = run(body)
    assert (line["input_length"], len(line["hash_ids"])) == (40, 3)
    assert 900_000_000_001 not in line["hash_ids"]


def test_lines_come_in_order_of_arrival() -> None:
    async def body(client: ClientSession, url: str, engine: Engine, proxy: Passthrough) -> None:
        engine.release.clear()
        slow = asyncio.ensure_future(client.post(f"{url}/slow", data=chat("slow " * 100)))
        while not engine.got:
            await asyncio.sleep(0.01)
        async with client.post(f"{url}/quick", data=chat("quick")) as answer:
            await answer.read()
        assert proxy.passed == 2
        engine.release.set()
        await (await slow).read()

    first, second = run(body)
    assert first["input_length"] > second["input_length"]
    assert first["timestamp"] == 0 <= second["timestamp"]


def test_what_is_too_large_passes_uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passthrough, "MOST_BODY", 10_000)

    async def body(client: ClientSession, url: str, engine: Engine, proxy: Passthrough) -> None:
        sent = chat(SECRET * 20)
        async with client.post(f"{url}/v1", data=sent) as answer:
            assert await answer.read() == b"".join(PIECES)
        assert engine.got[0][2] == sent
        while not proxy.uncounted:
            await asyncio.sleep(0.01)

    assert run(body) == []


def test_bodies_that_are_no_requests_pass_and_leave_no_line() -> None:
    async def body(client: ClientSession, url: str, engine: Engine, _: Passthrough) -> None:
        for sent in (b"\xff\xfe", b"[1]", b'{"input": 3}', b"[" * 100_000):
            async with client.post(f"{url}/v1", data=sent) as answer:
                assert answer.status == 200
        assert len(engine.got) == 4

    assert run(body) == []


def test_no_engine_behind_is_a_bad_gateway() -> None:
    async def main() -> None:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            upstream = f"http://127.0.0.1:{held.getsockname()[1]}"
            proxy = Passthrough(upstream, Blinder(16, encoder(None)), Writer(io.BytesIO(), 16))
            before, url = await serve(proxy.application())
            async with ClientSession() as client, client.post(url, data=chat("x")) as answer:
                assert answer.status == 502
                assert "no answer behind kvgate" in await answer.text()
            await before.cleanup()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_it_listens_on_loopback_unless_told_otherwise() -> None:
    assert listening("8100") == ("127.0.0.1", 8100)
    assert listening("192.0.2.7:80") == ("192.0.2.7", 80)
    assert listening("[::1]:80") == ("::1", 80)
    for text in ("", "x", "1.2.3.4:", ":99999"):
        with pytest.raises(UsageError, match="is no"):
            listening(text)
