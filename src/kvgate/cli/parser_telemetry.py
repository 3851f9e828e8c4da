"""The verb telemetry: its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]


def add_telemetry(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add telemetry to `verbs`; `add` makes one, `verb` names what it calls."""
    parser = add(
        verbs,
        "telemetry",
        "tell what a run recorded of its hosts each second: series, gaps, clocks, events",
        "kvgate telemetry RUN --host node1 --series disk.nvme0n1.read_bytes --points 500\n"
        "         kvgate telemetry RUN --series cpu.busy_pct --format csv -o cpu.csv",
    )
    parser.add_argument("run", metavar="RUN", help="the run's folder, or its name in runs/")
    parser.add_argument("--host", metavar="NAME", help="this host only (default: all)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--names", action="store_true", help="list every series")
    what.add_argument(
        "--series", metavar="NAME", help="print a series (counters: a second); * and ? match"
    )
    what.add_argument(
        "--events",
        metavar="KIND",
        nargs="?",
        const="",
        help="print what happened: kernel, gap, counter, state, clock_step, restart, … or all",
    )
    parser.add_argument("--from", dest="begin", metavar="UTC", help="2026-11-30T23:00:00")
    parser.add_argument("--to", dest="end", metavar="UTC", help="2026-12-01T01:00:00")
    parser.add_argument(
        "--points",
        metavar="N",
        type=int,
        default=60,
        help="points of a series at most: least, mean and greatest of each (default: %(default)s)",
    )
    parser.add_argument("--format", choices=("text", "json", "csv"), default="text")
    parser.add_argument(
        "--out", "-o", metavar="FILE", help="write it there, never over a file (default: print)"
    )
    parser.set_defaults(verb=verb("telemetry", "telemetry_verb"))
