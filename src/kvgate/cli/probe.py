"""The verb probe: ask a host one question, and print what was read, and from which command."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvgate.cli.places import site_of
from kvgate.errors import UsageError
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from kvgate.model.record import Evidence, EvidenceRef, Reading
    from kvgate.probes.base import Probe
    from kvgate.spec.inventory import Host, Inventory

_RAW_BYTES = 64 * 1024


def probe_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Ask and print; 0: everything was told, 2: something was not, 3: it could not be asked."""
    from kvgate.probes import ALL, devices

    of_devices = tuple(probe for role in devices.OF_ROLE.values() for probe in role)
    if arguments.list:
        for probe in (*ALL, *of_devices):
            print(f"{probe.name:<24} {', '.join(probe.measures)}")
        return 0
    if not arguments.host or not arguments.probe:
        raise UsageError("which host, and which probe?", hint="`kvgate probe --list` has them all")
    words = " ".join(arguments.probe)
    _named(words, (*ALL, *of_devices))  # before anything else is looked at
    readings = _asked(arguments, words)
    for line in _lines(readings):
        print(plain(line))
    return 0 if readings and not any(each.problem for each in readings) else 2


def _asked(arguments: argparse.Namespace, words: str) -> tuple[Reading, ...]:
    """Ask the host, print every command that was run, and return what was read."""
    from kvgate.probes import ALL, devices
    from kvgate.witness import Witness

    site = site_of(arguments)
    host = host_named(arguments.host, site.inventory)
    probe = _named(words, devices.OF_ROLE[host.role.value] if host.is_device else ALL)
    kept: list[Evidence] = []

    def keep(piece: Evidence) -> EvidenceRef:
        kept.append(piece)
        return hashlib.sha256(piece.stdout).hexdigest()

    with site.connections() as connections:
        try:
            way = connections.to(host)
            return probe.ask(Witness(host, way, keep, site.adapter(host))).readings
        finally:
            for piece in kept:
                _show(piece, raw=arguments.raw)


def _named(words: str, probes: tuple[Probe, ...]) -> Probe:
    """Return the probe that is meant; a dash is as good as a blank."""
    from kvgate.spec.load import nearest

    found = {probe.name.replace("-", " "): probe for probe in probes}
    if words.replace("-", " ") not in found:
        names = {probe.name for probe in probes}
        raise UsageError(f"'{words}' is no probe{nearest(words, names)}")
    return found[words.replace("-", " ")]


def host_named(name: str, inventory: Inventory) -> Host:
    """Return the host of this name; raises UsageError with the nearest one."""
    from kvgate.spec.load import nearest

    if name not in inventory.hosts:
        raise UsageError(f"'{name}' is no host of this inventory{nearest(name, inventory.hosts)}")
    return inventory.hosts[name]


def _show(piece: Evidence, *, raw: bool) -> None:
    """Print a command and how it ended, ready to be pasted into a shell; its output with `raw`."""
    import shlex

    seconds = (piece.ended_at - piece.started_at).total_seconds()
    status = "no exit status" if piece.exit_status is None else f"exit {piece.exit_status}"
    told = f"{len(piece.stdout):,} + {len(piece.stderr):,} bytes"
    print(plain(f"$ {shlex.join(piece.command)}"))
    print(plain(f"  {status}, {seconds:.2f} s, {told}{''.join(f', {n}' for n in piece.notes)}"))
    for stream in (piece.stdout, piece.stderr) if raw else ():
        for line in stream[:_RAW_BYTES].decode("utf-8", "replace").splitlines():
            print(plain(f"  | {line}"))
        if len(stream) > _RAW_BYTES:
            print(f"  | … {len(stream) - _RAW_BYTES:,} bytes more")


def _lines(readings: tuple[Reading, ...]) -> Iterator[str]:
    if not readings:
        yield "nothing was read: the inventory declares nothing that this probe looks for"
    for each in readings:
        name = f"{each.name} ({each.item})" if each.item else each.name
        yes = {True: "yes", False: "no"}
        value = yes[each.value] if isinstance(each.value, bool) else each.value
        yield f"{name}: {value}" if each.value is not None else f"{name}: not told: {each.problem}"
