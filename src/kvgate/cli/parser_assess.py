"""The verbs assess and capture: their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]


def add_assess(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add assess to `verbs`; `add` makes one, `verb` names what it calls."""
    parser = add(
        verbs,
        "assess",
        "what a workload reuses, from its trace: hits by capacity, cold data, bandwidth, advice",
        "kvgate assess trace.jsonl --model qwen3-coder-480b-a35b "
        '--hbm "1 TB" --dram "1.5 TB" --tier "30 TB"',
    )
    parser.add_argument(
        "traces",
        metavar="TRACE",
        nargs="+",
        help="Mooncake, WEKA or Qwen-Bailian, of `kvgate capture`, or JSON lines of token ids or "
        "texts; several are merged by time",
    )
    parser.add_argument("--model", metavar="MODEL", help="of `kvgate models`: bytes of a token")
    parser.add_argument(
        "--dtype", choices=("bf16", "fp16", "fp8"), default="bf16", help="of the KV"
    )
    for level, told in (("hbm", "for KV"), ("dram", "for KV"), ("tier", "(default: no end)")):
        parser.add_argument(f"--{level}", metavar="SIZE", help=f"{level.upper()} {told}")
    parser.add_argument(
        "--exclusive", action="store_true", help="a level holds only what the one before evicts"
    )
    parser.add_argument(
        "--path", metavar="RATE", help="what restores get without a device path, e.g. '12.5 GB/s'"
    )
    _sample(parser)
    parser.add_argument("--block", metavar="TOKENS", type=int, help="a block's tokens, plain lines")
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer.json, for texts")
    parser.add_argument("--json", action="store_true", help="print JSON, not text")
    parser.add_argument(
        "--html", "-o", dest="out", metavar="FILE", help="also write a page, never over a file"
    )
    parser.set_defaults(verb=verb("assess", "assess_verb"))


def _sample(parser: argparse.ArgumentParser) -> None:
    """Add how a trace beyond memory is sampled, and by whom."""
    sample = parser.add_mutually_exclusive_group()
    sample.add_argument("--rate", metavar="SHARE", type=float, help="sample so much of the blocks")
    sample.add_argument("--sample", metavar="BLOCKS", type=int, help="sample at most so many")
    parser.add_argument(
        "--dask",
        metavar="WHERE",
        help="by analysis nodes (docs/dask.md): tcp://host:port, ssh:FILE, slurm:N[,key=value…]",
    )


def add_capture(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add capture to `verbs`, likewise."""
    parser = add(
        verbs,
        "capture",
        "write a site's own workload as a trace without its texts: salted hashes of prefix blocks",
        "kvgate capture --access-log requests.jsonl --out site.jsonl\n"
        "         kvgate capture --proxy http://127.0.0.1:8000 --listen 8100 --out site.jsonl",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--access-log", metavar="FILE", nargs="+", help="OpenAI-style requests as JSON lines"
    )
    source.add_argument("--engine-log", metavar="FILE", nargs="+", help="vLLM's log of requests")
    source.add_argument("--proxy", metavar="URL", help="pass requests through to this engine")
    parser.add_argument(
        "--listen",
        metavar="[HOST:]PORT",
        default="8100",
        help="with --proxy: where; on 127.0.0.1 unless a host is told (default: %(default)s)",
    )
    parser.add_argument(
        "--block", metavar="TOKENS", type=int, default=16, help="default: %(default)s"
    )
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer.json; without: 4 bytes each")
    parser.add_argument("--out", "-o", metavar="FILE", required=True, help="never over a file")
    parser.set_defaults(verb=verb("capture", "capture_verb"))
