import asyncio
import itertools
import json
import time

import pytest
from aiohttp import web

from kvgate.load import loop as loop_module
from kvgate.load.client import Endpoint
from kvgate.load.loop import closed_loop
from kvgate.load.rows import Failure, Request, Row

BODY = (
    b'data: {"choices": [{"text": "a"}]}\n\n'
    b'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n\n'
    b"data: [DONE]\n\n"
)


def requests(count: int) -> list[Request]:
    return [Request(session=f"s{i}", prompt=(i,), output_tokens=1) for i in range(count)]


def endpoint(url: str) -> Endpoint:
    return Endpoint(base_url=url, model="m", timeout_s=5)


class Counting:
    """Answers after 20 ms and knows how many requests were under way at most."""

    def __init__(self) -> None:
        self.under_way = self.most = 0
        self.prompts: list[list[int]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.prompts.append(json.loads(await request.read())["prompt"])
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.02)
        self.under_way -= 1
        return web.Response(body=BODY, content_type="text/event-stream")


@pytest.mark.parametrize("concurrency", [1, 3])
def test_so_many_are_under_way_and_each_is_sent_once(mock_endpoint, concurrency: int) -> None:
    server = Counting()
    with mock_endpoint(server.answer) as url:
        result = closed_loop(endpoint(url), requests(9), concurrency=concurrency)
    assert server.most == concurrency
    assert sorted(server.prompts) == [[i] for i in range(9)]
    assert len(result.good) == 9
    assert result.concurrency == concurrency
    assert result.elapsed_s >= 0.02 * 9 / concurrency
    assert result.lag_max_s >= 0


def test_an_endless_source_ends_by_time(mock_endpoint) -> None:
    endless = (requests(1)[0] for _ in itertools.count())
    seen: list[Row] = []
    with mock_endpoint(Counting().answer) as url:
        result = closed_loop(
            endpoint(url), endless, concurrency=2, duration_s=0.3, on_row=seen.append
        )
    assert 0.3 <= result.elapsed_s < 2
    assert tuple(seen) == result.rows
    early = [row for row in result.rows if row.sent_s < 0.3]
    assert len(result.rows) - len(early) <= 2  # looked in time, sent late by a busy machine


def test_a_stop_from_outside(mock_endpoint) -> None:
    endless = (requests(1)[0] for _ in itertools.count())
    seen: list[Row] = []
    with mock_endpoint(Counting().answer) as url:
        closed_loop(
            endpoint(url), endless, concurrency=1, on_row=seen.append, stop=lambda: len(seen) >= 3
        )
    assert len(seen) == 3


def test_a_dead_endpoint_is_not_hammered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "RETRY_PAUSE_S", 0.05)
    endless = (requests(1)[0] for _ in itertools.count())
    result = closed_loop(endpoint("http://127.0.0.1:1"), endless, concurrency=1, duration_s=0.3)
    assert 1 <= len(result.rows) <= 7
    assert {row.failure for row in result.rows} == {Failure.CONNECTION}


def test_the_clients_own_lag_is_seen(mock_endpoint) -> None:
    def block(row: Row) -> None:
        time.sleep(0.15)

    with mock_endpoint(Counting().answer) as url:
        result = closed_loop(endpoint(url), requests(1), concurrency=1, on_row=block)
        slow = closed_loop(endpoint(url), requests(3), concurrency=2, on_row=block)
    assert max(result.lag_max_s, slow.lag_max_s) >= 0.1


def test_no_concurrency_is_refused() -> None:
    with pytest.raises(ValueError, match="below 1"):
        closed_loop(endpoint("http://127.0.0.1:1"), requests(1), concurrency=0)
