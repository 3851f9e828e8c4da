"""Verbs before a run: init, import, check, plan, draft, hosts."""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
from pathlib import Path

from kvgate.cli.places import setup_of, site_of, workspace_of, write_new
from kvgate.engine.check import check
from kvgate.engine.destroy import refuse_unfit, told
from kvgate.errors import SpecError, UsageError
from kvgate.untrusted import plain


def init_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Lay out a workspace and say what to do next."""
    from kvgate.engine.content import lay_out

    laid = lay_out(Path(arguments.dir))
    for folder, names in itertools.groupby(laid.written, lambda name: name.partition("/")[0]):
        print(f"{folder}/: {sum(1 for _ in names)} files")
    if laid.same:
        print(f"{len(laid.same)} files were there already, as they are shipped")
    for name in laid.kept:
        print(f"{name}: was there with other content; left as it is")
    print(
        f"workspace: {laid.root}\n"
        f"next: cd {shlex.quote(str(laid.root))}\n"
        "      kvgate rehearse               # all gates on this machine, to see how it goes\n"
        "      kvgate draft && kvgate check  # this machine's inventory and plan\n"
        "      or copy inventory/examples/mi308x.yaml, or `kvgate import` an Ansible inventory"
    )
    return 0


def import_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Make an inventory from another tool's; 64: it is refused, with file and line."""
    from kvgate.spec.importing import import_inventory

    stdin = arguments.file == "-"
    source = "standard input" if stdin else arguments.file
    try:
        content = sys.stdin.buffer.read() if stdin else Path(arguments.file).read_bytes()
    except OSError as err:
        raise UsageError(f"{source}: {err.strerror or err}") from err
    named = arguments.name or Path(arguments.out or ("site" if stdin else arguments.file)).stem
    made = import_inventory(
        content, source, form=arguments.format, roles=arguments.role, name=named
    )
    for remark in made.remarks:
        print(plain(f"  {remark}"), file=sys.stderr)
    if not arguments.out:
        print(made.text, end="")
        return 0
    write_new(arguments.out, made.text.encode())
    print(
        f"{arguments.out}: {made.hosts} hosts\nadd what each is declared to have, then: "
        f"kvgate check --inventory {shlex.quote(arguments.out)}"
    )
    return 0


def check_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Validate everything; 0: can be run, 1: refused."""
    try:
        workspace, setup = setup_of(arguments)
        refuse_unfit(setup.inventory.value, arguments.yes_destroy)
        problems = check(workspace, setup)
    except SpecError as err:
        print(err, file=sys.stderr)
        return 1
    for problem in problems:
        print(plain(str(problem)), file=sys.stderr)
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
    for line in told(inventory, arguments.yes_destroy):
        print(plain(f"  {line}"))
    return 0


def plan_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Print what a run would do; touches no host."""
    from rich.console import Console

    from kvgate.cli.show import show_outline
    from kvgate.engine.outline import outline

    workspace, setup = setup_of(arguments)
    refuse_unfit(setup.inventory.value, arguments.yes_destroy)
    problems = check(workspace, setup)
    show_outline(Console(highlight=False), outline(workspace, setup, arguments.yes_destroy))
    for problem in problems:
        print(plain(str(problem)), file=sys.stderr)
    return 1 if problems else 0


def draft_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Draft this machine's inventory (reached without SSH) and its site plan."""
    from kvgate.engine.rehearse import draft_local

    workspace = workspace_of(arguments)
    drafted = draft_local(workspace, Path(arguments.plan))
    for remark in drafted.remarks:
        print(plain(f"  {remark}"))
    for path in (drafted.inventory, drafted.plan):
        print(workspace.name(path))
    print("correct them by hand, then: kvgate check && kvgate run")
    return 0


def hosts_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Ask every host whether it answers and what tools it has; 2: some don't answer."""
    from rich.console import Console

    from kvgate.cli.show import show_hosts
    from kvgate.engine.hosts import survey_hosts

    site = site_of(arguments)
    with site.connections(shared=True) as connections:
        reports = survey_hosts(site.inventory, connections, site.adapters)
    show_hosts(Console(highlight=False), reports)
    return 0 if all(report.ok for report in reports) else 2
