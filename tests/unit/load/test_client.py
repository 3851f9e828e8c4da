import asyncio
import contextlib
import json
import time

import aiohttp
import pytest

from kvgate.load.client import Endpoint, send
from kvgate.load.rows import Failure, Request, Row
from kvgate.load.wire import Pool

REQUEST = Request(session="s", prompt=(1, 2, 3), output_tokens=2)


def event(text: str, token: int) -> bytes:
    fields = {"choices": [{"text": text, "token_ids": [token]}]}
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


END = (
    b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}, '
    b'"kvgate": {"logits_sha256": "abc"}}\n\ndata: [DONE]\n\n'
)


def ask(url: str, *, timeout_s: float = 5) -> Row:
    async def run() -> Row:
        endpoint = Endpoint(base_url=url, model="m", timeout_s=timeout_s)
        address = endpoint.address()
        with contextlib.closing(Pool(address.host, address.port, None)) as pool:
            row, _ = await send(pool, endpoint, REQUEST, origin=time.monotonic())
        return row

    return asyncio.run(run())


def test_a_row_of_a_whole_answer(mock_endpoint, streaming) -> None:
    first, second = event("a", 1), event("b", 2)
    with mock_endpoint(streaming(0.05, first[:7], 0.05, first[7:], 0.1, second + END)) as url:
        row = ask(url)
    assert row.failure is None
    assert (row.prompt_tokens, row.output_tokens, row.asked_tokens) == (3, 2, 2)
    assert row.cached_tokens is None
    assert row.logits_sha256 == "abc"
    assert row.output_digest is not None
    # The clock runs from sending, so that the pause before the headers' end counts.
    assert row.ttft_s is not None
    assert 0.1 <= row.ttft_s < row.token_times_s[1] <= row.end_s
    assert row.token_times_s[1] - row.ttft_s >= 0.09


def test_headers_do_not_start_the_clock(mock_endpoint) -> None:
    async def late(request: aiohttp.web.Request) -> aiohttp.web.Response:
        await asyncio.sleep(0.2)
        body = event("a", 1) + event("b", 2) + END
        return aiohttp.web.Response(body=body, content_type="text/event-stream")

    with mock_endpoint(late) as url:
        row = ask(url)
    assert row.ttft_s is not None
    assert row.ttft_s >= 0.2


@pytest.mark.parametrize(
    ("script", "failure", "says"),
    [
        pytest.param((event("a", 1),), Failure.TRUNCATED, "DONE", id="early-end"),
        pytest.param((event("a", 1)[:-4],), Failure.TRUNCATED, "cut off", id="cut-event"),
        pytest.param((b"data: <html>\n\n",), Failure.PROTOCOL, "not JSON", id="garbage"),
        pytest.param((b"data: \xe4\xbd\n\n",), Failure.PROTOCOL, "UTF-8", id="half-a-character"),
        pytest.param((event("a", 1), END), Failure.COUNT, "1 token ids", id="a-token-missing"),
        pytest.param(
            (b'data: {"error": {"message": "oom"}}\n\n',), Failure.ENGINE, "oom", id="error-event"
        ),
        pytest.param((5.0,), Failure.TIMEOUT, "0.3 s", id="hangs-after-headers"),
    ],
)
def test_failures_are_rows(mock_endpoint, streaming, script, failure, says) -> None:
    with mock_endpoint(streaming(*script)) as url:
        row = ask(url, timeout_s=0.3 if failure is Failure.TIMEOUT else 5)
    assert row.failure is failure
    assert says in row.error
    assert row.output_digest is None


def test_html_is_no_answer(mock_endpoint, streaming) -> None:
    with mock_endpoint(streaming(b"<html>hello", content_type="text/html")) as url:
        row = ask(url)
    assert row.failure is Failure.HTTP
    assert "text/html: <html>hello" in row.error


@pytest.mark.parametrize("status", [302, 400, 404, 500])
def test_another_status_is_told_with_its_body(mock_endpoint, status: int) -> None:
    async def refuse(request: aiohttp.web.Request) -> aiohttp.web.Response:
        return aiohttp.web.Response(
            status=status, text="no such model", headers={"Location": "/elsewhere"}
        )

    with mock_endpoint(refuse) as url:
        row = ask(url)
    assert row.failure is Failure.HTTP
    moved = ": a redirect to '/elsewhere', which is not followed" if status == 302 else ""
    assert row.error == f"{status} text/plain{moved}: no such model"


def test_nobody_listens() -> None:
    row = ask("http://127.0.0.1:1")
    assert row.failure is Failure.CONNECTION
    assert row.ttft_s is None
    assert row.output_tokens is None
