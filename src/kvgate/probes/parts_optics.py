"""Reads the modules in the declared ports: optics, and cables that have an EEPROM."""

from __future__ import annotations

from kvgate.parse import optics
from kvgate.probes.base import PLAIN, SHORT_S, Command, refusal
from kvgate.probes.parts_read import Found, Part, UntoldError, ethtool
from kvgate.spec.inventory import Host
from kvgate.witness import Witness


def optics_commands(host: Host) -> tuple[Command, ...]:
    """Return what is asked for the modules in declared ports."""
    return tuple(Command(argv=argv) for _, argv in ethtool(host, "-m"))


def optics_of(witness: Witness) -> Found:
    """Return the modules (optics, or cables with an EEPROM) in the declared ports.

    Raises UntoldError with those that can be read, where one can't.
    """
    parts, asked, untold = [], [], []
    wanted = ethtool(witness.host, "-m")
    if not wanted:
        raise UntoldError("no network port is declared for this host")
    for name, argv in wanted:
        told = witness.ask(argv, timeout_s=SHORT_S, env=PLAIN)
        asked.append(told)
        if not told.result.ok:
            untold.append(f"{name}: {refusal(told, 'ethtool')}")
            continue
        module = optics.module(told.stdout)
        parts.append(
            Part(
                kind="optic",
                serial=module.serial,
                model=" ".join(filter(None, (module.vendor, module.part_number))) or None,
                part_number=module.part_number,
                places=(name,),
            )
        )
    if untold:
        raise UntoldError("; ".join(untold), *asked, parts=parts)
    return parts, asked
