"""The verbs of people's acts: waive, dispose, retest, attest, status: their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]


def add_acts(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add the verbs to `verbs`; `add` makes one, `verb` names what it calls."""
    _status(verbs, add).set_defaults(verb=verb("status", "status_verb"))
    _attest(verbs, add).set_defaults(verb=verb("attest", "attest_verb"))
    _waive(verbs, add).set_defaults(verb=verb("waive", "waive_verb"))
    _retest(verbs, add).set_defaults(verb=verb("retest", "retest_verb"))
    dispose = add(
        verbs,
        "dispose",
        "freeze the proposed disposition and its waivers in a run, as a sealed layer (1: rejected)",
        "kvgate dispose RUN",
    )
    _run(dispose)
    dispose.set_defaults(verb=verb("status", "dispose_verb"))


def _run(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?" if optional else None,
        help="the run's folder, or its name in runs/",
    )


def _status(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "status",
        "tell what is missing before a run can be signed, by whom, and the command (2: something)",
        "kvgate status RUN",
    )
    _run(parser)
    return parser


def _attest(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "attest",
        "answer a run's manual checks: packing list, seals, appearance, lights (2: some are open)",
        "kvgate attest RUN --by 'Li Wei'\n"
        "         kvgate attest RUN --write-sheet checks.xlsx   (fill it in, then --sheet it)",
    )
    _run(parser)
    parser.add_argument("--by", metavar="NAME", help="who looked (asked for on a terminal)")
    parser.add_argument("--sheet", metavar="FILE", help="take the answers of this CSV or XLSX")
    parser.add_argument(
        "--write-sheet", metavar="FILE", help="write the blank sheet there, CSV or XLSX"
    )
    parser.add_argument(
        "--strip-metadata",
        action="store_true",
        help="take metadata (EXIF, place, comments) out of photos; JPEG and PNG only",
    )
    parser.add_argument(
        "--again", action="store_true", help="ask what was answered, too; both answers stay"
    )
    return parser


def _waive(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "waive",
        "draft a waiver, deviation or open item for a criterion, or sign one",
        "kvgate waive RUN --criterion G1.101\n"
        "         kvgate waive --sign W-0001 --role buyer --key ~/.ssh/id_ed25519",
    )
    _run(parser, optional=True)
    parser.add_argument("--criterion", metavar="ID", help="the one criterion it is for")
    parser.add_argument(
        "--kind",
        choices=("waiver", "deviation", "open_item"),
        default="waiver",
        help="deviation: agreed before any run; open_item: of class B (default: %(default)s)",
    )
    parser.add_argument(
        "--place",
        metavar="HOST[/ITEM][=SERIAL]",
        action="append",
        default=[],
        help="where it holds (default: every place that failed, by its unit's serial number)",
    )
    for name, text in FIELDS.items():
        parser.add_argument(f"--{name}", metavar="TEXT", help=text)
    parser.add_argument("--expires", metavar="DAY", help="the last day it holds, 2026-12-31")
    parser.add_argument("--sign", metavar="W-NNNN", help="approve this one, as --role by --key")
    parser.add_argument("--role", choices=("buyer", "supplier"), help="the party that approves")
    parser.add_argument("--key", metavar="FILE", help="SSH key; a public one where an agent runs")
    parser.add_argument("--plan", metavar="FILE", help="names the parties of a deviation")
    parser.add_argument("--list", action="store_true", help="list all, and what each does for RUN")
    return parser


FIELDS = {
    "requester": "who asks for it",
    "owner": "who brings it to its end by then",
    "justification": "why it may be accepted",
    "risk": "what can come of it",
}
"""What a waiver says beside criterion and places, each with its question."""


def _retest(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "retest",
        "test named criteria of a run again: a new run that cites it; nothing sealed is touched",
        "kvgate retest RUN --criterion G1.101,G1.102\n"
        "         kvgate retest RUN --changed node1/S6BENE0R200123 --inventory site-a-new.yaml",
    )
    _run(parser)
    parser.add_argument(
        "--criterion", metavar="ID,…", action="append", default=[], help="what to test again"
    )
    parser.add_argument(
        "--changed",
        metavar="HOST[/ITEM]",
        action="append",
        default=[],
        help="a part that was replaced or updated: all that depends on it is tested again",
    )
    parser.add_argument(
        "--inventory", metavar="FILE", help="with the new part's serial number (default: the run's)"
    )
    parser.add_argument("--reason", metavar="TEXT", default="", help="what was done about it")
    parser.add_argument(
        "--controller-key",
        metavar="FILE",
        default="",
        help="countersigns the journal unattended (default: KVGATE_CONTROLLER_KEY)",
    )
    parser.add_argument(
        "--yes-destroy",
        metavar="SERIAL",
        action="append",
        default=[],
        help="let this device, declared destructive, be written over; may be given several times",
    )
    return parser
