"""The verb load: its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]


def add_load(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add load to `verbs`; `add` makes one, `verb` names what it calls."""
    parser = add(
        verbs,
        "load",
        "put load on an OpenAI endpoint and tell TTFT, ITL, TPOT, rates and failures "
        "(1: requests failed or the level is not kept, 2: inconclusive)",
        "kvgate load http://127.0.0.1:8000 --concurrency 8,16 --input-tokens 2048\n"
        "         kvgate load http://127.0.0.1:8000 --rate 5 --duration 60s --slo-ttft 2s\n"
        "         kvgate load http://127.0.0.1:8000 --find-concurrency --slo-ttft 2s "
        "--slo-tpot 50ms",
    )
    parser.add_argument("url", metavar="URL", help="the endpoint, before /v1/…")
    _endpoint(parser.add_argument_group("the endpoint"))
    _workload(parser.add_argument_group("the workload"))
    _trace(parser.add_argument_group("a trace as the workload"))
    _shape(parser.add_argument_group("how much, how long"))
    _level(parser.add_argument_group("a service level"))
    _output(parser.add_argument_group("what is shown and kept"))
    parser.set_defaults(verb=verb("load", "load_verb"))


def _endpoint(group: Any) -> None:
    group.add_argument("--model", metavar="NAME", default="", help="default: the only one served")
    group.add_argument("--chat", action="store_true", help="chat completions: prompts are texts")
    group.add_argument(
        "--text", action="store_true", help="prompts are texts, for an engine that takes no ids"
    )
    group.add_argument(
        "--plain", action="store_true", help="send only what OpenAI's protocol knows"
    )
    group.add_argument(
        "--timeout", metavar="TIME", default="600s", help="for a whole answer (default: 600s)"
    )
    group.add_argument("--ca", metavar="FILE", help="who may sign its certificate (PEM)")
    group.add_argument(
        "--key-env", metavar="NAME", help="the environment variable that holds the API key"
    )


def _workload(group: Any) -> None:
    group.add_argument(
        "--workload",
        choices=("distinct", "r2-cold"),
        default="distinct",
        help="distinct: sessions as told below; r2-cold: 34 sessions of 30 K tokens are stored, "
        "then restored at concurrency 8, 16 and 32 (default: %(default)s)",
    )
    whole: dict[str, Any] = {"metavar": "N", "type": int}
    group.add_argument("--input-tokens", **whole, help="of a prompt (default: 512)")
    group.add_argument("--output-tokens", **whole, help="of an answer (default: 64)")
    group.add_argument(
        "--shared",
        metavar="RATIO",
        type=float,
        default=0.0,
        help="share of input tokens that an infinite prefix cache would hit, e.g. 0.5 (default: 0)",
    )
    group.add_argument("--prefixes", **whole, default=1, help="how many prefixes are shared")
    group.add_argument("--turns", **whole, default=1, help="of a session (default: 1)")
    group.add_argument("--turn-tokens", **whole, help="that a further turn adds (default: 64)")
    group.add_argument("--think", metavar="TIME", default="0s", help="between turns (default: 0s)")
    group.add_argument(
        "--token-ids",
        metavar="LOW-HIGH",
        default="0-1023",
        help="what prompts are made of; keep special tokens out (default: %(default)s)",
    )
    group.add_argument("--seed", **whole, help="of all that is random (default: drawn, and told)")


def _trace(group: Any) -> None:
    group.add_argument(
        "--trace",
        metavar="FILE",
        action="append",
        help="Mooncake, Qwen-Bailian or WEKA; when it says, in an open loop; may be repeated",
    )
    group.add_argument(
        "--speed", metavar="X", type=float, default=1.0, help="times as fast (default: 1)"
    )
    group.add_argument(
        "--after-answers",
        action="store_true",
        help="a conversation goes on only after its last answer, and --think",
    )
    group.add_argument(
        "--block-tokens", metavar="N", type=int, help="for each block, instead of the trace's own"
    )


def _shape(group: Any) -> None:
    group.add_argument(
        "--concurrency", metavar="N,…", help="closed loop: so many users, one after another"
    )
    group.add_argument("--rate", metavar="X", type=float, help="open loop: sessions a second")
    group.add_argument("--steady", action="store_true", help="--rate without randomness")
    group.add_argument(
        "--requests",
        metavar="N",
        type=int,
        help="sessions a level, or requests of a trace (default: 100, or 4 a user)",
    )
    group.add_argument("--duration", metavar="TIME", help="instead of --requests")
    group.add_argument("--ramp", metavar="TIME", default="0s", help="in which users begin")
    group.add_argument(
        "--warm-up", metavar="TIME", default="0s", help="of --duration; its rows do not count"
    )
    group.add_argument(
        "--before-level",
        metavar="COMMAND",
        help="run before each level, e.g. one that drops caches",
    )
    group.add_argument(
        "--dask",
        metavar="WHERE",
        help="from several clients at once: tcp://host:port, ssh:FILE, slurm:N[,key=value…]",
    )


def _level(group: Any) -> None:
    group.add_argument("--slo-ttft", metavar="TIME", help="limit of TTFT")
    group.add_argument("--slo-tpot", metavar="TIME", help="limit of TPOT")
    group.add_argument(
        "--slo-percent", metavar="P", type=float, default=90.0, help="percentile (default: 90)"
    )
    group.add_argument(
        "--find-concurrency",
        action="store_true",
        help="search the highest concurrency that keeps the level",
    )
    group.add_argument(
        "--most", metavar="N", type=int, default=512, help="of the search (default: 512)"
    )
    group.add_argument(
        "--tolerance",
        metavar="SHARE",
        type=float,
        default=0.1,
        help="how far apart its ends may be (default: 0.1)",
    )
    group.add_argument(
        "--repeats", metavar="N", type=int, default=3, help="at each end (default: 3)"
    )


def _output(group: Any) -> None:
    group.add_argument("--rows", metavar="FILE", help="keep every request's row, as JSON lines")
    group.add_argument("--json", action="store_true", help="print JSON, not text")
    group.add_argument(
        "--out", "-o", metavar="FILE", help="also write an HTML page, never over a file"
    )
