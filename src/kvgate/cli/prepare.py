"""Verbs before a run: check, plan, draft, hosts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kvgate.cli.places import setup_of, workspace_of
from kvgate.engine.check import check
from kvgate.errors import SpecError


def check_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Validate everything; 0: can be run, 1: refused."""
    try:
        workspace, setup = setup_of(arguments)
        problems = check(workspace, setup)
    except SpecError as err:
        print(err, file=sys.stderr)
        return 1
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    plan, inventory = setup.plan.value, setup.inventory.value
    gates = [setup.gates[entry.gate].value for entry in plan.gates]
    count = sum(len(gate.criteria) for gate in gates)
    print(
        f"plan '{plan.plan}' ({', '.join(gate.gate for gate in gates)}; {count} criteria, "
        f"{len(plan.scoped_out())} scoped out) can be run on inventory '{inventory.inventory}' "
        f"({len(inventory.hosts)} hosts)"
    )
    return 0


def plan_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Print what a run would do; touches no host."""
    from rich.console import Console

    from kvgate.cli.show import show_outline
    from kvgate.engine.outline import outline

    workspace, setup = setup_of(arguments)
    problems = check(workspace, setup)
    show_outline(Console(highlight=False), outline(workspace, setup))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def draft_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Draft this machine's inventory (reached without SSH) and its site plan."""
    from kvgate.engine.rehearse import draft_local

    workspace = workspace_of(arguments)
    drafted = draft_local(workspace, Path(arguments.plan))
    for remark in drafted.remarks:
        print(f"  {remark}")
    for path in (drafted.inventory, drafted.plan):
        print(workspace.name(path))
    print("correct them by hand, then: kvgate check && kvgate run")
    return 0


def hosts_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Ask every host whether it answers and what tools it has; 2: some don't answer."""
    from rich.console import Console

    from kvgate.cli.show import show_hosts
    from kvgate.engine.hosts import survey_hosts
    from kvgate.engine.workspace import default_inventory
    from kvgate.spec.load import load_inventory
    from kvgate.transport.connect import Connections

    workspace = workspace_of(arguments)
    path = Path(arguments.inventory) if arguments.inventory else default_inventory(workspace)
    inventory = load_inventory(path, name=workspace.name(path)).value
    with Connections(inventory) as connections:
        reports = survey_hosts(inventory, connections.to)
    show_hosts(Console(highlight=False), reports)
    return 0 if all(report.ok for report in reports) else 2
