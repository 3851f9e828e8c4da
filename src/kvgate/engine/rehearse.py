"""The rehearsal: this machine as its own site, drafted, reached by a private sshd on loopback."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kvgate.engine.draft import Draft, bom_file, draft
from kvgate.engine.holding import HERE, hold
from kvgate.engine.workspace import (
    LOCAL_INVENTORY,
    LOCAL_PLAN,
    Setup,
    Workspace,
    frozen_setup,
    load_setup,
)
from kvgate.spec.inventory import Host, Inventory
from kvgate.store.reader import RunReader
from kvgate.transport.connect import Connections
from kvgate.transport.sshd import PrivateSshd

SSH_INVENTORY = "inventory/local/rehearsal.yaml"
SSH_FOLDER = "inventory/local/sshd"
SCRATCH = "runs/.scratch"


@dataclasses.dataclass(frozen=True, slots=True)
class Drafted:
    """Where a draft was written, and what its reader should know."""

    inventory: Path
    plan: Path
    remarks: tuple[str, ...]


@contextlib.contextmanager
def rehearsal(
    workspace: Workspace, plan: Path, *, resumed: Path | None = None
) -> Iterator[tuple[Setup, tuple[str, ...]]]:
    """Yield the rehearsal's setup and remarks while its sshd runs; nothing is left afterwards.

    The sshd of a `resumed` run listens where the run's frozen inventory has it.
    Raises HarnessError where sshd is missing, SpecError where the drafted files are not sound,
    HostsInUseError where this machine is in use by another run of this workspace.
    """
    with (
        hold(workspace.runs, {HERE: HERE}),
        PrivateSshd(workspace.root / SSH_FOLDER, port=_port(resumed)) as sshd,
    ):
        drafted = _draft(workspace, plan, SSH_INVENTORY, sshd.host_entry())
        yield load_setup(workspace, drafted.plan, drafted.inventory), drafted.remarks


def _port(resumed: Path | None) -> int:
    """Return the port of the sshd that a rehearsal began with, 0 without one."""
    if resumed is None:
        return 0
    hosts = frozen_setup(RunReader(resumed)).inventory.value.hosts.values()
    return next((host.port for host in hosts if host.transport == "ssh"), 0)


def draft_local(workspace: Workspace, plan: Path) -> Drafted:
    """Draft this machine's inventory, reached without SSH, and its site plan."""
    return _draft(workspace, plan, LOCAL_INVENTORY, {"transport": "local"})


def _draft(
    workspace: Workspace, plan: Path, inventory: str, connection: Mapping[str, Any]
) -> Drafted:
    """Ask this machine what it has, and write inventory and site plan."""
    scratch = workspace.root / SCRATCH
    scratch.mkdir(parents=True, exist_ok=True)
    entry = {
        "roles": ["serving", "client"],
        **connection,
        "tools": _tools(),
        "scratch": str(scratch),
        "baseline": "rehearsal-linux",
    }
    host = Host.model_validate(entry).model_copy(update={"name": "this-machine"})
    site = Inventory.model_validate({"inventory": "this-machine", "hosts": {"this-machine": entry}})
    with Connections(site) as connections:
        found: Draft = draft(
            host, connections.to(host), entry, workspace=workspace.root, plan=workspace.name(plan)
        )
    written = (workspace.root / inventory, workspace.root / LOCAL_PLAN)
    for path, text in zip(written, (found.inventory, found.plan), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    if found.bom:
        (written[0].parent / bom_file(host.name)).write_text(found.bom, "utf-8")
    return Drafted(*written, found.remarks)


def _tools() -> dict[str, str]:
    """Return the paths of the tools that this login might not have in its PATH over SSH."""
    system = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
    places = f"{Path(sys.executable).parent}:{system}"
    found = {"python": sys.executable}
    for tool in ("fio", "nvme", "lspci", "smartctl", "ethtool", "ip"):
        if path := shutil.which(tool, path=places):
            found[tool] = path
    return found
