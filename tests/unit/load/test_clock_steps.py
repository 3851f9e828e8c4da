"""How long load lasts is told by the monotonic clock, however the wall clock is stepped."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import time
from types import SimpleNamespace

import pytest
from aiohttp import web

from kvgate.load import client, loop
from kvgate.load.client import Endpoint
from kvgate.load.rows import Request

BODY = (
    b'data: {"choices": [{"text": "a"}]}\n\n'
    b'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n\n'
    b"data: [DONE]\n\n"
)


@pytest.mark.parametrize("step_s", [86_400, -86_400, 3600], ids=["a day on", "a day back", "DST"])
def test_a_stepped_wall_clock_changes_no_duration(mock_endpoint, monkeypatch, step_s: int) -> None:
    """Each look at the wall clock finds it stepped once more."""
    looks = itertools.count()
    noon = datetime.datetime(2026, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)

    def now(_zone: object) -> datetime.datetime:
        return noon + datetime.timedelta(seconds=step_s * next(looks))

    stepped = SimpleNamespace(datetime=SimpleNamespace(now=now), UTC=datetime.UTC)
    monkeypatch.setattr(loop, "datetime", stepped)
    monkeypatch.setattr(client, "datetime", stepped)

    async def answer(_request: web.Request) -> web.Response:
        await asyncio.sleep(0.02)
        return web.Response(body=BODY, content_type="text/event-stream")

    asked = (Request(session=f"s{i}", prompt=(i,), output_tokens=1) for i in itertools.count())
    begun = time.monotonic()
    with mock_endpoint(answer) as url:
        way = Endpoint(base_url=url, model="m", timeout_s=5)
        result = loop.closed_loop(way, asked, concurrency=2, duration_s=0.6)
    took = time.monotonic() - begun
    assert 0.6 <= result.elapsed_s <= took
    assert len(result.rows) >= 4
    for row in result.rows:
        assert row.failure is None
        assert 0.02 <= row.end_s <= took
        assert row.ttft_s is not None
        assert 0 < row.ttft_s <= row.end_s
        assert 0 <= row.sent_s <= 0.7
