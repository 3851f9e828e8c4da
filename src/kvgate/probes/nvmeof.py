"""NVMe-oF subsystems and paths of a host, from sysfs: what every check of paths begins with."""

from __future__ import annotations

from collections.abc import Iterable

from kvgate.parse import nvmeof_sysfs
from kvgate.parse.nvmeof_sysfs import Controller, Subsystem
from kvgate.probes.base import PLAIN, SHORT_S, class_argv, once
from kvgate.witness import Testimony, Witness

__all__ = ["SYSFS", "Controller", "Subsystem", "look", "subsystems"]

SYSFS = class_argv(nvmeof_sysfs.WHAT, *nvmeof_sysfs.ATTRIBUTES)
_seen = once(nvmeof_sysfs.subsystems)


def look(witness: Witness) -> tuple[tuple[Subsystem, ...], Testimony]:
    """Return the host's NVMe subsystems, local drives too, and what was asked.

    A host without NVMe has none: (). Raises TransportError where the host can't be asked,
    CommandError where the question ends otherwise, ParseError for an answer of another shape.
    """
    told = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    silent = told.result.exit_status in (1, 2) and not told.result.stdout
    return _seen(b"" if silent else told.stdout), told


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
        if controller.kind in (None, "io")
    )
