"""The verb claims: a supplier's claims against physics and each other."""

from __future__ import annotations

import argparse
from pathlib import Path


def claims_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Show what each claim of a file comes to; 1: some can't stand as they are written."""
    from kvgate.cli.places import own_models
    from kvgate.cli.predict import show
    from kvgate.kv.claims import check, wrong
    from kvgate.kv.models import known
    from kvgate.report.claimed import document, sheet
    from kvgate.spec.claims import load_claims

    loaded = load_claims(Path(arguments.file))
    findings = check(loaded, known(own_models(arguments)))
    show(arguments, sheet(loaded.value, findings), document(loaded.value, findings))
    return 1 if wrong(findings) else 0
