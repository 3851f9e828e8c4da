"""What the simulated devices have and how they are: a JSON file each, healthy to begin with.

The simulators read their file at every question, so that a fault is planted by changing it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kvgate.errors import UsageError
from kvgate.store import disk

State = dict[str, Any]

_SWITCH: State = {
    "model": "Simulated-SN0000",
    "serial": "SIMSWITCH0001",
    "firmware": "SONiC.simulated-1",
    "ecn": "ecn_all",
    "ports": {
        "Ethernet0": {"state": "up", "speed": "100G", "mtu": 9100, "pfc": "3,4", "drops": 0}
        | {"neighbour": ["this-machine", "sim0"]},
        "Ethernet4": {"state": "up", "speed": "100G", "mtu": 9100, "pfc": "3,4", "drops": 0}
        | {"neighbour": ["sim-array", "A1"]},
    },
}
_BMC: State = {
    "model": "Simulated server",
    "serial": "SIMSERVER0001",
    "bios": "1.4.2",
    "firmware": "2.61.0",
    "power": "On",
    "psus": {"PSU1": "OK", "PSU2": "OK"},
    "fans": {"Fan1": "OK", "Fan2": "OK", "Fan3": "OK", "Fan4": "OK"},
    "temperatures": {"Inlet": 24.5, "CPU1": 47, "CPU2": 48.5},
    "components": {"BIOS": "1.4.2", "BMC": "2.61.0", "CPLD": "0x17"},
    "events": [
        {"severity": "OK", "created": "2026-05-12T08:00:00+00:00", "message": "Power turned on."}
    ],
}
_DRIVE = {"model": "SIM-NVME-7T68", "firmware": "S1.0", "state": "ok", "wear": 0}
_ARRAY: State = {
    "model": "Simulated array",
    "serial": "SIMARRAY0001",
    "firmware": "3.2.1",
    "health": "healthy",
    "controllers": {"A": "online", "B": "online"},
    "drives": {f"D{n}": {**_DRIVE, "serial": f"SIMDRIVE{n:04}"} for n in range(1, 9)},
    "pools": {"pool0": {"state": "optimal", "layout": "RAID6 6+2", "bytes": 46_080_000_000_000}},
    "ports": {"A1": {"link": "up", "speed": "100G"}, "B1": {"link": "up", "speed": "100G"}},
    "capacity": {
        "physical": 61_440_000_000_000,
        "physical_used": 2_000_000_000_000,
        "logical_used": 5_000_000_000_000,
        "dedup": "2.0",
        "compression": "1.25",
    },
}


def healthy(kind: str) -> State:
    """Return the state of a healthy `switch`, `bmc` or `array`."""
    return copy.deepcopy({"switch": _SWITCH, "bmc": _BMC, "array": _ARRAY}[kind])


def write(folder: Path, kind: str, state: Mapping[str, Any]) -> Path:
    """Write a device's state to its file in `folder`, whole, and return the file."""
    path = folder / f"{kind}.json"
    disk.replace(path, json.dumps(state, indent=1).encode("utf-8") + b"\n")
    return path


def read(path: Path) -> State:
    """Return the state in a device's file."""
    found: State = json.loads(path.read_bytes())
    return found


def _set(*keys: str, value: object) -> Callable[[State], None]:
    def change(state: State) -> None:
        inner = state
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value

    return change


def _critical_event(state: State) -> None:
    event = {"severity": "Critical", "created": "2026-05-13T02:11:09+00:00"}
    state["events"].append({**event, "message": "Uncorrectable memory error."})


FAULTS: Mapping[str, tuple[str, Callable[[State], None]]] = {
    "psu-failed": ("bmc", _set("psus", "PSU2", value="Critical")),
    "fan-failed": ("bmc", _set("fans", "Fan3", value="Critical")),
    "critical-event": ("bmc", _critical_event),
    "old-bios": ("bmc", _set("bios", value="1.2.0")),
    "pool-degraded": ("array", _set("pools", "pool0", "state", value="degraded")),
    "drive-failed": ("array", _set("drives", "D3", "state", value="failed")),
    "controller-failed": ("array", _set("controllers", "B", value="failed")),
    "array-port-down": ("array", _set("ports", "B1", "link", value="down")),
    "other-drive": ("array", _set("drives", "D5", "model", value="SIM-NVME-3T84")),
    "port-down": ("switch", _set("ports", "Ethernet4", "state", value="down")),
    "wrong-mtu": ("switch", _set("ports", "Ethernet0", "mtu", value=1500)),
    "pfc-off": ("switch", _set("ports", "Ethernet0", "pfc", value="")),
    "miscabled": ("switch", _set("ports", "Ethernet0", "neighbour", value=["other", "sim0"])),
    "drops": ("switch", _set("ports", "Ethernet0", "drops", value=18_682)),
}
"""Fault → the device that has it, and how its state changes."""


def plant(folder: Path, fault: str) -> None:
    """Plant `fault` into the device of `folder` that has it; raises UsageError for another."""
    if fault not in FAULTS:
        raise UsageError(f"'{fault}' is no fault", hint=f"one of: {', '.join(FAULTS)}")
    kind, change = FAULTS[fault]
    state = read(folder / f"{kind}.json")
    change(state)
    write(folder, kind, state)
