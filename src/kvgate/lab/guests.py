"""What is asked of the guests: whether they are up, and the lab's own scripts, by SSH."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping, Sequence

from kvgate.errors import CommandError, HarnessError, HostUnreachableError
from kvgate.lab import inventory, process
from kvgate.lab.places import Places
from kvgate.lab.progress import Say, Waiting
from kvgate.transport.base import CommandResult
from kvgate.transport.connect import Connections

PATIENCE_S = 300.0
_SCRIPT_S = 240.0
_TRIES = 3
BOOTS = "boots"
"""The file of a machine that was reset: how many boots its console must show by then."""

SERVE_LOG = "/run/serve.log"
BOOTED = b"lab-boot done"
SERVED = b"lab-serve "


class Guests:
    """The guests of a running lab; use as a context manager."""

    def __init__(self, places: Places, ports: Mapping[str, int], say: Say) -> None:
        self._places = places
        self._ports = ports
        self._say = say
        self._inventory = inventory.hosts(places, ports)
        self._connections = Connections(self._inventory)

    def __enter__(self) -> Guests:
        """Return self; a connection is opened when it is needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._connections.close()

    def run(self, vm: str, argv: Sequence[str], timeout_s: float = _SCRIPT_S) -> CommandResult:
        """Run `argv` in the guest; raises CommandError where it ends badly."""
        host = self._inventory.hosts[vm]
        return self._connections.to(host).run(argv, timeout_s=timeout_s).expect_ok()

    def boots(self, vm: str) -> int:
        """Return how often `vm` has booted since it was started."""
        return self._console(vm).count(BOOTED)

    def _console(self, vm: str) -> bytes:
        return (self._places.of(vm) / "console.log").read_bytes()

    def until_up(self, vm: str, patience_s: float = PATIENCE_S, *, boots: int = 1) -> None:
        """Wait until `vm` has booted `boots` times, its SSH answers and it serves what it serves.

        Raises HarnessError with the console's end where the machine ends, or the patience.
        """
        self._until_console(vm, BOOTED, boots, patience_s)
        self._until_ssh(vm, patience_s)
        self._until_console(vm, SERVED, boots, patience_s)
        if b"failed" in self._console(vm).rpartition(SERVED)[2].partition(b"\n")[0]:
            told = self.run(vm, ["cat", SERVE_LOG]).stdout.decode("utf-8", "replace")
            raise HarnessError(f"lab: {vm} could not serve: {told.strip()[-600:]}")

    def _until_console(self, vm: str, marker: bytes, count: int, patience_s: float) -> None:
        # Not by its port: QEMU accepts connections long before the guest is up, and then tries to
        # pass them on with growing pauses.
        folder = self._places.of(vm)
        what = f"{vm}: '{marker.decode().strip()}' on its console"
        waiting = Waiting(self._say, what, patience_s)
        while self._console(vm).count(marker) < count:
            if process.running(folder) is None:
                raise HarnessError(f"lab: {vm} ended: {process.last_words(folder)}")
            waiting.pause(process.last_words(folder, "console.log", 1))

    def _until_ssh(self, vm: str, patience_s: float) -> None:
        waiting = Waiting(self._say, f"{vm}: SSH on port {self._ports[vm]}", patience_s)
        while not self._banner(vm):
            waiting.pause()
        for left in reversed(range(_TRIES)):
            try:
                self.run(vm, ["true"])
            except (HostUnreachableError, CommandError):
                if not left:
                    raise
                waiting.pause("it does not answer yet", pause_s=1)
            else:
                return

    def _banner(self, vm: str) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._ports[vm]), timeout=5) as stream,
        ):
            return stream.recv(4) == b"SSH-"
        return False
