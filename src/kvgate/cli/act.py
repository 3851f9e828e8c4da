"""Verbs that run gates: run, rehearse."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from kvgate.cli.live import LiveView, make_console
from kvgate.cli.places import run_of, setup_of, workspace_of
from kvgate.cli.show import show_result
from kvgate.engine import destroy
from kvgate.engine.check import refuse_unsound
from kvgate.engine.countersign import use_key
from kvgate.engine.holding import hold, places
from kvgate.engine.start import create_run
from kvgate.engine.supervise import Outcome, resume, run_gates
from kvgate.engine.workspace import Setup, Workspace, frozen_setup
from kvgate.errors import UsageError
from kvgate.model.finding import RunResult
from kvgate.report.write import write_reports
from kvgate.store.reader import RunReader
from kvgate.untrusted import plain


def run_verb(arguments: argparse.Namespace, command: list[str]) -> int:
    """Run a plan, one gate of it, or go on with a run."""
    if arguments.force_gate and not arguments.gate:
        raise UsageError("--force-gate goes with --gate: it opens one gate for diagnosis")
    if arguments.resume:
        if arguments.gate or arguments.plan or arguments.inventory or arguments.yes_destroy:
            raise UsageError(
                "--resume takes everything from the run: no --plan, --inventory, --gate, "
                "--yes-destroy"
            )
        path = run_of(arguments, arguments.resume)
        workspace = Workspace.find(path.parent)
        reader = RunReader(path)
        inventory = frozen_setup(reader).inventory.value
        use_key(frozen_setup(reader).plan.value, arguments.controller_key)
        held_for = places(inventory) | destroy.places(inventory, destroy.consented(reader))
        with hold(workspace.runs, held_for, path.name):
            return conclude(workspace, watched(workspace, resume(workspace, path), path), "run")
    workspace, setup = setup_of(arguments)
    inventory = setup.inventory.value
    destroy.refuse_unfit(inventory, arguments.yes_destroy)
    refuse_unsound(workspace, setup)
    use_key(setup.plan.value, arguments.controller_key)
    gates = [entry.gate for entry in setup.plan.value.gates]
    if arguments.gate:
        gates = [setup.planned(arguments.gate).gate]
    held_for = places(inventory) | destroy.places(inventory, arguments.yes_destroy)
    with hold(workspace.runs, held_for) as held:
        path = create_run(
            workspace,
            setup,
            gates=gates,
            command=command,
            forced=arguments.force_gate,
            timing=arguments.timing,
            yes_destroy=arguments.yes_destroy,
        )
        held.name_run(path.name)
        ended = watched(workspace, setup, path)
    return conclude(workspace, ended, "run")


def rehearse_verb(arguments: argparse.Namespace, command: list[str]) -> int:
    """Rehearse all gates on this machine, reached by a private sshd on loopback."""
    from kvgate.engine.rehearse import rehearsal

    workspace = workspace_of(arguments)
    console = make_console()
    resumed = run_of(arguments, arguments.resume) if arguments.resume else None
    with rehearsal(workspace, Path(arguments.plan), resumed=resumed) as (setup, remarks, held):
        for remark in remarks:
            console.print(plain(remark), style="dim", markup=False)
        if resumed:
            path = resumed
            setup = resume(workspace, path)
        else:
            refuse_unsound(workspace, setup)
            gates = [entry.gate for entry in setup.plan.value.gates]
            path = create_run(workspace, setup, gates=gates, command=command)
            held.name_run(path.name)
        ended = watched(workspace, setup, path)
    return conclude(workspace, ended, "rehearse")


def watched(workspace: Workspace, setup: Setup, path: Path) -> tuple[Outcome, Path]:
    """Run the gates of the run at `path`, watched; return how it ended and its HTML report."""

    def render(run: Path, result: RunResult) -> None:
        written[:] = write_reports(run, result, templates=workspace.templates)

    written: list[Path] = []
    with LiveView(f"{setup.plan.value.title}: {path.name}", make_console()) as view:
        outcome = run_gates(workspace, setup, path, tell=view.tell, render=render)
    return outcome, next((each for each in written if each.suffix == ".html"), path)


def conclude(workspace: Workspace, ended: tuple[Outcome, Path], verb: str) -> int:
    """Print the verdict table and where the report lies; return the exit code."""
    outcome, report = ended
    console = Console(highlight=False)
    reader = RunReader(outcome.run)
    closed = {
        str(e.fields["gate"]): str(e.fields["because"]) for e in reader.events("gate_refused")
    }
    show_result(console, outcome.result, closed)
    if reader.manifest.get("recorded") is True:
        how = "RECORDED, COMPOSED BY HAND" if reader.manifest.get("composed") else "RECORDED"
        console.print(f"{how} — can never be signed as an acceptance", style="bold yellow")
    console.print(f"report: {workspace.name(report)}", markup=False, soft_wrap=True)
    if outcome.broke:
        print(
            f"kvgate: the run broke off: {plain(outcome.broke)}\n"
            f"  go on with: kvgate {verb} --resume {outcome.run.name}",
            file=sys.stderr,
        )
    else:
        print(f"next: kvgate status {outcome.run.name}")
    return outcome.exit_code
