"""The documents of a simulated array's REST interface, from its state. No vendor's form."""

from __future__ import annotations

from typing import Any

State = dict[str, Any]


def documents(state: State) -> dict[str, Any]:
    """Return path → document of everything that can be got."""
    capacity = state["capacity"]
    return {
        "/api/v1/system": {
            "simulated": True,
            **{key: state[key] for key in ("model", "serial", "firmware", "health")},
        },
        "/api/v1/controllers": _items("name", state["controllers"], "state"),
        "/api/v1/drives": {
            "items": [
                {"slot": slot, "wear_percent": drive["wear"]}
                | {key: drive[key] for key in ("model", "firmware", "serial", "state")}
                for slot, drive in state["drives"].items()
            ]
        },
        "/api/v1/pools": {
            "items": [
                {"name": name, "capacity_bytes": pool["bytes"]}
                | {key: pool[key] for key in ("state", "layout")}
                for name, pool in state["pools"].items()
            ]
        },
        "/api/v1/ports": {
            "items": [{"name": name, **port} for name, port in state["ports"].items()]
        },
        "/api/v1/capacity": {
            "physical_bytes": capacity["physical"],
            "physical_used_bytes": capacity["physical_used"],
            "logical_used_bytes": capacity["logical_used"],
            "dedup_ratio": capacity["dedup"],
            "compression_ratio": capacity["compression"],
        },
    }


def _items(named: str, things: dict[str, str], told: str) -> dict[str, Any]:
    return {"items": [{named: name, told: value} for name, value in things.items()]}
