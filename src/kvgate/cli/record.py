"""The verb that records a site from a run."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from kvgate.cli.places import run_of, workspace_of


def record_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Record what a run's hosts answered, and say how to replay it."""
    from kvgate.engine.record import record
    from kvgate.untrusted import plain

    workspace = workspace_of(arguments)
    made = record(workspace, run_of(arguments, arguments.run), Path(arguments.out))
    for host, answers in made.answers.items():
        print(f"{host}: {answers} answers")
    for remark in made.remarks:
        print(plain(f"  {remark}"))
    plan, inventory = (shlex.quote(workspace.name(each)) for each in (made.plan, made.inventory))
    print(f"replay it with: kvgate run --plan {plan} --inventory {inventory}")
    return 0
