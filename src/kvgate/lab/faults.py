"""Faults of the lab by name, each with its repair; both are proven before they are told as done."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from kvgate.errors import HarnessError, UsageError
from kvgate.lab import monitor, vm
from kvgate.lab.guests import BOOTS, Guests
from kvgate.lab.machines import Lab
from kvgate.lab.progress import Say, Waiting

_PROOF_S = 120.0
_PORTS = {"tcp-a": 1, "tcp-b": 2, "rdma-a": 11, "rdma-b": 12}
_NVMET = "/sys/kernel/config/nvmet/ports"


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """One fault: what it is, how it is done to a lab and undone; both prove what they did."""

    what: str
    do: Callable[[_Scene], None]
    undo: Callable[[_Scene], None]


@dataclasses.dataclass(frozen=True, slots=True)
class _Scene:
    lab: Lab
    guests: Guests
    say: Say

    def qmp(self, machine: str, command: str, **arguments: object) -> object:
        return monitor.execute(self.lab.places.of(machine), command, **arguments)

    def until(self, machine: str, script: str, wanted: str) -> None:
        """Wait until `script` prints `wanted` in the guest: the proof."""
        waiting = Waiting(self.say, f"{machine}: {wanted}", _PROOF_S)
        while True:
            told = self.guests.run(machine, ["sh", "-c", script]).stdout.decode("utf-8", "replace")
            if told.strip() == wanted:
                return
            waiting.pause(told.strip(), pause_s=0.2)


def names() -> dict[str, str]:
    """Return each fault's name and what it is."""
    return {name: fault.what for name, fault in _FAULTS.items()}


def inflict(lab: Lab, name: str, *, undo: bool, say: Say) -> str:
    """Do the fault `name` to a lab that is up, or undo it; return what was done.

    Raises UsageError where there is no such fault, HarnessError where it can't be proven.
    """
    fault = _FAULTS.get(name)
    if fault is None:
        raise UsageError(f"'{name}' is no fault of the lab", hint="kvgate lab fault --list")
    with lab.guests() as guests:
        scene = _Scene(lab, guests, say)
        (fault.undo if undo else fault.do)(scene)
    return f"{'undone' if undo else 'done'}: {fault.what}"


def _cable(*networks: str) -> Fault:
    def set_to(up: bool) -> Callable[[_Scene], None]:
        def act(scene: _Scene) -> None:
            for network in networks:
                scene.qmp("tgt", "set_link", name=f"nic{network}", up=up)
            for network in networks:
                carrier = f"cat /sys/class/net/data{network}/carrier"
                scene.until("tgt", carrier, str(int(up)))

        return act

    ports = " and ".join(f"data{network}" for network in networks)
    return Fault(f"the cable of tgt's {ports} is pulled", set_to(up=False), set_to(up=True))


def _port(name: str, number: int) -> Fault:
    linked = f"ls {_NVMET}/{number}/subsystems"

    def off(scene: _Scene) -> None:
        scene.guests.run("tgt", ["/lab/nvmet.sh", "port", str(number), "off"])
        scene.until("tgt", linked, "")

    def on(scene: _Scene) -> None:
        scene.guests.run("tgt", ["/lab/nvmet.sh", "port", str(number), "on"])
        scene.until("tgt", linked, vm.NQN)

    return Fault(f"tgt's port {number} ({name}) is off", off, on)


def _ports(*names: str) -> Fault:
    each = [_port(name, _PORTS[name]) for name in names]

    def all_of(which: str) -> Callable[[_Scene], None]:
        def act(scene: _Scene) -> None:
            for fault in each:
                getattr(fault, which)(scene)

        return act

    return Fault(f"tgt's ports {' and '.join(names)} are off", all_of("do"), all_of("undo"))


def _ana(name: str, number: int, state: str) -> Fault:
    def set_to(wanted: str) -> Callable[[_Scene], None]:
        def act(scene: _Scene) -> None:
            scene.guests.run("tgt", ["/lab/nvmet.sh", "ana", str(number), wanted])
            scene.until("tgt", f"cat {_NVMET}/{number}/ana_groups/1/ana_state", wanted)

        return act

    what = f"the namespaces of tgt's port {number} ({name}) are {state} (ANA)"
    return Fault(what, set_to(state), set_to("optimized"))


def _reset(machine: str) -> Fault:
    def reset(scene: _Scene) -> None:
        boots = scene.guests.boots(machine)
        (scene.lab.places.of(machine) / BOOTS).write_text(str(boots + 1), "ascii")
        scene.qmp(machine, "system_reset")

    def until_up(scene: _Scene) -> None:
        wanted = scene.lab.places.of(machine) / BOOTS
        boots = int(wanted.read_text("ascii")) if wanted.exists() else 1
        scene.guests.until_up(machine, boots=boots)

    return Fault(f"{machine} is reset, as by a loss of power", reset, until_up)


def _freeze(machine: str) -> Fault:
    def act(command: str, status: str) -> Callable[[_Scene], None]:
        def done(scene: _Scene) -> None:
            scene.qmp(machine, command)
            told = scene.qmp(machine, "query-status")
            if not isinstance(told, dict) or told.get("status") != status:
                raise HarnessError(f"lab: {machine} is not {status}: {told}")

        return done

    return Fault(f"{machine} stands still", act("stop", "paused"), act("cont", "running"))


def _pull(machine: str, drive: vm.Drive) -> Fault:
    present = f"grep -l '{drive.serial}' /sys/class/nvme/nvme*/serial 2>/dev/null | wc -l"

    def pull(scene: _Scene) -> None:
        scene.qmp(machine, "device_del", id=f"d-{drive.name}")
        scene.until(machine, present, "0")

    def push(scene: _Scene) -> None:
        scene.qmp(machine, "device_add", **vm.device(drive))
        scene.until(machine, present, "1")

    return Fault(f"drive {drive.serial} of {machine} is pulled", pull, push)


_FAULTS: dict[str, Fault] = {
    "cable-a": _cable("A"),
    "cable-b": _cable("B"),
    "cables": _cable("A", "B"),
    **{f"port-{name}": _port(name, number) for name, number in _PORTS.items()},
    "ports-tcp": _ports("tcp-a", "tcp-b"),
    "ports-rdma": _ports("rdma-a", "rdma-b"),
    **{f"ana-{name}": _ana(name, number, "inaccessible") for name, number in _PORTS.items()},
    **{f"ana-slow-{name}": _ana(name, n, "non-optimized") for name, n in _PORTS.items()},
    **{f"ana-change-{name}": _ana(name, n, "change") for name, n in _PORTS.items()},
    **{f"reset-{each}": _reset(each) for each in vm.VMS},
    **{f"freeze-{each}": _freeze(each) for each in vm.VMS},
    **{
        f"pull-{drive.serial.lower().removeprefix('lab-')}": _pull(each.name, drive)
        for each in vm.VMS.values()
        for drive in each.drives
        if not drive.dual and drive.serial != vm.EXPORTED  # nvmet does not let go of it
    },
}
