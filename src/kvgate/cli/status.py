"""The verbs status and dispose: what is missing before a run can be signed; what is proposed."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kvgate.cli.places import run_of, workspace_of
from kvgate.errors import UsageError
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from rich.console import Console

    from kvgate.engine.signing import Step
    from kvgate.model.disposed import Disposed

_MARKS = {"done": ("✓", "green"), "missing": ("✗", "bold red"), "barred": ("⊘", "yellow")}


def status_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Tell what is missing before a run can be signed; 0: nothing, 2: something."""
    from rich.console import Console

    from kvgate.engine.status import status

    run = run_of(arguments, arguments.run)
    found = status(run, _folder(arguments), datetime.datetime.now(datetime.UTC))
    console = Console(highlight=False)
    title = f"{found.run}   {found.disposed.verdict}   proposed: {_words(found.disposed)}"
    console.print(plain(title), style="bold", markup=False, soft_wrap=True)
    if len(found.lineage) > 1:
        console.print(plain(f"  lineage: {' → '.join(found.lineage)}"), markup=False)
    for step in found.steps:
        _show(console, step)
    if not found.open:
        print("nothing is missing")
    return 2 if found.open else 0


def _words(disposed: Disposed) -> str:
    return str(disposed.disposition).replace("_", " ")


def _show(console: Console, step: Step) -> None:
    from rich.text import Text

    mark, style = _MARKS[step.state]
    who = f"  [{step.by}]" if step.by else ""
    line = Text.assemble((f"{mark} ", style), plain(step.what), (plain(who), "dim"))
    console.print(line, soft_wrap=True)
    if step.next:
        console.print(Text(plain(f"    next: {step.next}"), style="dim"), soft_wrap=True)


def dispose_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Freeze the proposed disposition in the run; 0: accepted (with conditions), 1: rejected."""
    from kvgate.engine import disposing, waivers
    from kvgate.model.verdict import Disposition

    run = run_of(arguments, arguments.run)
    folder = _folder(arguments) or run / waivers.FOLDER
    made, layer = disposing.freeze(run, folder, datetime.datetime.now(datetime.UTC))
    disposed = made.stored["disposed"]
    print(f"disposition {made.number} of {run.name}: {made.disposition.replace('_', ' ')}")
    for gate in disposed["gates"]:
        words = str(gate["disposition"]).replace("_", " ")
        print(plain(f"  {gate['gate']}: {gate['verdict']}, {words}: {gate['because']}"))
        for each in gate["conditions"]:
            about = f"{each['waiver']}, {each['owner']} until {each['until']}"
            print(plain(f"    {each['criterion']}: {about}: {each['what']}"))
    print(f"sealed: {layer}\n  next: kvgate status {run.name}")
    return 0 if Disposition(made.disposition).opens_next else 1


def _folder(arguments: argparse.Namespace) -> Path | None:
    """Return the workspace's folder of waivers; None outside of any workspace."""
    from kvgate.engine import waivers

    try:
        return waivers.folder_of(workspace_of(arguments).root)
    except UsageError:
        return None
