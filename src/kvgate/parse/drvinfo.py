"""``ethtool -i``: which driver and firmware a network port has, and at which PCI address it is."""

from __future__ import annotations

import dataclasses

from kvgate.parse.ending import reads
from kvgate.parse.text import available, lines, refuse, shown

TOOL = "ethtool -i"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DriverInfo:
    """A port's driver; None: it does not tell."""

    driver: str
    version: str | None
    firmware: str | None
    bus: str | None  # 0000:41:00.0


def driver_info(answer: bytes) -> DriverInfo:
    """Parse ``ethtool -i DEV``: KEY, colon, value; raises ParseError where there is no driver."""
    told: dict[str, str] = {}
    for line in lines(answer, TOOL):
        key, colon, value = line.partition(": ")
        if not colon:
            key, value = line.rstrip(":"), ""
        if key.strip() and told.setdefault(key.strip(), value.strip()) != value.strip():
            refuse(TOOL, f"'{key}' is {shown(told[key.strip()])} and also {shown(value)}")
    driver = available(told.get("driver"))
    if driver is None:
        return refuse(TOOL, f"names no driver: {shown(told)}")
    return DriverInfo(
        driver=driver,
        version=available(told.get("version")),
        firmware=available(told.get("firmware-version")),
        bus=available(told.get("bus-info")),
    )


TOOLS = {"ethtool_i": reads("ethtool_i", driver_info)}
