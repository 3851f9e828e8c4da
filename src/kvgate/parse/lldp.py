"""`lldpcli show neighbors -f json`: which switch and port each network port is cabled to."""

from __future__ import annotations

import dataclasses
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import json_object, refuse, shown
from kvgate.parse.typed import member, words

TOOL = "lldpcli"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """What a port hears from its other end. ``switch`` is its name, else its chassis id."""

    port: str
    switch: str | None
    switch_port: str | None
    switch_port_text: str | None


def neighbours(answer: bytes) -> tuple[Neighbour, ...]:
    """Parse the answer, in which lists of one are objects, and no neighbour is an empty object."""
    lldp = member(json_object(answer, TOOL).get("lldp"), TOOL, "lldp")
    found = []
    listed = lldp.get("interface", [])
    for each in listed if isinstance(listed, list) else [listed]:
        if not isinstance(each, dict):
            refuse(TOOL, f"{shown(each)} is no interface")
        for port, held in each.items():
            found += [_neighbour(port, one) for one in (held if isinstance(held, list) else [held])]
    return tuple(found)


def _neighbour(port: str, held: Any) -> Neighbour:
    told = member(held, TOOL, port)
    chassis = member(told.get("chassis"), TOOL, "chassis")
    other = member(told.get("port"), TOOL, "port")
    named = [name for name, value in chassis.items() if isinstance(value, dict) and name != "id"]
    own = chassis if "id" in chassis else member(chassis.get(named[0]) if named else None, TOOL, "")
    ident = member(own.get("id"), TOOL, "chassis id")
    switch = named[0] if named and "id" not in chassis else words(ident.get("value"), TOOL, "id")
    return Neighbour(
        port=port,
        switch=switch,
        switch_port=words(member(other.get("id"), TOOL, "port id").get("value"), TOOL, "port id"),
        switch_port_text=words(other.get("descr"), TOOL, "descr"),
    )


TOOLS = {"lldpcli": reads(TOOL, neighbours)}
