"""The verb waive: drafts a waiver from a run's finding, signs one, lists all."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvgate.cli.parser_acts import FIELDS
from kvgate.cli.places import run_of, workspace_of
from kvgate.errors import UsageError
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from kvgate.engine.workspace import Workspace
    from kvgate.spec.control import Control


def waive_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Draft a waiver, deviation or open item; with --sign approve one, with --list list all."""
    workspace = workspace_of(arguments)
    if arguments.list:
        return _list(arguments, workspace)
    if arguments.sign:
        return _sign(arguments, workspace)
    return _draft(arguments, workspace)


def _draft(arguments: argparse.Namespace, workspace: Workspace) -> int:
    from kvgate.engine import waive, waivers
    from kvgate.errors import SpecError

    if arguments.criterion is None:
        raise UsageError("waive needs --criterion ID: one waiver is for one criterion")
    scope = [_place(text) for text in arguments.place]
    if arguments.kind == "deviation":
        if arguments.run:
            raise UsageError("a deviation is agreed before any run: leave RUN out")
        fields: dict[str, Any] = {"criterion": arguments.criterion, "scope": scope}
    elif not arguments.run:
        raise UsageError("a waiver is for what a run found: name the RUN")
    else:
        fields = waive.from_finding(run_of(arguments, arguments.run), arguments.criterion, scope)
    try:
        told = _asked(arguments, fields)
        path = waivers.draft(
            waivers.folder_of(workspace.root), {"kind": arguments.kind, **fields, **told}
        )
    except SpecError as err:
        raise UsageError(err.message, hint="nothing was written") from err
    print(f"{workspace.name(path)}: read it, correct it if need be, then it is signed as it stands")
    if arguments.kind != "open_item":
        for role in ("buyer", "supplier"):
            print(f"  {role}: kvgate waive --sign {path.stem} --role {role} --key KEY")
    if arguments.run:
        print(f"  what it does: kvgate status {arguments.run}")
    return 0


def _place(text: str) -> dict[str, str]:
    """Return a place that ``HOST[/ITEM][=SERIAL]`` names."""
    where, _, serial = text.partition("=")
    host, _, item = where.partition("/")
    if not host:
        raise UsageError(f"--place '{text}' is not HOST[/ITEM][=SERIAL]")
    return {"host": host} | {k: v for k, v in (("serial", serial), ("item", item)) if v}


def _asked(arguments: argparse.Namespace, known: Mapping[str, Any]) -> dict[str, str]:
    """Return what people say: by options, else asked for on a terminal; raises UsageError."""
    wanted = FIELDS | {"expires": "the last day it holds, such as 2026-12-31"}
    told = {name: getattr(arguments, name) for name in wanted if getattr(arguments, name)}
    missing = [name for name in wanted if name not in told]
    if missing and not sys.stdin.isatty():
        raise UsageError(
            f"waive needs {', '.join(f'--{name}' for name in missing)} too: here is no terminal "
            "to ask on"
        )
    if missing and "finding" in known:
        print(plain(f"{known['criterion']}: {known['finding']}"))
    for name in missing:
        answer = ""
        while not answer:
            answer = input(f"{name} ({wanted[name]}): ").strip()
        told[name] = answer
    return told


def _sign(arguments: argparse.Namespace, workspace: Workspace) -> int:
    from kvgate.engine import waivers

    if not (arguments.role and arguments.key):
        raise UsageError("--sign goes with --role and --key")
    folder = waivers.folder_of(workspace.root)
    path = waivers.approve(
        folder,
        arguments.sign,
        role=arguments.role,
        key=Path(arguments.key).expanduser(),
        control=_control(arguments, workspace, folder / f"{arguments.sign}.yaml"),
        at=datetime.datetime.now(datetime.UTC),
    )
    print(f"{workspace.name(path)}: approved by the {arguments.role}")
    return 0


def _control(arguments: argparse.Namespace, workspace: Workspace, path: Path) -> Control:
    """Return the parties by whose keys a waiver is signed: of its run's plan, else of --plan."""
    from kvgate.engine.workspace import frozen_setup
    from kvgate.spec.load import load_plan
    from kvgate.spec.waiver import load_waiver
    from kvgate.store.reader import RunReader

    run = load_waiver(path, name=path.name).value.run if path.is_file() else None
    if run is not None:
        plan = frozen_setup(RunReader(run_of(arguments, run))).plan.value
    elif arguments.plan:
        plan = load_plan(Path(arguments.plan), root=workspace.root).value
    else:
        raise UsageError(f"'{arguments.sign}' names no run: say with --plan whose parties it binds")
    if plan.control is None:
        raise UsageError(
            f"plan '{plan.plan}' names no parties, so that nobody can sign",
            hint="give it a control: section (docs/sign-off.md)",
        )
    return plan.control


def _list(arguments: argparse.Namespace, workspace: Workspace) -> int:
    from kvgate.engine import waivers
    from kvgate.engine.status import status

    folder = waivers.folder_of(workspace.root)
    found = waivers.read(folder)
    for problem in found.problems:
        print(plain(problem), file=sys.stderr)
    effects = {}
    if arguments.run:
        now = datetime.datetime.now(datetime.UTC)
        stands = status(run_of(arguments, arguments.run), folder, now)
        effects = {each.waiver: each for each in stands.disposed.effects}
    for held in found.held:
        each = held.waiver
        signed = ", ".join(approval.role for approval, _ in held.approvals.values()) or "nobody"
        about = f"{each.waiver}  {each.kind} for {each.criterion}"
        print(plain(f"{about}, until {each.expires}, owner {each.owner}; signed by {signed}"))
        if each.waiver in effects:
            effect = effects[each.waiver]
            told = effect.because if effect.holds else f"no effect: {effect.because}"
            print(plain(f"        {told}"))
    if not found.held:
        print(f"no waivers in {workspace.name(folder)}")
    return 0
