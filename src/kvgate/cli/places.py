"""From what the command line says to the workspace, the files and the run that are meant."""

from __future__ import annotations

import argparse
from pathlib import Path

from kvgate.engine.content import shipped_templates
from kvgate.engine.workspace import Setup, Workspace, default_inventory, default_plan, load_setup
from kvgate.errors import UsageError
from kvgate.spec.load import nearest


def workspace_of(arguments: argparse.Namespace) -> Workspace:
    """Return the workspace that is meant; raises UsageError."""
    return Workspace.find(Path(arguments.workspace))


def templates_of(arguments: argparse.Namespace) -> Path:
    """Return the report templates: the workspace's, or the shipped ones outside of any."""
    try:
        return workspace_of(arguments).templates
    except UsageError:
        return shipped_templates()


def setup_of(arguments: argparse.Namespace) -> tuple[Workspace, Setup]:
    """Return the workspace and the loaded plan, inventory and gates; raises SpecError."""
    workspace = workspace_of(arguments)
    inventory = Path(arguments.inventory) if arguments.inventory else default_inventory(workspace)
    plan = Path(arguments.plan) if arguments.plan else default_plan(workspace, inventory)
    return workspace, load_setup(workspace, plan, inventory)


def run_of(arguments: argparse.Namespace, named: str) -> Path:
    """Return a run's folder, given as a path or by its name in runs/; raises UsageError."""
    path = Path(named)
    if (path / "manifest.json").is_file():
        return path.resolve()
    runs: list[str] = []
    if path.name == named.rstrip("/"):
        folder = workspace_of(arguments).runs
        if (folder / named / "manifest.json").is_file():
            return folder / path.name
        runs = [each.parent.name for each in folder.glob("*/manifest.json")]
    raise UsageError(
        f"'{named}' is no run (a folder with a manifest.json)"
        f"{nearest(path.name, runs) if runs else ''}"
    )
