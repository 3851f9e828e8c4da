"""The rehearsal: this machine as its own site, drafted, reached by a private sshd on loopback."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kvgate.engine.draft import Draft, bom_file, draft
from kvgate.engine.holding import HERE, Held, hold
from kvgate.engine.workspace import (
    LOCAL_INVENTORY,
    LOCAL_PLAN,
    Setup,
    Workspace,
    frozen_setup,
    load_setup,
)
from kvgate.simulate.devices import simulated
from kvgate.spec.inventory import Host, Inventory
from kvgate.store.reader import RunReader
from kvgate.transport.connect import Connections
from kvgate.transport.sshd import PrivateSshd

SSH_INVENTORY = "inventory/local/rehearsal.yaml"
SSH_FOLDER = "inventory/local/sshd"
SSH_PLAN = "gates/plans/local/rehearsal-ssh.yaml"
DEVICES_FOLDER = "inventory/local/simulated"
MACHINE = "this-machine"
SCRATCH = "runs/.scratch"


@dataclasses.dataclass(frozen=True, slots=True)
class Drafted:
    """Where a draft was written, and what its reader should know."""

    inventory: Path
    plan: Path
    remarks: tuple[str, ...]


class Rehearsed(NamedTuple):
    """What is rehearsed: the setup, remarks on it, and the hold on this machine."""

    setup: Setup
    remarks: tuple[str, ...]
    held: Held


@contextlib.contextmanager
def rehearsal(
    workspace: Workspace, plan: Path, *, resumed: Path | None = None
) -> Iterator[Rehearsed]:
    """Yield what is rehearsed while its sshd runs; nothing is left afterwards.

    Simulated devices answer beside it: a switch, an array and a BMC, marked so in the inventory.
    What listens for a `resumed` run does so where the run's frozen inventory has it.
    Raises HarnessError where sshd is missing, SpecError where the drafted files are not sound,
    HostsInUseError where this machine is in use by another run of this workspace.
    """
    ports = _ports(resumed)
    folder = workspace.root / DEVICES_FOLDER
    with (
        hold(workspace.runs, {HERE: HERE}, resumed.name if resumed else "") as held,
        PrivateSshd(workspace.root / SSH_FOLDER, port=ports.get(MACHINE, 0)) as sshd,
        simulated(folder, of=MACHINE, ports=ports) as devices,
    ):
        places = (workspace.root / SSH_INVENTORY, workspace.root / SSH_PLAN)
        drafted = _draft(workspace, plan, places, sshd.host_entry(), devices)
        setup = load_setup(workspace, drafted.plan, drafted.inventory)
        yield Rehearsed(setup, drafted.remarks, held)


def _ports(resumed: Path | None) -> dict[str, int]:
    """Return host → the port it had in the rehearsal that goes on; empty without one."""
    if resumed is None:
        return {}
    hosts = frozen_setup(RunReader(resumed)).inventory.value.hosts.values()
    return {host.name: host.port for host in hosts if host.transport in ("ssh", "https")}


def draft_local(workspace: Workspace, plan: Path) -> Drafted:
    """Draft this machine's inventory, reached without SSH, and its site plan."""
    places = (workspace.root / LOCAL_INVENTORY, workspace.root / LOCAL_PLAN)
    return _draft(workspace, plan, places, {"transport": "local"}, {})


def _draft(
    workspace: Workspace,
    plan: Path,
    places: tuple[Path, Path],
    connection: Mapping[str, Any],
    devices: Mapping[str, Mapping[str, Any]],
) -> Drafted:
    """Ask this machine what it has, and write inventory and site plan into `places`."""
    scratch = workspace.root / SCRATCH
    scratch.mkdir(parents=True, exist_ok=True)
    entry = {
        "roles": ["serving", "client"],
        **connection,
        "tools": _tools(),
        "scratch": str(scratch),
        "baseline": "rehearsal-linux",
    }
    host = Host.model_validate(entry).model_copy(update={"name": MACHINE})
    site = Inventory.model_validate({"inventory": MACHINE, "hosts": {MACHINE: entry}})
    with Connections(site) as connections:
        found: Draft = draft(
            host,
            connections.to(host),
            entry,
            workspace=workspace.root,
            plan=workspace.name(plan),
            devices=devices,
        )
    for path, text in zip(places, (found.inventory, found.plan), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    if found.bom:
        (places[0].parent / bom_file(host.name)).write_text(found.bom, "utf-8")
    return Drafted(*places, found.remarks)


def _tools() -> dict[str, str]:
    """Return the paths of the tools that this login might not have in its PATH over SSH."""
    system = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
    places = f"{Path(sys.executable).parent}:{system}"
    found = {"python": sys.executable}
    for tool in ("fio", "nvme", "lspci", "smartctl", "ethtool", "ip"):
        if path := shutil.which(tool, path=places):
            found[tool] = path
    return found
