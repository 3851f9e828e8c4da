"""Holds the hosts of an inventory for one run: two controllers at once would measure each other."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from pathlib import Path

from kvgate.spec.inventory import Host, Inventory, Role
from kvgate.store.hostlock import HostLock

LOCKS = ".locks"
"""The folder of locks, in runs/."""

HERE = "this machine"


def places(inventory: Inventory) -> dict[str, str]:
    """Return place → name of each host: address and port, behind those of its jump hosts.

    The controller's own machine (transport: local) is one place; a recording is none. So are
    switches and BMCs: they are only looked at, and other runs may look too.
    """
    found: dict[str, str] = {}
    for host in inventory.hosts.values():
        if host.is_device and host.role is not Role.ARRAY:
            continue
        if host.transport in ("ssh", "https", "http"):
            found[_way(inventory, host)] = host.name
        elif host.transport == "local":
            found[HERE] = host.name
    return found


def _way(inventory: Inventory, host: Host) -> str:
    before = f"{_way(inventory, inventory.hosts[host.jump])}>" if host.jump else ""
    return f"{before}{(host.address or '').lower()}:{host.port}"


def hold(runs: Path, hosts: Mapping[str, str], run: str = "") -> HostLock:
    """Hold `hosts` (see `places`) against other controllers that use the folder `runs`.

    Raises HostsInUseError with who has them, StoreError where `runs` can't be written.
    """
    return HostLock(runs / LOCKS, hosts, user=user(), run=run)


def user() -> str:
    """Return who runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a uid without an account
        return "unknown"
