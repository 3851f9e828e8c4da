"""What the engine was told on its command line, checked, and the engine started in this process."""

from __future__ import annotations

import argparse
import dataclasses
import errno
import os
import pathlib
import re
from collections.abc import Callable

from kvgate.errors import HarnessError, UnitError, UsageError
from kvgate.serving.config import model_named

BLAS_THREADS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""Must be 1 before NumPy is imported: with more, BLAS splits a GEMM by what else is running."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an engine is told; ``kv_path`` None: no tier."""

    host: str
    port: int
    model: str
    seed: int
    threads: int
    slots: int
    kv_path: pathlib.Path | None = None
    readers: int = 4
    hot_bytes: int = 0
    limit_bytes: int | None = None
    dedup: bool = True
    compress: str = "none"


def options_of(given: argparse.Namespace) -> Options:
    """Return the engine's options; raises UsageError for what can't be meant."""
    model_named(given.model)
    for name, least in (("threads", 1), ("slots", 1), ("port", 0), ("seed", 0)):
        if getattr(given, name) < least:
            raise UsageError(f"--{name} {getattr(given, name)}: it is at least {least}")
    if given.port > 65535:
        raise UsageError(f"--port {given.port}: ports end at 65535")
    if given.seed >= 2**64:
        raise UsageError(f"--seed {given.seed}: seeds end at 2**64 - 1")
    return Options(
        host=given.host,
        port=given.port,
        model=given.model,
        seed=given.seed,
        threads=given.threads,
        slots=given.slots,
        kv_path=None if given.kv_path is None else pathlib.Path(given.kv_path),
        readers=_readers(given.reads),
        hot_bytes=_bytes("--hot", given.hot),
        limit_bytes=None if given.pool is None else _bytes("--pool", given.pool),
        dedup=not given.no_dedup,
        compress=given.compress,
    )


def run(options: Options, told: Callable[[dict[str, object]], None] | None = None) -> None:
    """Serve in this process until it is told to stop; raises KvgateError where it can't.

    When it is ready it says so on stdout in one line of JSON, whose facts `told` gets too.
    NumPy must not have been imported before: its BLAS reads how many threads it has once.
    """
    os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))
    import asyncio

    from kvgate.serving.engine import serve

    try:
        asyncio.run(serve(options, told))
    except OSError as err:
        raise HarnessError(
            f"{options.host}:{options.port}: {os.strerror(err.errno) if err.errno else err}",
            hint="another server may have this port: give another one, or 0 for any"
            if err.errno == errno.EADDRINUSE
            else "--host is an address of this machine",
        ) from err


def _readers(text: str) -> int:
    """Return how many chunks are read at once."""
    match = re.fullmatch(r"parallel:([1-9]\d{0,2})", text)
    if text != "serial" and not match:
        raise UsageError(f"--reads {text}: neither serial nor parallel:N, N from 1 to 999")
    return int(match[1]) if match else 1


def _bytes(option: str, text: str) -> int:
    from kvgate.model.quantity import Quantity

    try:
        size = Quantity.parse(text)
    except UnitError as err:
        raise UsageError(f"{option}: {err.message}", hint=err.hint) from err
    if size.dimension != "bytes" or size.base < 0:
        raise UsageError(f"{option}: {text} is no size", hint="write e.g. '512 MiB' or '20 GB'")
    return int(size.base)
