"""The documents of a simulated BMC's Redfish service, from its state: one system, one chassis.

The forms are those of the schemas ComputerSystem, Chassis, PowerSupply, Fan, Sensor, Manager,
SoftwareInventory and LogEntry (DMTF DSP0268), cut down to what an inspection reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

State = dict[str, Any]
ROOT = "/redfish/v1"
_SYSTEM = f"{ROOT}/Systems/1"
_CHASSIS = f"{ROOT}/Chassis/1"
_SEL = f"{_SYSTEM}/LogServices/SEL"


def documents(state: State) -> dict[str, Any]:
    """Return path → document of everything that can be got."""
    power, thermal = f"{_CHASSIS}/PowerSubsystem", f"{_CHASSIS}/ThermalSubsystem"
    found: dict[str, Any] = {
        ROOT: {"RedfishVersion": "1.15.0", "Name": "Simulated by kvgate"}
        | {
            name: _link(f"{ROOT}/{name}")
            for name in ("Systems", "Chassis", "Managers", "UpdateService")
        },
        _SYSTEM: _system(state),
        _CHASSIS: {"Id": "1", "Sensors": _link(f"{_CHASSIS}/Sensors")}
        | {"PowerSubsystem": _link(power), "ThermalSubsystem": _link(thermal)},
        power: {"PowerSupplies": _link(f"{power}/PowerSupplies")},
        thermal: {"Fans": _link(f"{thermal}/Fans")}
        | {"ThermalMetrics": _link(f"{thermal}/ThermalMetrics")},
        f"{thermal}/ThermalMetrics": {
            "TemperatureReadingsCelsius": [
                {"DeviceName": name, "Reading": value}
                for name, value in state["temperatures"].items()
            ]
        },
        f"{ROOT}/Managers/1": {"Id": "1", "FirmwareVersion": state["firmware"]},
        f"{ROOT}/UpdateService": {"FirmwareInventory": _link(f"{ROOT}/UpdateService/Firmware")},
        f"{_SYSTEM}/LogServices": _collection([_SEL]),
        _SEL: {"Id": "SEL", "LogEntryType": "SEL", "Entries": _link(f"{_SEL}/Entries")},
        f"{_SEL}/Entries": {"Members": [_event(n, e) for n, e in enumerate(state["events"], 1)]},
    }
    found[f"{ROOT}/Systems"] = _collection([_SYSTEM])
    found[f"{ROOT}/Chassis"] = _collection([_CHASSIS])
    found[f"{ROOT}/Managers"] = _collection([f"{ROOT}/Managers/1"])
    _add(found, f"{power}/PowerSupplies", _states(state["psus"]))
    _add(found, f"{thermal}/Fans", _states(state["fans"]))
    _add(found, f"{_CHASSIS}/Sensors", _states(dict.fromkeys(state["temperatures"], "OK")))
    components = {name: {"Version": version} for name, version in state["components"].items()}
    _add(found, f"{ROOT}/UpdateService/Firmware", components)
    return {path: {"@odata.id": path, **document} for path, document in found.items()}


def _system(state: State) -> dict[str, Any]:
    faulty = "Critical" in (*state["psus"].values(), *state["fans"].values())
    health = "Critical" if faulty else "OK"
    return {
        "Id": "1",
        "Manufacturer": "kvgate (simulated)",
        "Model": state["model"],
        "SerialNumber": state["serial"],
        "BiosVersion": state["bios"],
        "PowerState": state["power"],
        "Status": {"State": "Enabled", "Health": health, "HealthRollup": health},
        "LogServices": _link(f"{_SYSTEM}/LogServices"),
    }


def _link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def _collection(paths: Iterable[str]) -> dict[str, Any]:
    members = [_link(path) for path in paths]
    return {"Members": members, "Members@odata.count": len(members)}


def _states(things: dict[str, str]) -> dict[str, Any]:
    return {
        name: {"Status": {"State": "Enabled", "Health": health}} for name, health in things.items()
    }


def _add(found: dict[str, Any], path: str, members: dict[str, Any]) -> None:
    """Add a collection at `path` and its members."""
    found[path] = _collection(f"{path}/{name}" for name in members)
    for name, fields in members.items():
        found[f"{path}/{name}"] = {"Id": name, "Name": name, **fields}


def _event(number: int, event: dict[str, str]) -> dict[str, Any]:
    return {
        "Id": str(number),
        "EntryType": "SEL",
        "Severity": event["severity"],
        "Created": event["created"],
        "Message": event["message"],
    }
