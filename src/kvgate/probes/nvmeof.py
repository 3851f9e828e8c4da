"""NVMe-oF subsystems and paths of a host: what every check of paths begins with.

sysfs first; nvme-cli's own listing only where a host has no such folder that can be read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from kvgate.parse import nvme_subsys, nvmeof_sysfs
from kvgate.parse.nvmeof_sysfs import Controller, Subsystem
from kvgate.probes.base import PLAIN, SHORT_S, class_argv, once
from kvgate.spec.fabric import NvmePath, NvmeSubsystem
from kvgate.spec.inventory import Host
from kvgate.witness import Testimony, Witness

__all__ = [
    "SYSFS",
    "Controller",
    "Matched",
    "Subsystem",
    "list_argv",
    "look",
    "match",
    "of_nqn",
    "subsystems",
]

SYSFS = class_argv(nvmeof_sysfs.WHAT, *nvmeof_sysfs.ATTRIBUTES)
_seen = once(nvmeof_sysfs.subsystems)
_IO = (None, "io")


def list_argv(host: Host) -> tuple[str, ...]:
    """Return the command that asks nvme-cli for subsystems and paths."""
    return host.as_root("nvme", "list-subsys", "-o", "json")


def look(witness: Witness) -> tuple[tuple[Subsystem, ...], tuple[Testimony, ...]]:
    """Return the host's NVMe subsystems, local drives too, and what was asked.

    A host without NVMe has none: (). Raises TransportError where the host can't be asked,
    CommandError where the question ends otherwise, ParseError for an answer of another shape.
    """
    told = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    if told.result.exit_status not in (1, 2) or told.result.stdout:
        return _seen(told.stdout), (told,)
    second = witness.ask(list_argv(witness.host), timeout_s=SHORT_S, env=PLAIN)
    if not second.result.ok:
        return (), (told, second)
    listed = nvme_subsys.subsystems(second.stdout).subsystems
    return tuple(_of_cli(each) for each in listed), (told, second)


def subsystems(witness: Witness) -> tuple[Subsystem, ...]:
    """Return the host's NVMe subsystems as they are now: see `look`.

    A path is known by its address (`Controller.traddr`, ``trsvcid``, ``source``), never by the
    controller's name, which changes over reconnects.
    """
    return look(witness)[0]


def of_nqn(found: Iterable[Subsystem], nqn: str) -> tuple[Controller, ...]:
    """Return the I/O controllers to `nqn`, over all subsystems that show it."""
    return tuple(
        controller
        for subsystem in found
        if subsystem.nqn == nqn
        for controller in subsystem.controllers
        if controller.kind in _IO
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Matched:
    """What of a declared subsystem is there: a controller for each path, and what is too many."""

    by_path: Mapping[str, Controller]  # the path's name → its controller; absent: not there
    unexpected: tuple[Controller, ...]


def match(declared: NvmeSubsystem, found: Iterable[Subsystem]) -> Matched:
    """Return which controller is which declared path, by transport and addresses.

    Of several controllers on one path the live one counts, and the others are too many.
    """
    left = sorted(of_nqn(found, declared.nqn), key=lambda each: each.state != "live")
    by_path: dict[str, Controller] = {}
    for path in declared.paths:
        shared = sum(
            (each.target, each.port) == (path.target, path.port) for each in declared.paths
        )
        for controller in left:
            if _is(controller, path, declared.transport, by_source=shared > 1):
                by_path[path.name] = controller
                left.remove(controller)
                break
    return Matched(by_path, tuple(left))


def _is(controller: Controller, path: NvmePath, transport: str, *, by_source: bool) -> bool:
    at = (controller.transport, controller.traddr, controller.trsvcid)
    if at != (transport, path.target, str(path.port)):
        return False
    return not by_source or controller.source == path.host


def _of_cli(listed: nvme_subsys.Subsystem) -> Subsystem:
    """Return what nvme-cli listed in the words of sysfs; what it doesn't tell is None."""
    return Subsystem(
        name=listed.name,
        nqn=listed.nqn,
        iopolicy=listed.iopolicy,
        model=None,
        serial=None,
        controllers=tuple(_controller(path, listed.hostnqn) for path in listed.paths),
        heads=(),
    )


def _controller(path: nvme_subsys.Path, hostnqn: str | None) -> Controller:
    return Controller(
        name=path.name,
        transport=path.transport,
        address=path.address,
        state=path.state,
        cntlid=None,
        kind=None,
        keep_alive_s=None,
        ctrl_loss_tmo=None,
        reconnect_delay=None,
        fast_io_fail_tmo=None,
        queue_count=None,
        queue_size=None,
        hostnqn=hostnqn,
        hostid=None,
        paths=(),
    )
