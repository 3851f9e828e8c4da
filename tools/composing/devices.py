"""Answers of the composed site's array, switches and BMCs, by the simulators' forms."""

from __future__ import annotations

import json
from typing import Any

from composing.site import FIRMWARE, MODEL, Answers
from kvgate.simulate import array, redfish, switch

State = dict[str, Any]
TB = 10**12


def array_state() -> State:
    """Return a healthy array: RAID 0 of four drives, as published, and RAID 6 of eight."""
    drive = {"model": MODEL, "firmware": FIRMWARE, "state": "ok", "wear": 0}
    return {
        "model": "FX100",
        "serial": "EXFX100",
        "firmware": "3.2.1",
        "health": "healthy",
        "controllers": {"A": "online", "B": "online"},
        "drives": {f"D{n}": {**drive, "serial": f"EXARR{n:03}"} for n in range(1, 13)},
        "pools": {
            "pool0": {"state": "optimal", "layout": "RAID0 4", "bytes": 3072 * TB // 100},
            "pool1": {"state": "optimal", "layout": "RAID6 6+2", "bytes": 4608 * TB // 100},
        },
        "ports": {name: {"link": "up", "speed": "100G"} for name in ("A1", "B1")},
        "capacity": {
            "physical": 9216 * TB // 100,
            "physical_used": 0,
            "logical_used": 0,
            "dedup": "1.0",
            "compression": "1.0",
        },
    }


def array_answers(state: State) -> Answers:
    """Return what the array answers by REST."""
    documents = array.documents(state)
    documents["/api/v1/system"].pop("simulated")
    return _got(documents)


def switch_state(name: str, cabling: dict[str, tuple[str, str]]) -> State:
    """Return a healthy switch; `cabling` is port → neighbour and its port."""
    port = {"state": "up", "speed": "100G", "mtu": 9100, "pfc": "3", "drops": 0}
    return {
        "model": "EXAMPLE-SN-32x100G",
        "serial": f"EX{name.upper()}",
        "firmware": "SONiC.202311.1-example",
        "ecn": "ecn_all",
        "ports": {each: {**port, "neighbour": list(there)} for each, there in cabling.items()},
    }


def switch_answers(state: State) -> Answers:
    """Return what the switch answers by its command line."""
    return {
        tuple(command.split()): make(state).replace("simulated", "composed").encode()
        for command, make in switch.COMMANDS.items()
    }


def bmc_state(number: int) -> State:
    """Return the BMC of a healthy node."""
    return {
        "model": "EXAMPLE GPU server",
        "serial": f"EXSRV{number}",
        "bios": "1.4.2",
        "firmware": "2.61.0",
        "power": "On",
        "psus": {f"PSU{n}": "OK" for n in range(1, 7)},
        "psu_serials": [f"EXPSU{number}{n:03}" for n in range(6)],
        "fans": {f"Fan{n}": "OK" for n in range(1, 11)},
        "temperatures": {"Inlet": 24.5, "CPU1": 47, "CPU2": 48.5},
        "components": {"BIOS": "1.4.2", "BMC": "2.61.0"},
        "events": [
            {"severity": "OK", "created": "2026-11-30T08:00:00+00:00", "message": "Power on."}
        ],
    }


def bmc_answers(state: State) -> Answers:
    """Return what the BMC answers by Redfish; its power supplies tell their serial numbers."""
    documents = redfish.documents(state)
    for name, serial in zip(state["psus"], state["psu_serials"], strict=True):
        path = next(p for p in documents if p.endswith(f"/PowerSupplies/{name}"))
        documents[path] |= {"Model": "EXAMPLE-PSU-3000", "SerialNumber": serial}
    for document in documents.values():
        for key in ("Name", "Manufacturer"):
            if "simulated" in str(document.get(key, "")).lower():
                document[key] = "composed"
    return _got(documents)


def _got(documents: dict[str, Any]) -> Answers:
    return {("GET", path): json.dumps(told).encode() for path, told in documents.items()}
