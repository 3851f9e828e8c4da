"""The verbs predict and claims: their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]


def add_predict(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add predict to `verbs`; `add` makes one, `verb` names what it calls."""
    parser = add(
        verbs,
        "predict",
        "reckon TTFT, TPOT and tok/s of each arm, published or at a site (2: nothing measured)",
        "kvgate predict --published -o predicted.html\n"
        '         kvgate predict --from RUN --ttft-limit "15 s"',
    )
    parser.add_argument(
        "--published", action="store_true", help="against the published joint test, R1 to R3"
    )
    parser.add_argument(
        "--fit", metavar="FILE", help="fit on a file's rows marked 'use: fit', check on the others"
    )
    parser.add_argument(
        "--from", metavar="RUN", dest="run", help="what the bandwidths that a run measured come to"
    )
    _asked(parser)
    _output(parser)
    parser.set_defaults(verb=verb("predict", "predict_verb"))


def _asked(parser: argparse.ArgumentParser) -> None:
    """Add what is asked of a site: with --from."""
    parser.add_argument("--ttft-limit", metavar="TIME", help="the p90 TTFT to keep, e.g. '15 s'")
    parser.add_argument(
        "--concurrency", metavar="N,…", default="1,2,4,8,16,32,64", help="default: %(default)s"
    )
    parser.add_argument(
        "--assume",
        metavar="REPORT",
        help="whose model, prefill, decode and overhead are taken: of those published "
        "(default: R2), or of --fit's file (default: its first), for another model or other GPUs",
    )
    parser.add_argument("--dtype", choices=("bf16", "fp16", "fp8"), help="of the KV")
    parser.add_argument("--tokens", metavar="N", type=int, help="restored tokens a session")
    parser.add_argument("--output-tokens", metavar="N", type=int, help="of each answer")


def add_claims(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add claims to `verbs`, likewise."""
    parser = add(
        verbs,
        "claims",
        "check a supplier's claims against physics and each other (1: some are wrong)",
        "kvgate claims inventory/examples/claims-fx100.yaml",
    )
    parser.add_argument("file", metavar="FILE", help="the claims as data; see the example")
    _output(parser)
    parser.set_defaults(verb=verb("claims", "claims_verb"))


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, not text")
    parser.add_argument(
        "--out", "-o", metavar="FILE", help="also write an HTML page, never over a file"
    )
