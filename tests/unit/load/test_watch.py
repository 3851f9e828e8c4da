"""The client watches itself; what the endpoint does is not blamed on it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.load.streams import served

from kvgate.load import watch
from kvgate.load.client import Endpoint
from kvgate.load.loop import closed_loop
from kvgate.load.rows import LoadResult, Request, Row

EVENTS = (
    b'data: {"choices": [{"text": "a"}]}\n\n'
    b'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n\n'
    b"data: [DONE]\n\n"
)
BODY = b"%x\r\n%s\r\n0\r\n\r\n" % (len(EVENTS), EVENTS)
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + BODY
)

SERVER = f"""
import asyncio, sys

class Serving(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):  # requests are of one packet here
        asyncio.get_running_loop().call_later(0.02, self.transport.write, {ANSWER!r})

async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Serving, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@pytest.fixture
def port() -> Iterator[int]:
    """Serve answers after 20 ms, from a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def load(port: int, users: int, seconds: float, **more: Any) -> LoadResult:
    requests = (
        Request(session=f"s{n}", prompt=(1, 2, 3), output_tokens=1) for n in itertools.count()
    )
    endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}", model="m", timeout_s=20)
    return closed_loop(endpoint, requests, concurrency=users, duration_s=seconds, **more)


def test_a_busy_loop_in_the_client_is_told(port: int) -> None:
    def burn(_: Row) -> None:
        until = time.thread_time() + 0.03
        while time.thread_time() < until:
            pass

    result = load(port, 4, 1.5, on_row=burn)
    told = "; ".join(result.bottleneck)
    assert "its event loop was late by" in told
    assert "computing" in told  # which shows as well that it had no more to give


BURNER = "while True: pass"


@contextlib.contextmanager
def burning(processor: int, many: int) -> Iterator[None]:
    """Keep a processor busy by others for the block."""
    with contextlib.ExitStack() as stack:
        for _ in range(many):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", BURNER]))
            stack.callback(process.kill)
            os.sched_setaffinity(process.pid, {processor})
        yield


@pytest.mark.whole
def test_a_processor_that_others_take_is_told(port: int) -> None:
    """What the client needs of its core is more than it gets beside three that want all of it."""
    mine = os.sched_getaffinity(0)
    processor = min(mine)
    found: list[LoadResult] = []

    def client() -> None:  # affinity is of a thread
        os.sched_setaffinity(0, {processor})
        found.append(load(port, 256, 4))

    thread = threading.Thread(target=client)
    with burning(processor, 3):
        thread.start()
        thread.join(60)
    assert os.sched_getaffinity(0) == mine
    (result,) = found
    assert result.bottleneck, result.watched


class Delaying:
    """A proxy on loopback that holds back answers by 100 ms in every other half second."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.begun = time.monotonic()
        self.delayed = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        with contextlib.suppress(OSError), contextlib.closing(writer), contextlib.closing(back):
            while data := await reader.read(65536):
                back.write(data)
                answer = await there.read(65536)
                if int(2 * (time.monotonic() - self.begun)) % 2:
                    self.delayed += 1
                    await asyncio.sleep(0.1)
                writer.write(answer)


@contextlib.contextmanager
def delayed(port: int) -> Iterator[tuple[int, Delaying]]:
    proxy = Delaying(port)
    with served(proxy.serve) as through:
        yield through, proxy


@pytest.mark.whole
def test_delays_on_the_way_are_the_endpoints(port: int) -> None:
    """A machine that is busy otherwise may disturb the client in truth: it has a few tries."""
    for _ in range(4):
        with delayed(port) as (through, proxy):
            result = load(through, 4, 2)
        slow = sum((row.ttft_s or 0) >= 0.1 for row in result.rows)
        assert 0 < slow < len(result.rows)
        assert slow == pytest.approx(proxy.delayed, abs=4)
        if not result.bottleneck:
            return
    pytest.fail(f"delays were taken for the client's: {result.bottleneck}")


def seen(**more: Any) -> watch.Watched:
    fields: dict[str, Any] = dict.fromkeys(
        [
            *("lag_p50_s", "lag_p90_s", "lag_p99_s", "lag_max_s"),
            *("send_lag_p50_s", "send_lag_p99_s", "send_lag_max_s"),
            *("cpu_share", "process_cpu_share"),
        ],
        0.0,
    )
    fields |= {"wait_share": None, "full_share": None, "cores": 2, "lag_ms": {}}
    return watch.Watched(**(fields | more))


@pytest.mark.parametrize(
    ("how", "ttft_s", "says"),
    [
        ({"lag_p99_s": 1.33}, None, ("its event loop was late by 1,330 ms at p99 (over 20 ms)",)),
        ({"lag_p99_s": 0.0213}, None, ("its event loop was late by 21.3 ms at p99 (over 20 ms)",)),
        ({"send_lag_p99_s": 0.03}, None, ("it sent 30 ms late at p99 (over 20 ms)",)),
        ({"lag_p99_s": 0.03}, 5.0, ()),  # 1 % of 5 s
        ({"full_share": 0.1}, None, ()),
        (
            {"full_share": 0.5, "cpu_share": 0.6, "wait_share": 0.38},
            None,
            (
                "it was full in 50% of the time "
                "(60% computing, 38% waiting for a core; 2 cores are its)",
            ),
        ),
    ],
)  # fmt: skip
def test_what_is_over_is_told(how: dict[str, float], ttft_s: float | None, says: Any) -> None:
    assert seen(**how).bottleneck(ttft_s) == says


def test_percentiles_are_told_to_nine_percent() -> None:
    histogram = watch.Histogram()
    for n in range(1, 1001):
        histogram.add(n / 1000)
    for percent in (50, 90, 99):
        assert percent / 100 <= histogram.percentile_s(percent) <= 1.1 * percent / 100
    assert histogram.percentile_s(100) == 1.0
    assert watch.Histogram().percentile_s(99) == 0.0
