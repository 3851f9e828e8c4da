"""The verbs that hand a run over and check it: sign, export, verify: their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]

ROLES = ("buyer", "supplier", "supervisor", "integrator", "witness")
DECISIONS = ("accepted", "accepted_with_conditions", "rejected", "witnessed")
REQUIRE_HEAD = "head"
_RUN = "the run's folder, or its name in runs/"


def add_sign(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add the verbs to `verbs`; `add` makes one, `verb` names what it calls."""
    _sign(verbs, add).set_defaults(verb=verb("sign", "sign_verb"))
    _export(verbs, add).set_defaults(verb=verb("sign", "export_verb"))
    _verify(verbs, add).set_defaults(verb=verb("verify", "verify_verb"))


def _sign(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "sign",
        "sign a sealed run's results for a party, a plan's criteria before, or a journal meanwhile",
        "kvgate sign --protocol --plan gates/plans/site-a.yaml --inventory inventory/site-a.yaml "
        "--role buyer --key ~/.ssh/id_ed25519\n"
        "         kvgate sign RUN --role buyer --key ~/.ssh/id_ed25519",
    )
    _what(parser)
    _who(parser, required=True)
    parser.add_argument(
        "--tsa",
        metavar="URL",
        default="",
        help="have the signature stamped with the time (RFC 3161) by this authority",
    )
    parser.add_argument(
        "--decision",
        choices=DECISIONS,
        metavar="D",
        default="",
        help=f"of {', '.join(DECISIONS)} (default: accepted, where all passed)",
    )
    parser.add_argument(
        "--condition",
        metavar="TEXT",
        action="append",
        default=[],
        help="what is still to be done, by whom, until when; may be given several times",
    )
    return parser


def _what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help=_RUN)
    parser.add_argument(
        "--protocol", action="store_true", help="sign the criteria of --plan and --inventory"
    )
    parser.add_argument(
        "--head",
        action="store_true",
        help="countersign the journal of a run that goes on: by hand, for no controller's key",
    )
    parser.add_argument("--plan", metavar="FILE", help="with --protocol: the plan")
    parser.add_argument("--inventory", metavar="FILE", help="with --protocol: the hosts")


def _who(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--role", required=required, choices=ROLES, metavar="ROLE", help=f"of {', '.join(ROLES)}"
    )
    parser.add_argument(
        "--key",
        required=required,
        metavar="FILE",
        help="an SSH key, or a .pub whose private half an agent or a token holds",
    )
    parser.add_argument(
        "--principal", metavar="NAME", default="", help="the signatory, where the key doesn't tell"
    )


def _export(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "export",
        "write a sealed run as one archive to hand over; with --key sign its digest",
        "kvgate export RUN -o acceptance.tar.zst --role supplier --key ~/.ssh/id_ed25519",
    )
    parser.add_argument("run", metavar="RUN", help=_RUN)
    parser.add_argument(
        "--out", "-o", metavar="FILE", help=".tar.zst or .tar, never over a file (default: RUN)"
    )
    _who(parser, required=False)
    return parser


def _verify(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "verify",
        "check a run or an archive, offline: what was altered, who signed what (1: not as it was)",
        "kvgate verify RUN --allowed-signers contract/allowed_signers --require buyer",
    )
    parser.add_argument("run", metavar="RUN", nargs="?", help=f"{_RUN}; or an exported archive")
    parser.add_argument(
        "--allowed-signers",
        metavar="FILE",
        help="keys to trust instead of those that the run's plan names",
    )
    parser.add_argument(
        "--require",
        metavar="ROLE",
        action="append",
        default=[],
        choices=(*ROLES, REQUIRE_HEAD),
        help=f"this role must have signed ({REQUIRE_HEAD}: the journal's head, throughout); may be "
        "given several times",
    )
    parser.add_argument(
        "--tsa-ca", metavar="FILE", help="certificates (PEM) of whose time stamps are believed"
    )
    parser.add_argument(
        "--script", metavar="FILE", help="write the verifier that needs no kvgate, and exit"
    )
    return parser
