"""Builds the embedded engine from its options and serves until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable

from aiohttp import web

from kvgate.serving.api import Api
from kvgate.serving.config import model_named
from kvgate.serving.decoder import Cache, Decoder
from kvgate.serving.launch import Options
from kvgate.serving.metrics import Metrics
from kvgate.serving.pool import PoolOptions
from kvgate.serving.scheduler import Scheduler
from kvgate.serving.tier import Tier, TierOptions
from kvgate.serving.weights import fingerprint, generate


async def serve(options: Options, told: Callable[[dict[str, object]], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; says so on stdout in one JSON line when it is ready.

    Then: 1. no new requests, 2. what is under way breaks off, 3. waiting chunks are published.
    """
    config = model_named(options.model)
    metrics = Metrics(options.model)
    tier = None
    if options.kv_path is not None:
        how = TierOptions(
            readers=options.readers,
            hot_bytes=options.hot_bytes,
            pool=PoolOptions(
                limit_bytes=options.limit_bytes, dedup=options.dedup, compress=options.compress
            ),
        )
        tier = Tier(options.kv_path, config, fingerprint(config, options.seed), metrics, how)
    decoder = Decoder(config, generate(config, options.seed))
    Cache(config, config.max_tokens).kv[:] = 0  # memory for the first prompts is touched now
    scheduler = Scheduler(decoder, tier, metrics, threads=options.threads, slots=options.slots)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    api = Api(config, options.model, scheduler, metrics)
    runner = web.AppRunner(
        api.app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1
    )
    await runner.setup()
    try:
        listening = _listen(options)
        await web.SockSite(runner, listening).start()
        facts = _announce(options, listening.getsockname()[1], tier)
        if told is not None:
            told(facts)
        await stop.wait()
    finally:
        await runner.cleanup()  # 1, 2
        await asyncio.to_thread(scheduler.close)
        if tier is not None:
            await asyncio.to_thread(tier.close)  # 3


def _listen(options: Options) -> socket.socket:
    """Return a bound socket; the port may have been another engine's a moment ago."""
    family, _, _, _, address = socket.getaddrinfo(
        options.host, options.port, type=socket.SOCK_STREAM
    )[0]
    listening = socket.create_server(address[:2], family=family, backlog=1024)
    listening.setblocking(False)
    return listening


def _announce(options: Options, port: int, tier: Tier | None) -> dict[str, object]:
    facts: dict[str, object] = {
        "ready": True,
        "port": port,
        "pid": os.getpid(),
        "model": options.model,
        "seed": options.seed,
        "tier": tier is not None,
        "direct_io": tier.direct if tier is not None else None,
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
    return facts
