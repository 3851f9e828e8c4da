"""A site by its inventory alone, with what its hosts and devices are asked by: no plan, no run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kvgate.engine.workspace import Workspace, adapters_for, load_recordings
from kvgate.spec.adapter import Adapter
from kvgate.spec.inventory import Host, Inventory
from kvgate.spec.load import load_inventory
from kvgate.transport.connect import Connections


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """An inventory, the adapters of its devices, and the recordings of its recorded hosts."""

    inventory: Inventory
    adapters: dict[str, Adapter]
    recordings: dict[str, bytes]

    def connections(self, *, shared: bool = False) -> Connections:
        """Return the ways to its hosts; with `shared`, several processes take part (`connect`)."""
        logins = {name: each.login for name, each in self.adapters.items()}
        return Connections(self.inventory, self.recordings, logins=logins, shared=shared)

    def adapter(self, host: Host) -> Adapter | None:
        """Return the adapter that `host` is asked by: None where it is a computer."""
        return self.adapters[host.adapter] if host.adapter else None


def load_site(workspace: Workspace, path: Path) -> Site:
    """Load the inventory at `path` and all that belongs to it; raises SpecError."""
    loaded = load_inventory(path, name=workspace.name(path))
    found = adapters_for(workspace, loaded, path)
    adapters = {name: each.value for name, each in found.items()}
    return Site(loaded.value, adapters, load_recordings(loaded.value, path.parent))
