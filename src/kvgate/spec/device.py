"""What is measured of devices that are not hosts: arrays, switches and BMCs, by role and topic.

Adapters may tell nothing else, so that a gate file asks all of them by the same names.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Literal

DeviceItem = Literal["", "controller", "pool", "port"]
"""The kinds of declared things on a device that are judged one by one; "": the device itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """One measure: ``kind`` is text or a quantity's dimension; ``item`` what it is told of.

    ``own_items``: it is told of every thing the device names itself (a fan, a drive), which no
    inventory declares one by one.
    """

    kind: str
    item: DeviceItem = ""
    own_items: bool = False


_TEXT = Known("text")
_COUNT = Known("count")
_BYTES = Known("bytes")
_RATIO = Known("ratio")
_OF_EACH = Known("text", own_items=True)


def _of(item: DeviceItem, kind: str = "text") -> Known:
    return Known(kind, item)


NONE_FAULTY = "none"
"""The value of every ``….faulty``: none, or the names of those that are, each with its state."""

TOPICS: Mapping[str, Mapping[str, Mapping[str, Known]]] = {
    "array": {
        "array": {
            "array.model": _TEXT,
            "array.serial": _TEXT,
            "array.firmware": _TEXT,
            "array.health": _TEXT,
        },
        "array controllers": {
            "array.controllers": _COUNT,
            "array.controller.state": _of("controller"),
            "array.controller.faulty": _TEXT,
        },
        "array drives": {
            "array.drives": _COUNT,
            "array.drive.models": _TEXT,  # all models there are, sorted, with ', ' between
            "array.drive.firmwares": _TEXT,  # likewise
            "array.drive.faulty": _TEXT,
            "array.drive.worst_wear": _RATIO,
            "array.drive.model": _OF_EACH,
            "array.drive.firmware": _OF_EACH,
            "array.drive.state": _OF_EACH,
            "array.drive.serial": _OF_EACH,
            "array.drive.wear": Known("ratio", own_items=True),
        },
        "array pools": {
            "array.pool.state": _of("pool"),
            "array.pool.layout": _of("pool"),
            "array.pool.capacity": _of("pool", "bytes"),
        },
        "array ports": {
            "array.port.state": _of("port"),
            "array.port.speed": _of("port", "bit/s"),
        },
        "array capacity": {
            "array.capacity.physical": _BYTES,
            "array.capacity.physical_used": _BYTES,  # what is written to drives for it
            "array.capacity.logical_used": _BYTES,  # what hosts have stored
            "array.dedup_ratio": _RATIO,
            "array.compression_ratio": _RATIO,
        },
    },
    "switch": {
        "switch": {
            "switch.model": _TEXT,
            "switch.serial": _TEXT,
            "switch.firmware": _TEXT,
        },
        "switch ports": {
            "switch.port.state": _of("port"),
            "switch.port.speed": _of("port", "bit/s"),
            "switch.port.mtu": _of("port", "bytes"),
        },
        "switch pfc": {"switch.port.pfc": _of("port")},  # lossless priorities: '3', '3,4'
        "switch ecn": {"switch.ecn": _TEXT},  # by which colours frames are marked, as told
        "switch counters": {  # frames dropped since the counters were cleared
            "switch.port.rx_drops": _of("port", "count"),
            "switch.port.tx_drops": _of("port", "count"),
        },
        "switch neighbours": {"switch.port.neighbour": _of("port")},
    },
    "bmc": {
        "bmc": {
            "bmc.model": _TEXT,
            "bmc.serial": _TEXT,  # of the machine it manages
            "bmc.bios": _TEXT,
            "bmc.power_state": _TEXT,
            "bmc.health": _TEXT,
        },
        "bmc firmware": {"bmc.firmware": _TEXT},
        "bmc power supplies": {
            "bmc.psus": _COUNT,
            "bmc.psu.faulty": _TEXT,
            "bmc.psu.state": _OF_EACH,
        },
        "bmc fans": {
            "bmc.fans": _COUNT,
            "bmc.fan.faulty": _TEXT,
            "bmc.fan.state": _OF_EACH,
        },
        "bmc sensors": {
            "bmc.sensors": _COUNT,
            "bmc.sensor.faulty": _TEXT,
            "bmc.sensor.temperature": Known("degC", own_items=True),
        },
        "bmc components": {"bmc.component.firmware": _OF_EACH},
        "bmc event log": {
            "bmc.sel.entries": _COUNT,
            "bmc.sel.critical": _COUNT,
            "bmc.sel.newest": _TEXT,  # when the newest event was, as the BMC's clock has it
        },
    },
}
"""Role → topic → measure → what it is. A topic is asked as one probe."""


@functools.cache
def measures(role: str) -> Mapping[str, Known]:
    """Return every measure of the devices of `role`, by name."""
    return {name: known for topic in TOPICS[role].values() for name, known in topic.items()}
