"""The verb replay: its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]


def add_replay(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add replay to `verbs`; `add` makes one, `verb` names what it calls."""
    parser = add(
        verbs,
        "replay",
        "replay a model's KV traffic on a folder's storage; no GPU (1: damaged, 2: not proven)",
        "kvgate replay --path /mnt/device --sessions 4 --tokens 4096 --concurrency 2,4\n"
        "         kvgate replay --inventory site.yaml --host node1,node2 --reads serial,parallel:8",
    )
    parser.add_argument("--path", metavar="DIR", help="a folder here; replay makes its own in it")
    parser.add_argument("--inventory", metavar="FILE", help="the inventory of --host")
    parser.add_argument("--host", metavar="NAME,…", help="hosts, at once; in their scratch folders")
    parser.add_argument("--arm", metavar="ARM", help="the folder of this arm, not the scratch one")
    _geometry(parser)
    _reads(parser)
    _tier(parser)
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print JSON, not text")
    parser.set_defaults(verb=verb("replay", "replay_verb"))


def _geometry(parser: argparse.ArgumentParser) -> None:
    """Add what a session is."""
    group = parser.add_argument_group("sessions")
    group.add_argument(
        "--model", metavar="NAME", default="qwen3-coder-480b", help="of `kvgate models`"
    )
    group.add_argument("--dtype", choices=("bf16", "fp16", "fp8"), default="bf16")
    group.add_argument("--tp", metavar="N", type=int, default=8, help="tensor-parallel ranks")
    group.add_argument(
        "--ranks", metavar="N", type=int, help="how many of them are on each host (default: all)"
    )
    group.add_argument("--tokens", metavar="N", type=int, default=30208, help="of a session")
    group.add_argument("--chunk-tokens", metavar="N", type=int, default=256)
    group.add_argument("--sessions", metavar="N", type=int, default=8)
    group.add_argument(
        "--shared",
        metavar="PCT",
        type=int,
        default=0,
        help="of a session: the same bytes in all",
    )
    group.add_argument("--compressible", metavar="PCT", type=int, choices=(0, 50, 80), default=0)
    group.add_argument("--extents", action="store_true", help="one file a session, not a chunk")


def _reads(parser: argparse.ArgumentParser) -> None:
    """Add how sessions are restored."""
    group = parser.add_argument_group("restoring")
    group.add_argument("--concurrency", metavar="N,…", default="8,16,32", help="sessions at once")
    group.add_argument(
        "--reads", metavar="HOW,…", default="parallel:8", help="serial, or parallel:N chunks a rank"
    )
    group.add_argument("--block", metavar="SIZE", help="of one read or write (default: a chunk)")
    group.add_argument("--buffered", action="store_true", help="through the page cache")
    group.add_argument("--drop-caches", action="store_true", help="of the whole host")
    group.add_argument(
        "--no-check", action="store_true", help="don't compare what comes back: proves nothing (2)"
    )
    group.add_argument("--mixed", metavar="PCT", type=int, default=0, help="are stored meanwhile")
    group.add_argument("--trace", metavar="FILE", help="restore by a trace's own arrivals")
    group.add_argument("--speed", metavar="X", type=float, default=1.0, help="of the trace")
    group.add_argument(
        "--two-by-two", metavar="N", type=int, help="N rounds of dedup on/off × serial/parallel"
    )


def _tier(parser: argparse.ArgumentParser) -> None:
    """Add what is done with the tier as a whole."""
    group = parser.add_argument_group("the tier")
    group.add_argument("--capacity", metavar="SIZE", help="what --fill and --full may take")
    group.add_argument("--fill", metavar="PCT,…", help="use it at so many percent, with eviction")
    group.add_argument("--full", action="store_true", help="store until there is no space left")
    group.add_argument("--plant", action="store_true", help="plant faults: does each get found?")
