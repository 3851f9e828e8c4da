"""From what the command line says to the workspace, files, run and quantities that are meant."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvgate.engine.content import shipped_templates
from kvgate.engine.workspace import Setup, Workspace, default_inventory, default_plan, load_setup
from kvgate.errors import UnitError, UsageError
from kvgate.spec.load import nearest

if TYPE_CHECKING:
    from kvgate.engine.site import Site
    from kvgate.model.quantity import Quantity


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
    inventory = _inventory(arguments, workspace)
    plan = Path(arguments.plan) if arguments.plan else default_plan(workspace, inventory)
    return workspace, load_setup(workspace, plan, inventory)


def site_of(arguments: argparse.Namespace) -> Site:
    """Return the site of the inventory that is meant; raises SpecError."""
    from kvgate.engine.site import load_site

    workspace = workspace_of(arguments)
    return load_site(workspace, _inventory(arguments, workspace))


def _inventory(arguments: argparse.Namespace, workspace: Workspace) -> Path:
    return Path(arguments.inventory) if arguments.inventory else default_inventory(workspace)


def own_models(arguments: argparse.Namespace) -> Path | None:
    """Return the folder of the workspace's own models; None outside of any."""
    try:
        return workspace_of(arguments).root / "inventory" / "models"
    except UsageError:  # outside of any workspace the shipped ones are known
        return None


def quantity_of(option: str, text: str, hint: str = "") -> Quantity:
    """Return what `text` says; raises UsageError, which names the option."""
    from kvgate.model.quantity import Quantity

    try:
        return Quantity.parse(text)
    except UnitError as err:
        raise UsageError(f"{option}: {err.message}", hint=hint or err.hint) from err


def write_new(path: str, content: bytes) -> None:
    """Write `content` into the new file `path`; raises UsageError where that is there, or can't."""
    try:
        file = Path(path).open("xb", buffering=0)  # noqa: SIM115  closed below
        try:
            with file:
                written = file.write(content)
                while written < len(content):
                    written += file.write(content[written:])
        except OSError:  # a full disk: half a file is none
            Path(path).unlink()
            raise
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}; nothing was written") from err


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
