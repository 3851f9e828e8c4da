"""The engine's options on a command line: ``kvgate serve`` and ``python -m kvgate.serving``.

What they mean is `serving.launch`'s; this is imported for every ``kvgate --help`` and so is light.
"""

from __future__ import annotations

import argparse
import os


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the engine's options to `parser`."""
    group = parser.add_argument_group("serving")
    group.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="default: loopback")
    group.add_argument(
        "--port",
        metavar="N",
        type=int,
        default=0,
        help="0: any free one, told when ready (default: %(default)s)",
    )
    group.add_argument("--model", default="tiny", help="tiny, wide (much KV), pico; default: tiny")
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
    which.add_argument("--kv-path", metavar="DIR", help="its folder, shared by any engines")
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
