"""One load client, in a process of its own: ours, or aiohttp on uvloop; tells its figures as JSON.

Usage: load_clients.py ours|long|aiohttp URL CONCURRENCY SECONDS [PROCESSOR]
`long` is ours, every eighth prompt of 50,000 tokens. The others send the same requests, fold the
same events and keep each request's TTFT. What aiohttp's client does beside is aiohttp's own: it
reads what has come, and parses each event as JSON.
"""

import asyncio
import itertools
import json
import os
import sys
import time

RAMP_S, WARM_UP_S = 1.0, 1.5
"""Users begin one after another; errors count from when all are under way."""


def long(url: str, concurrency: int, seconds: float) -> dict[str, object]:
    return ours(url, concurrency, seconds, long_prompts=True)


def ours(
    url: str, concurrency: int, seconds: float, *, long_prompts: bool = False
) -> dict[str, object]:
    from kvgate.load import client
    from kvgate.load.client import Endpoint
    from kvgate.load.loop import run_load
    from kvgate.load.shape import Closed
    from kvgate.load.source import Each
    from kvgate.load.stream import Answer
    from kvgate.load.workload import sessions

    answers: list[Answer] = []

    class Kept(Answer):
        def __init__(self) -> None:
            super().__init__()
            if time.monotonic() >= counted:
                answers.append(self)

    client.Answer = Kept
    endpoint = Endpoint(base_url=url, model="m", timeout_s=30)
    short = sessions(1, 64, prompt_tokens=100, output_tokens=8)
    if long_prompts:
        many = sessions(2, 8, prompt_tokens=50_000, output_tokens=8)
        short = tuple(each for n in range(8) for each in (*short[7 * n : 7 * n + 7], many[n]))
    requests = itertools.cycle(short)
    shape = Closed(concurrency=concurrency, ramp_s=RAMP_S)
    begun, counted = time.process_time(), time.monotonic() + WARM_UP_S
    result = run_load(
        endpoint, Each(requests), shape, duration_s=seconds + WARM_UP_S, warm_up_s=WARM_UP_S
    )
    cpu_s = time.process_time() - begun
    assert not result.failed, result.failed[0]
    errors = [each.times_s[0] - float(each.texts[0]) for each in answers]
    told = {"bottleneck": result.bottleneck, "lag_p99_ms": 1000 * result.watched.lag_p99_s}
    many = len(result.rows) + len(result.warm_up)
    return figures(errors, result.elapsed_s, cpu_s / many) | told


def aiohttp_on_uvloop(url: str, concurrency: int, seconds: float) -> dict[str, object]:
    import aiohttp
    import uvloop

    from kvgate.load.workload import sessions

    requests = itertools.cycle(sessions(1, 64, prompt_tokens=100, output_tokens=8))
    bodies = (
        json.dumps({"model": "m", "prompt": each.prompt, "max_tokens": 8, "stream": True}).encode()
        for each in requests
    )
    errors: list[float] = []
    many = 0

    async def user(http: aiohttp.ClientSession, number: int, begun: float) -> None:
        nonlocal many
        await asyncio.sleep(RAMP_S * number / concurrency)
        until = begun + WARM_UP_S + seconds
        while time.monotonic() < until:
            body = next(bodies)
            sent = time.monotonic()
            headers = {"Content-Type": "application/json"}
            async with http.post(f"{url}/v1/completions", data=body, headers=headers) as response:
                first, rest, count, usage = None, b"", 0, None
                async for piece in response.content.iter_any():
                    at = time.monotonic()
                    *events, rest = (rest + piece).split(b"\n\n")
                    for event in events:
                        if event == b"data: [DONE]":
                            continue
                        fields = json.loads(event[6:])
                        usage = fields.get("usage")
                        for choice in fields["choices"]:
                            if first is None:
                                first = at - sent - float(choice["text"])
                            count += 1
            assert usage["completion_tokens"] == count == 8
            many += 1
            if sent >= begun + WARM_UP_S:
                errors.append(first)

    async def run() -> float:
        begun = time.monotonic()
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as http:
            await asyncio.gather(*(user(http, number, begun) for number in range(concurrency)))
        return time.monotonic() - begun - WARM_UP_S

    begun = time.process_time()
    elapsed = uvloop.run(run())
    return figures(errors, elapsed, (time.process_time() - begun) / many)


def figures(errors: list[float], elapsed_s: float, cpu_s: float) -> dict[str, object]:
    errors.sort()
    return {
        "requests": len(errors),
        "rate": len(errors) / elapsed_s,
        "cpu_us": 1e6 * cpu_s,
        "error_p50_ms": 1000 * errors[len(errors) // 2],
        "error_p99_ms": 1000 * errors[int(0.99 * len(errors))],
    }


if __name__ == "__main__":
    who, url, concurrency, seconds, *processor = sys.argv[1:]
    if processor:
        os.sched_setaffinity(0, {int(processor[0])})
    run = {"ours": ours, "long": long, "aiohttp": aiohttp_on_uvloop}[who]
    sys.stdout.write(json.dumps(run(url, int(concurrency), float(seconds))) + "\n")
