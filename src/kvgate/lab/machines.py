"""The lab as a whole: up, down, status, destroy; one caller at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from kvgate.errors import HarnessError, UsageError
from kvgate.lab import accel, image, inventory, process, vm
from kvgate.lab.guests import BOOTS, PATIENCE_S, Guests
from kvgate.lab.places import DEFAULT, Places
from kvgate.lab.progress import Say, Waiting, alone, quiet

_LOCK_S = 900.0
_QEMU_IMG_S = 60.0
_PORTS = "ports.json"
_OF_A_START = ("pid", "pid.new", "qmp", "console.log", "qemu.log", "root.qcow2", BOOTS)


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """How one machine is: its pid (None: down), its SSH port, its memory in MiB."""

    name: str
    pid: int | None
    port: int | None
    rss_mib: int | None


class Lab:
    """The lab in `places`; what it does is told to `say`."""

    def __init__(self, places: Places, say: Say = quiet) -> None:
        self.places = places
        self._say = say

    def up(
        self, *, accelerated: str = "", patience_s: float = PATIENCE_S, connect: str = "tcp"
    ) -> None:
        """Start the machines that are not up and return when all answer and are connected.

        1. Clean up what was killed.  2. Start.  3. Wait for SSH and the target's export.
        4. Connect both paths by `connect` (tcp, rdma, none), and give the initiator soft-RoCE on
        both ports. Raises HarnessError where one does not come up.
        """
        if not image.built(self.places):
            raise HarnessError("lab: there is no image, or an old one", hint="kvgate lab build")
        self.places.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._alone():
            how = accel.chosen(accelerated, self.places, self._say)
            began = time.monotonic()
            started = [each for each in vm.VMS.values() if self._start(each, how)]
            ports = self.ports()
            inventory.write(self.places, ports)
            with Guests(self.places, ports, self._say) as guests:
                for each in vm.VMS.values():
                    guests.until_up(each.name, patience_s)
                    took = time.monotonic() - began
                    self._say(f"{each.name} answers on port {ports[each.name]} after {took:.0f} s")
                if connect != "none" and vm.INI in started:
                    guests.run("ini", ["/lab/nvmet.sh", "rxe"])
                    guests.run("ini", ["/lab/connect.sh", connect])
                    self._say(f"ini is connected to tgt by {connect}, on both networks")

    def down(self) -> list[str]:
        """End the machines and return the names of those that ran; drives and image stay."""
        if not self.places.state.is_dir():
            return []
        with self._alone():
            return [each.name for each in vm.VMS.values() if self._stop(each.name)]

    def destroy(self) -> list[str]:
        """End the machines and remove all of this lab but the image, which all labs share."""
        ended = self.down()
        shutil.rmtree(self.places.state, ignore_errors=True)
        return ended

    def status(self) -> list[State]:
        """Return how each machine is."""
        ports = self.ports()
        return [
            State(name, pid, ports.get(name), _rss_mib(pid) if pid else None)
            for name in vm.VMS
            for pid in [process.running(self.places.of(name))]
        ]

    def ports(self) -> dict[str, int]:
        """Return machine → SSH port, as far as any was started."""
        try:
            told = json.loads((self.places.state / _PORTS).read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as err:
            raise HarnessError(
                f"{self.places.state / _PORTS}: {err}", hint="kvgate lab destroy"
            ) from err
        return {str(name): int(port) for name, port in told.items()}

    def guests(self) -> Guests:
        """Return the guests of a lab that is up; raises UsageError where it is not."""
        if missing := [state.name for state in self.status() if state.pid is None]:
            raise UsageError(f"lab: {' and '.join(missing)} not up", hint="kvgate lab up")
        return Guests(self.places, self.ports(), self._say)

    def _start(self, each: vm.Vm, how: str) -> bool:
        folder = self.places.of(each.name)
        if process.running(folder) is not None:
            self._say(f"{each.name} is up already")
            return False
        self._stop(each.name)
        folder.mkdir(exist_ok=True)
        for drive in each.drives:
            path = folder / f"{drive.name}.img"
            if not path.exists() or path.stat().st_size != drive.size_bytes:
                with path.open("wb") as made:
                    made.truncate(drive.size_bytes)  # sparse: takes what is written
        _overlay(self.places.image / "root.img", folder / "root.qcow2")
        ports = {**self.ports(), each.name: self._port(each)}
        (self.places.state / _PORTS).write_text(json.dumps(ports), "utf-8")
        argv = vm.command(each, self.places.image, port=ports[each.name], accel=how)
        pid = process.start(argv, folder, self._say)
        self._say(f"{each.name} started: process {pid}, {how}, load {os.getloadavg()[0]:.1f}")
        return True

    def _port(self, each: vm.Vm) -> int:
        """Return a port for `each`: only the default lab has those of inventory/lab.yaml."""
        return _free_port(each.port if self.places.name == DEFAULT else 0)

    def _stop(self, name: str) -> bool:
        """End machine `name` and remove what only a running one has, killed or not."""
        folder = self.places.of(name)
        ran = process.end(folder, self._say)
        for left in _OF_A_START:
            (folder / left).unlink(missing_ok=True)
        for network in vm.NETWORKS:
            mine = self.places.state / f"net-{network.lower()}-{vm.VMS[name].id}"
            mine.unlink(missing_ok=True)
        return ran

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        waiting = Waiting(self._say, f"another command on lab '{self.places.name}'", _LOCK_S)
        return alone(self.places.state / "lock", waiting)


def _overlay(base: Path, path: Path) -> None:
    """Make a root disk that is thrown away, over the image."""
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), str(path)]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_QEMU_IMG_S, check=False
        )
    except OSError as err:
        raise HarnessError(f"lab: qemu-img: {err.strerror}", hint="kvgate lab build") from err
    if done.returncode != 0:
        raise HarnessError(f"lab: qemu-img: {done.stderr.strip()}")


def _free_port(wanted: int) -> int:
    """Return `wanted` if nobody has it on 127.0.0.1, else any free port."""
    for port in (wanted, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise HarnessError("lab: no free port on 127.0.0.1")


def _rss_mib(pid: int) -> int | None:
    """Return the memory that process `pid` takes, in MiB; None: it is gone."""
    try:
        told = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:
        return None
    for line in told.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    return None
