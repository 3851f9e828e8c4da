"""The verb scan: its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]


def add_scan(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add scan to `verbs`; `add` makes one, `verb` names what it calls."""
    parser = add(
        verbs,
        "scan",
        "tell how much of what is stored is redundant, and where (2: something was left out)",
        "kvgate scan /mnt/kv --state kv.scan -o scan.html\n"
        "         kvgate scan /mnt/kv --inventory site.yaml --host node1 --json",
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", help="folders or files; links are not")
    parser.add_argument(
        "--blocks",
        metavar="SIZE,…",
        default="4KiB,8KiB,32KiB,128KiB,cdc",
        help="block sizes; cdc: content-defined chunks (default: %(default)s)",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        default="1 GB",
        help="for all of it; a tree beyond it is sampled, with the error told (default: 1 GB)",
    )
    parser.add_argument("--jobs", metavar="N", type=int, default=0, help="worker processes")
    parser.add_argument(
        "--state", metavar="FILE", help="keep what was found; killed, the same command goes on"
    )
    parser.add_argument("--inventory", metavar="FILE", help="the inventory of --host")
    parser.add_argument("--host", metavar="NAME,…", help="scan there, each by itself, at once")
    parser.add_argument(
        "--dask",
        metavar="WHERE",
        help="by analysis nodes that see PATH: tcp://host:port, ssh:FILE, slurm:N[,key=value…]",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not text")
    parser.add_argument(
        "--out", "-o", metavar="FILE", help="also write an HTML page, never over a file"
    )
    parser.set_defaults(verb=verb("scan", "scan_verb"))
