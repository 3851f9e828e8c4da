"""The faults of the lab as its inventory declares them, and the namespace that they are under."""

from __future__ import annotations

from pathlib import Path

from kvgate.lab.vm import NQN

DISK = (
    "serial: LAB0000000000001, wwn: uuid.11111111-2222-4333-8444-000000000001, "
    "size: 6442450944 B, nvme: true, destructive: true"
)
"""The target's namespace 1 as the initiator sees it."""

_EXPORTED = f"/sys/kernel/config/nvmet/ports/1/subsystems/{NQN}"
_A, _B = "10.77.1.1", "10.77.2.1"
_FAULTS: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    ("cable-a", "link_down", "cable-a", (_A,), ""),
    ("cable-b", "link_down", "cable-b", (_B,), ""),
    ("flap-b", "cable_flap", "cable-b", (_B,), "times: 3, between: 1 s"),
    ("port-a", "port_off", "port-tcp-a", (_A,), ""),
    ("ana-a", "ana_change", "ana-tcp-a", (_A,), ""),
    ("both-within", "both_paths", "ports-tcp", (_A, _B), "hold: 2 s"),
    ("both-beyond", "both_paths", "cables", (_A, _B), "beyond: true, hold: 12 s"),
    ("power", "power_loss", "reset-tgt", (), "hold: 1 s, back_within: 5 min"),
)
"""Name, kind, `kvgate lab fault` that does it, the addresses that it takes away, and the rest."""


def text(lab: str) -> str:
    """Return the inventory's ``faults`` for the lab of that name."""
    return "\n".join(["faults:  # a plan says which are done (workloads.failover)", *_entries(lab)])


def tools(kvgate: Path | None) -> str:
    """Return the line of labhost that says where `kvgate` is, or nothing."""
    return f"    tools: {{kvgate: {kvgate}}}\n" if kvgate else ""


def _entries(lab: str) -> list[str]:
    lines = []
    for name, kind, fault, addresses, rest in _FAULTS:
        words = f"kvgate, lab, --name, {lab}, fault, {fault}"
        lines += [
            f"  - fault: {name}",
            f"    kind: {kind}",
            "    on: labhost",
            f"    do: [{words}]",
            f"    undo: [{words}, --undo]",
            "    within: 5 min",
        ]
        if addresses:
            takes = ", ".join(f"{{address: {each}, transport: tcp}}" for each in addresses)
            lines.append(f"    takes: [{takes}]")
        else:
            ssh = f"kvgate, lab, --name, {lab}, ssh, tgt"
            lines.append(f"    proved_back: [{ssh}, test, -e, '{_EXPORTED}']")
        lines += [f"    {each}" for each in rest.split(", ") if each]
    return [*lines, ""]
