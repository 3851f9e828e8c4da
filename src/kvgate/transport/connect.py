"""From an inventory's host to the transport that reaches it, jump hosts included."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Mapping
from types import TracebackType

from kvgate.errors import SpecError
from kvgate.spec.inventory import Host, Inventory
from kvgate.transport import secret
from kvgate.transport.base import Transport
from kvgate.transport.local import LocalTransport
from kvgate.transport.recorded import RecordedTransport, Scope, nowhere
from kvgate.transport.recording import of_bytes


class Connections:
    """The transports to an inventory's hosts, one a host, made when asked for; thread-safe.

    A jump host's connection is shared by all that go through it. Use as a context manager: what
    was started through them ends with the block. The inventory's secrets are masked from then on,
    whichever host says them.

    `recordings` maps each recorded host to the bytes of its recording; `scope` tells them in which
    gate or block is being asked, and `timing` lets their answers take as long as they took.
    `logins` is how each adapter logs in over HTTP (`spec.adapter`).
    """

    def __init__(
        self,
        inventory: Inventory,
        recordings: Mapping[str, bytes] | None = None,
        *,
        scope: Scope = nowhere,
        timing: bool = False,
        logins: Mapping[str, str] | None = None,
    ) -> None:
        self._inventory = inventory
        self._logins = logins or {}
        self._recordings = recordings or {}
        self._scope = scope
        self._timing = timing
        self._made: dict[str, Transport] = {}
        self._lock = threading.Lock()
        secret.learn(inventory.hosts.values())

    def to(self, host: Host) -> Transport:
        """Return the transport to `host`; opens nothing. SpecError: no or an endless way to it."""
        way = self._way(host)
        with self._lock:
            for hop, via in zip(way, [None, *way], strict=False):
                if hop.name not in self._made:
                    self._made[hop.name] = self._make(hop, via)
            return self._made[host.name]

    def close(self) -> None:
        """Close every connection, targets before the jump hosts they go through."""
        with self._lock:
            made = dict(self._made)
            self._made.clear()
        jumps = {host.jump for host in self._inventory.hosts.values()}
        for names in ([n for n in made if n not in jumps], [n for n in made if n in jumps]):
            with concurrent.futures.ThreadPoolExecutor(max(1, len(names))) as pool:
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

        through = self._made[via.name] if via else None
        return SshTransport(hop, through if isinstance(through, SshTransport) else None)

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
