"""The verbs on the lab of virtual machines: build, up, status, ssh, fault, down, destroy."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from kvgate.errors import UsageError
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from kvgate.lab.machines import Lab


def _say(line: str) -> None:
    print(plain(f"  {line}"), file=sys.stderr, flush=True)


def _lab(arguments: argparse.Namespace) -> Lab:
    from kvgate.lab.machines import Lab
    from kvgate.lab.places import places

    return Lab(places(arguments.name), _say)


def build_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """See to it that the image is there."""
    from kvgate.lab import image
    from kvgate.lab.places import places

    where, began = places(arguments.name), time.monotonic()
    made = image.build(where, _say, install=arguments.install, mirror=arguments.mirror)
    took = f"built in {time.monotonic() - began:.0f} s" if made else "is up to date"
    print(f"{where.image}: {took}\nnext: kvgate lab up")
    return 0


def up_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Start the machines and wait until they answer."""
    lab, began = _lab(arguments), time.monotonic()
    lab.up(accelerated=arguments.accel, patience_s=arguments.patience, connect=arguments.connect)
    print(f"up in {time.monotonic() - began:.0f} s\ninventory: {lab.places.inventory}")
    return 0


def status_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Tell how each machine is; 2: not all run."""
    lab = _lab(arguments)
    states = lab.status()
    for state in states:
        if state.pid is None:
            print(f"{state.name}: down")
        else:
            print(
                f"{state.name}: up, process {state.pid}, root@127.0.0.1 port {state.port}, "
                f"{state.rss_mib} MiB"
            )
    if lab.places.inventory.exists():
        print(f"inventory: {lab.places.inventory}")
    return 0 if all(state.pid for state in states) else 2


def ssh_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Become ssh(1), logged in to a machine."""
    lab = _lab(arguments)
    ports = {state.name: state.port for state in lab.status() if state.pid}
    if arguments.machine not in ports:
        raise UsageError(f"lab: '{arguments.machine}' is not up", hint="kvgate lab status")
    sys.stdout.flush()
    options = ["IdentitiesOnly=yes", "StrictHostKeyChecking=yes", "BatchMode=yes"]
    options += [f"UserKnownHostsFile={lab.places.state / 'known_hosts'}", "ConnectTimeout=60"]
    argv = ["ssh", "-q", "-F", "none", "-i", str(lab.places.keys / "id_lab")]
    argv += ["-p", str(ports[arguments.machine])]
    argv += [word for option in options for word in ("-o", option)]
    os.execvp("ssh", [*argv, "root@127.0.0.1", *arguments.words])  # noqa: S606  an argument list


def fault_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Do a fault to the lab, or undo it; proven when this returns."""
    from kvgate.lab import faults

    if arguments.list or not arguments.fault:
        for name, what in faults.names().items():
            print(f"{name:20} {what}")
        return 0 if arguments.list else 64
    print(faults.inflict(_lab(arguments), arguments.fault, undo=arguments.undo, say=_say))
    return 0


def down_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """End the machines; drives and image stay."""
    ended = _lab(arguments).down()
    print(f"ended: {', '.join(ended)}" if ended else "none was up")
    return 0


def destroy_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """End the machines and remove all of this lab but the image."""
    lab = _lab(arguments)
    ended = lab.destroy()
    print(f"ended: {', '.join(ended) or 'none'}; removed: {lab.places.state}")
    return 0
