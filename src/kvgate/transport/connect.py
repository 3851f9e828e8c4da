"""From an inventory's host to the transport that reaches it, jump hosts included."""

from __future__ import annotations

import collections
import concurrent.futures
import math
import os
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kvgate.errors import SpecError
from kvgate.spec.inventory import Host, Inventory
from kvgate.transport import secret
from kvgate.transport.base import Transport
from kvgate.transport.local import LocalTransport
from kvgate.transport.recorded import RecordedTransport, Scope, nowhere
from kvgate.transport.recording import of_bytes

if TYPE_CHECKING:
    from kvgate.transport.fleet import Fleet

AT_ONCE = 200
"""How many hosts are asked at a time, where the inventory does not say: with those that are kept
open, at three file descriptors each, they stay below the usual limit of 1,024."""

EACH_AT_ONCE = 128
"""How many of them by one of several processes."""

KEPT_OPEN = 64
"""How many connections to hosts that are not being asked stay open: each costs two threads'
memory and three file descriptors, opening one again 5 ms and eight round trips."""

HOSTS_FROM = 256
"""From so many hosts on several processes pay: each costs 0.4 s of CPU to begin with."""

_MOST_PROCESSES = 16  # from there on the controller, which reads the answers, is what limits


@runtime_checkable
class Rests(Protocol):
    """A transport whose connection can be closed while nothing runs on it."""

    def rest(self) -> None:
        """Close the connection unless something runs on it."""
        ...


def _processes(inventory: Inventory) -> int:
    """Return how many processes share the work on these hosts; 0: this one does it alone."""
    hosts = sum(host.transport == "ssh" and not host.is_device for host in inventory.hosts.values())
    cores = len(os.sched_getaffinity(0))
    if hosts < HOSTS_FROM or cores < 2:
        return 0
    return min(cores, _MOST_PROCESSES, hosts // EACH_AT_ONCE)


class Connections:
    """The transports to an inventory's hosts, one a host, made when asked for; thread-safe.

    A jump host's connection is shared by all that go through it. Use as a context manager: what
    was started through them ends with the block. The inventory's secrets are masked from then on,
    whichever host says them.

    `recordings` maps each recorded host to the bytes of its recording; `scope` tells them in which
    gate or block is being asked, and `timing` lets their answers take as long as they took.
    `logins` is how each adapter logs in over HTTP (`spec.adapter`). With `shared` several processes
    share the work where there are many hosts (`transport.fleet`).
    """

    def __init__(
        self,
        inventory: Inventory,
        recordings: Mapping[str, bytes] | None = None,
        *,
        scope: Scope = nowhere,
        timing: bool = False,
        logins: Mapping[str, str] | None = None,
        shared: bool = False,
        kept_open: int = KEPT_OPEN,
    ) -> None:
        self._inventory = inventory
        self._logins = logins or {}
        self._recordings = recordings or {}
        self._scope = scope
        self._timing = timing
        self._made: dict[str, Transport] = {}
        self._lock = threading.Lock()
        self._resting: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._kept_open = kept_open
        self._fleet: Fleet | None = None
        self.at_once = inventory.hosts_at_once or AT_ONCE
        secret.learn(inventory.hosts.values())
        processes = _processes(inventory) if shared else 0
        if processes:
            from kvgate.transport.fleet import Fleet

            self.at_once = inventory.hosts_at_once or EACH_AT_ONCE * processes
            each = math.ceil(self.at_once / processes)
            self._fleet = Fleet(inventory, processes=processes, at_once=each)

    @property
    def workers(self) -> tuple[int, ...]:
        """Return the processes that share the work."""
        return self._fleet.pids if self._fleet else ()

    def to(self, host: Host) -> Transport:
        """Return the transport to `host`; opens nothing. SpecError: no or an endless way to it."""
        way = self._way(host)
        with self._lock:
            for hop, via in zip(way, [None, *way], strict=False):
                if hop.name not in self._made:
                    self._made[hop.name] = self._make(hop, via)
            return self._made[host.name]

    def rest(self, host: Host) -> None:
        """Note that `host` is not asked for now: of many such connections the oldest is closed.

        It is opened again when it is needed. Nothing that runs is disturbed.
        """
        with self._lock:
            self._resting[host.name] = None
            self._resting.move_to_end(host.name)
            if len(self._resting) <= self._kept_open:
                return
            name, _ = self._resting.popitem(last=False)
            oldest = self._made.get(name)
        if isinstance(oldest, Rests):
            oldest.rest()

    def close(self) -> None:
        """Close every connection, targets before the jump hosts they go through."""
        if self._fleet is not None:
            self._fleet.close()
        with self._lock:
            made = dict(self._made)
            self._made.clear()
        jumps = {host.jump for host in self._inventory.hosts.values()}
        for names in ([n for n in made if n not in jumps], [n for n in made if n in jumps]):
            with concurrent.futures.ThreadPoolExecutor(min(len(names), AT_ONCE) or 1) as pool:
                list(pool.map(lambda name: made[name].close(), names))

    def __enter__(self) -> Connections:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _way(self, host: Host) -> list[Host]:
        """Return the hops to `host`, nearest to us first and the host last."""
        way = [host]
        while way[0].jump is not None:
            hop = self._inventory.hosts.get(way[0].jump)
            if hop is None:
                raise SpecError(
                    f"{way[0].name}: jump host '{way[0].jump}' is not in the inventory",
                    hint=f"one of: {', '.join(self._inventory.hosts)}",
                )
            if hop.name in [one.name for one in way]:
                raise SpecError(f"{host.name}: jump host '{hop.name}' is reached through itself")
            if hop.transport != "ssh":
                raise SpecError(f"{way[0].name}: jump host '{hop.name}' is not reached by ssh")
            way.insert(0, hop)
        return way

    def _make(self, hop: Host, via: Host | None) -> Transport:
        """Make one hop's transport; paramiko is imported (180 ms) only where there is SSH."""
        if hop.transport == "local":
            return LocalTransport(hop.name)
        if hop.transport == "recorded":
            return self._recorded(hop)
        if hop.transport in ("https", "http"):
            from kvgate.transport.https import HttpsTransport

            return HttpsTransport(hop, login=self._logins.get(hop.adapter or "", "none"))
        if hop.is_device:
            from kvgate.transport.console import console_to

            return console_to(hop)
        from kvgate.transport.ssh import SshTransport

        made = self._made[via.name] if via else None
        through = made if isinstance(made, SshTransport) else None
        if self._fleet is None:
            return SshTransport(hop, through)
        from kvgate.transport.fleet import FleetTransport

        return FleetTransport(hop, self._fleet, through)

    def _recorded(self, host: Host) -> RecordedTransport:
        if host.name not in self._recordings:
            raise SpecError(
                f"{host.name}: its recording '{host.recording}' was not loaded",
                hint="a recorded inventory is run by its file, beside which the recordings lie",
            )
        name = host.recording or host.name
        recording = of_bytes(self._recordings[host.name], name)
        if recording.host != host.name:
            raise SpecError(f"{name}: is a recording of '{recording.host}', not of '{host.name}'")
        return RecordedTransport(host.name, recording, scope=self._scope, timing=self._timing)
