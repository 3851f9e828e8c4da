"""Memory errors that the kernel counted (EDAC), by memory controller."""

from __future__ import annotations

import dataclasses

from kvgate.parse import sysfs
from kvgate.parse.ending import reads
from kvgate.parse.text import refuse, whole


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A memory controller and how many errors it has counted since its driver was loaded."""

    name: str
    correctable: int
    uncorrectable: int


def controllers(answer: bytes) -> tuple[Controller, ...]:
    """Parse the attributes below /sys/devices/system/edac/mc (kernel ABI sysfs-devices-edac)."""
    what = "EDAC"
    found = []
    for name, values in sysfs.attributes(answer, what).items():
        counts = [sysfs.text(values, each, what) for each in ("ce_count", "ue_count")]
        if None in counts:
            refuse(what, f"{name} tells no ce_count or no ue_count")
        correctable, uncorrectable = (whole(str(each), what, name) for each in counts)
        found.append(Controller(name=name, correctable=correctable, uncorrectable=uncorrectable))
    return tuple(found)


TOOLS = {"sysfs_edac": reads("EDAC", controllers, fine=(0, 1, 2))}
"""grep ends with 1 where nothing is there, with 2 where a file can't be read."""
