"""Begins a run: the manifest and the frozen inputs, before any host is touched."""

from __future__ import annotations

import datetime
import hashlib
import platform
import secrets
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvgate.engine.check import version
from kvgate.engine.control import changed_since, control_inputs
from kvgate.engine.holding import user
from kvgate.engine.scope_out import KEY
from kvgate.engine.workspace import Setup, Workspace, recording_input
from kvgate.errors import StoreError
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter


def create_run(
    workspace: Workspace,
    setup: Setup,
    *,
    gates: Sequence[str],
    command: Sequence[str],
    forced: str = "",
    timing: bool = False,
    yes_destroy: Sequence[str] = (),
    retest: Mapping[str, Any] | None = None,
) -> Path:
    """Make the run folder with manifest and inputs, and return its path; raises StoreError.

    `gates` are those this run decides; `forced` is the reason given with ``--force-gate``;
    `timing` lets recorded hosts take as long as they took; `yes_destroy` are the serials of devices
    that people let be written over; `retest` is what it repeats (`engine.retest`).
    """
    now = datetime.datetime.now(datetime.UTC)
    name = f"{now:%Y%m%dT%H%M%SZ}-{setup.plan.value.plan}-{secrets.token_hex(2)}"
    inputs = {key: file.content for key, file in setup.files()}
    inputs |= {recording_input(host): content for host, content in setup.recordings.items()}
    inputs |= control_inputs(workspace, setup)
    for gate in gates:
        inputs |= suite_files(workspace, setup.planned(gate).suite)
    manifest: dict[str, Any] = {
        "run": name,
        "created": now.isoformat(timespec="seconds"),
        **_made_by(workspace),
        "command": list(command),
        "gates": list(gates),
        **_told_by(setup),
        **_marks(setup, timing, yes_destroy),
        **({KEY: dict(retest)} if retest else {}),
    }
    with RunWriter.create(workspace.runs / name, manifest, inputs) as run:
        _begin(run, manifest, forced)
        for text in changed_since(inputs):
            run.event("note", text=text)
    return workspace.runs / name


def _begin(run: RunWriter, manifest: dict[str, Any], forced: str) -> None:
    """Journal how the run began: by whom, with what, and what people said to let it."""
    who = manifest["who"]
    run.event(
        "run_begin",
        command=manifest["command"],
        version=version(),
        git=manifest["git"],
        who=who,
    )
    if "yes_destroy" in manifest:
        run.event("destroy_consent", yes_destroy=manifest["yes_destroy"], who=who)
    if KEY in manifest:
        run.event("retest", **manifest[KEY])
    if forced:
        run.event("forced", gate=manifest["gates"][0], reason=forced)


def _marks(setup: Setup, timing: bool, yes_destroy: Sequence[str]) -> dict[str, Any]:
    """Return what marks the run: recorded, composed, and which devices it may write over."""
    inventory = setup.inventory.value
    return {
        **({"recorded": True, "timing": timing} if inventory.recorded else {}),
        **({"composed": True} if inventory.composed else {}),
        **({"yes_destroy": list(yes_destroy)} if yes_destroy else {}),
    }


def _told_by(setup: Setup) -> dict[str, Any]:
    """Return what the plan and the inventory say of the run."""
    plan, inventory = setup.plan, setup.inventory
    return {
        "plan": plan.value.plan,
        "title": plan.value.title,
        "profile": plan.value.profile,
        "seed": plan.value.seed,
        "inventory": inventory.value.inventory,
        "inventory_file": inventory.files[0].name,
        "plan_file": plan.files[0].name,
        "criteria_digest": setup.criteria_digest(),
    }


def _made_by(workspace: Workspace) -> dict[str, Any]:
    """Return who makes the run, with what, from which commit."""
    return {
        "who": {"user": user(), "host": socket.gethostname()},
        "kvgate": version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": git_head(workspace.root),
    }


def suite_files(workspace: Workspace, suite: str) -> dict[str, bytes]:
    """Return the suite's Python files, by their names in a run's inputs/."""
    folder = workspace.root / suite
    paths = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    return {f"suites/{folder.name}/{p.relative_to(folder)}": p.read_bytes() for p in paths}


def refuse_changed_suite(workspace: Workspace, reader: RunReader, suite: str) -> None:
    """Raise StoreError if the suite's files are not those the run began with."""
    prefix = f"suites/{Path(suite).name}/"
    then = {
        name: hashlib.sha256(reader.input(name)).hexdigest()
        for name in reader.manifest["inputs"]
        if str(name).startswith(prefix)
    }
    now = {
        name: hashlib.sha256(content).hexdigest()
        for name, content in suite_files(workspace, suite).items()
    }
    changed = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    if changed:
        raise StoreError(
            f"{changed[0]}: is not the file that this run began with",
            hint="put it back to resume this run, or start a new one",
        )


def git_head(folder: Path) -> dict[str, Any]:
    """Return the commit that `folder` stands at and whether files differ from it; empty if none."""

    def ask(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *words], capture_output=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None

    head = ask("rev-parse", "HEAD")
    return {} if head is None else {"head": head, "dirty": bool(ask("status", "--porcelain"))}
