"""The engine's options on a command line: ``kvgate serve`` and ``python -m kvgate.serving``."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import errno
import os
import pathlib
import re

from kvgate.errors import HarnessError, UnitError, UsageError
from kvgate.model.quantity import Quantity
from kvgate.serving.config import MODELS, model_named

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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the engine's options to `parser`."""
    group = parser.add_argument_group("serving")
    group.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="default: loopback")
    group.add_argument(
        "--port", metavar="N", type=int, default=0, help="0: any free one, told when ready"
    )
    group.add_argument("--model", default="tiny", help=f"{', '.join(MODELS)}; default: tiny")
    group.add_argument("--seed", metavar="N", type=int, default=0, help="of the weights; default 0")
    group.add_argument(
        "--threads",
        metavar="N",
        type=int,
        default=min(4, len(os.sched_getaffinity(0))),
        help="steps computed at once (default: %(default)s)",
    )
    group.add_argument(
        "--slots",
        metavar="N",
        type=int,
        default=64,
        help="requests under way at once, the others wait (default: %(default)s)",
    )
    _tier(parser)


def _tier(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the KV tier")
    which = group.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--kv-path", metavar="DIR", type=pathlib.Path, help="its folder, shared by any engines"
    )
    which.add_argument("--no-tier", action="store_true", help="recompute everything")
    group.add_argument(
        "--reads",
        metavar="HOW",
        default="parallel:4",
        help="serial, or parallel:N chunks at once (default: %(default)s)",
    )
    group.add_argument(
        "--hot", metavar="SIZE", default="0 B", help="chunks kept in memory (default: none)"
    )
    group.add_argument(
        "--pool", metavar="SIZE", help="what the folder may hold of a model (default: no bound)"
    )
    group.add_argument("--compress", choices=("none", "zstd", "lz4"), default="none")
    group.add_argument(
        "--no-dedup", action="store_true", help="store equal payloads once for each key"
    )


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
        kv_path=given.kv_path,
        readers=_readers(given.reads),
        hot_bytes=_bytes("--hot", given.hot),
        limit_bytes=None if given.pool is None else _bytes("--pool", given.pool),
        dedup=not given.no_dedup,
        compress=given.compress,
    )


def run(options: Options) -> None:
    """Serve in this process until it is told to stop; raises KvgateError where it can't.

    NumPy must not have been imported before: its BLAS reads how many threads it has once.
    """
    os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))
    from kvgate.serving.engine import serve

    try:
        asyncio.run(serve(options))
    except OSError as err:
        raise HarnessError(
            f"{options.host}:{options.port}: {err.strerror or err}",
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
    try:
        size = Quantity.parse(text)
    except UnitError as err:
        raise UsageError(f"{option}: {err.message}", hint=err.hint) from err
    if size.dimension != "bytes" or size.base < 0:
        raise UsageError(f"{option}: {text} is no size", hint="write e.g. '512 MiB' or '20 GB'")
    return int(size.base)
