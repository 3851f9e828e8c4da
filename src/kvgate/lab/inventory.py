"""The lab as an inventory: its machines, the way to them, and what they are declared to have.

``inventory/lab.yaml`` is this text for the default lab; `up` writes it with the ports of a lab.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from kvgate.lab import inventory_faults
from kvgate.lab.places import DEFAULT, Places
from kvgate.lab.vm import INI, TGT, VMS
from kvgate.spec.inventory import Inventory
from kvgate.transport.hostkeys import host_name

_HEAD = """\
# The lab of `kvgate lab up`: two virtual machines of this machine, reached by SSH on loopback.
# Written by src/kvgate/lab/inventory.py: this is the default lab of a user without XDG_CACHE_HOME;
# `kvgate lab status` names the file of any other.
inventory: lab
title: A lab of two virtual machines, NVMe-oF over TCP and soft-RoCE

hosts:
"""
_MACHINE = """\
  {name}:  # {what}
    roles: [{role}]
    address: 127.0.0.1
    port: {port}
    user: root
    key: {{file: {key}}}
    known_hosts: {known}
    connect_timeout: 60 s  # an emulated CPU on a busy machine takes its time
    scratch: /var/tmp/kvgate
    declared:
      disks:
{disks}
      nics:
        - {{name: dataA, mtu: 4200 B}}
        - {{name: dataB, mtu: 4200 B}}
"""
_FABRIC = """\
      host_nqn: nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002
      nvmeof:  # as /lab/connect.sh connects it
        - name: array1
          nqn: nqn.2026-11.lab:array1
          transport: tcp
          serial: LAB0000000000001
          namespaces: 1
          iopolicy: round-robin
          keep_alive: 3 s
          ctrl_loss_tmo: 600 s
          reconnect_delay: 2 s
          fast_io_fail_tmo: 8 s
          queues: 1  # the machine has one processor
          mtu: 4200 B
          discovery: [{target: 10.77.1.1, port: 4420}, {target: 10.77.2.1, port: 4420}]
          paths:
            - {name: a, target: 10.77.1.1, host: 10.77.1.2}
            - {name: b, target: 10.77.2.1, host: 10.77.2.2}
      fabric:  # soft-RoCE; what a pair is held against is a rate that an emulated CPU may reach
        - {name: a, nic: dataA, address: 10.77.1.2, gid_index: 1, to: tgt, to_nic: dataA,
           to_address: 10.77.1.1, rate: 100 Mbit/s}
        - {name: b, nic: dataB, address: 10.77.2.2, gid_index: 1, to: tgt, to_nic: dataB,
           to_address: 10.77.2.1, rate: 100 Mbit/s}
"""
_LABHOST = """\
  labhost:  # this machine, which pulls the cables: `kvgate lab fault NAME`
    roles: [client]
    transport: local
"""
_WHAT = {
    "ini": ("the initiator, under test", "serving"),
    "tgt": ("the target: an array that is a Linux host", "client"),
}
_MAY_BE_WRITTEN = ("LAB-INI-FREE", "LAB-INI-USED")


def text(
    ports: Mapping[str, int], folder: str, name: str = DEFAULT, kvgate: Path | None = None
) -> str:
    """Return the inventory of the lab `name` below the cache `folder`, reached by `ports`.

    `kvgate` is where that command is, if not in the PATH.
    """
    machines = [
        _MACHINE.format(
            name=vm.name,
            what=_WHAT[vm.name][0],
            role=_WHAT[vm.name][1],
            port=ports[vm.name],
            key=f"{folder}/keys/id_lab",
            known=f"{folder}/labs/{name}/known_hosts",
            disks=_disks(vm.name),
        )
        for vm in (INI, TGT)
    ]
    labhost = _LABHOST + inventory_faults.tools(kvgate)
    return "\n".join(
        [_HEAD + machines[0] + _FABRIC, machines[1], labhost, inventory_faults.text(name)]
    )


def shipped() -> str:
    """Return what stands in inventory/lab.yaml."""
    return text({vm.name: vm.port for vm in VMS.values()}, "~/.cache/kvgate/lab")


def write(places: Places, ports: Mapping[str, int]) -> Path:
    """Write inventory and known_hosts of a lab, and return the inventory's path."""
    keytype, key = (places.keys / "host_key.pub").read_text("ascii").split()[:2]
    known = [f"{host_name('127.0.0.1', port)} {keytype} {key}\n" for port in ports.values()]
    (places.state / "known_hosts").write_text("".join(known), "ascii")
    places.inventory.write_text(text(ports, str(places.cache), places.name, _kvgate()), "utf-8")
    return places.inventory


def _kvgate() -> Path | None:
    """Return this installation's own command, where it has one beside its Python."""
    path = Path(sys.executable).with_name("kvgate")
    return path if path.is_file() else None


def hosts(places: Places, ports: Mapping[str, int]) -> Inventory:
    """Return the two machines as an inventory, as little of it as connecting takes."""
    entries = {
        name: {
            "roles": ["client"],
            "address": "127.0.0.1",
            "port": port,
            "user": "root",
            "key": {"file": str(places.keys / "id_lab")},
            "known_hosts": str(places.state / "known_hosts"),
            "connect_timeout": "60 s",
        }
        for name, port in ports.items()
    }
    return Inventory.model_validate({"inventory": "lab", "hosts": entries})


def _disks(vm: str) -> str:
    lines = []
    for drive in VMS[vm].drives:
        fields = f"serial: {drive.serial}, size: {drive.size_bytes} B, nvme: true"
        if drive.serial in _MAY_BE_WRITTEN:
            fields += ", destructive: true"
        lines.append(f"        - {{{fields}}}")
    if vm == INI.name:
        lines.append(f"        - {{{inventory_faults.DISK}}}")
    return "\n".join(lines)
