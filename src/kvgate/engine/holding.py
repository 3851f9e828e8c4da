"""Holds the hosts of an inventory for one run: two controllers at once would measure each other."""

from __future__ import annotations

import getpass
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from kvgate.spec.inventory import Host, Inventory, Role
from kvgate.store.hostlock import HostLock, machine_folder

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


class Held:
    """Hosts that are held until `release`, or our end."""

    def __init__(self, *locks: HostLock) -> None:
        self._locks = locks

    def name_run(self, run: str) -> None:
        """Tell others which run the hosts are held for."""
        for lock in self._locks:
            lock.name_run(run)

    def release(self) -> None:
        """Let the hosts go; a second call does nothing."""
        for lock in self._locks:
            lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def hold(
    runs: Path, hosts: Mapping[str, str], run: str = "", *, machine: Path | None = None
) -> Held:
    """Hold `hosts` (see `places`) against other controllers on this machine.

    Those that use the folder `runs` are told of every host; those of other workspaces and users
    (in the folder `machine`, else `hostlock.machine_folder`) of the hosts beyond this machine: a
    rehearsal disturbs nobody's site. Raises HostsInUseError with who has them, StoreError where
    `runs` can't be written.
    """
    mine = HostLock(runs / LOCKS, hosts, user=user(), run=run)
    beyond = {place: name for place, name in hosts.items() if not _is_here(place)}
    shared = machine or (machine_folder() if beyond else None)
    if shared is None or not beyond:
        return Held(mine)
    try:
        return Held(mine, HostLock(shared, beyond, user=user(), run=run))
    except BaseException:
        mine.release()
        raise


def _is_here(place: str) -> bool:
    address = place.rpartition(":")[0]
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return place == HERE or address == "localhost"


def user() -> str:
    """Return who runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a uid without an account
        return "unknown"
