"""Network ports from sysfs: address, speed, carrier."""

from __future__ import annotations

import dataclasses
import re

from kvgate.parse import sysfs
from kvgate.parse.ending import reads
from kvgate.parse.text import refuse, shown, whole

_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5,19}")  # InfiniBand's are 20 bytes long


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A network port. ``speed_mbps`` None: it reports none (no link, −1, or virtual)."""

    name: str
    mac: str | None
    speed_mbps: int | None
    speed_as_told: str | None  # what stands in sysfs, e.g. "-1"; None: the file can't be read
    carrier: bool | None  # None: can't be read, it is administratively down
    operstate: str | None
    attached: bool  # it sits on a bus (no bridge, bond, veth, lo)


def ports(answer: bytes) -> tuple[Port, ...]:
    """Parse the attributes below /sys/class/net (kernel ABI sysfs-class-net)."""
    what = "/sys/class/net"
    found = []
    for name, values in sysfs.attributes(answer, what).items():
        mac = sysfs.text(values, "address", what) or None
        if mac is not None and not _MAC.fullmatch(mac):
            refuse(what, f"address of {name} is {shown(mac)}")
        speed = sysfs.text(values, "speed", what)
        carrier = sysfs.text(values, "carrier", what)
        if carrier not in (None, "0", "1"):
            refuse(what, f"carrier of {name} is {shown(carrier)}, neither 0 nor 1")
        found.append(
            Port(
                name=name,
                mac=mac,
                speed_mbps=_speed(speed, name),
                speed_as_told=speed,
                carrier=None if carrier is None else carrier == "1",
                operstate=sysfs.text(values, "operstate", what),
                attached="device/modalias" in values,
            )
        )
    return tuple(found)


def _speed(told: str | None, name: str) -> int | None:
    """Return Mbit/s, None for unknown: absent, −1, its unsigned spelling 4294967295, or 0."""
    if told in (None, "", "-1", "4294967295", "0"):
        return None
    return whole(str(told), "/sys/class/net", f"speed of {name}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What drives a port, and where it sits; ``address`` None: not on PCI."""

    name: str
    driver: str | None
    address: str | None


def places(answer: bytes) -> tuple[Place, ...]:
    """Parse ``device/uevent`` below /sys/class/net."""
    found = []
    for name, values in sysfs.attributes(answer, "/sys/class/net").items():
        told = dict(
            line.partition("=")[::2]
            for line in values.get("device/uevent", b"").decode("utf-8", "replace").splitlines()
        )
        found.append(
            Place(
                name=name,
                driver=told.get("DRIVER") or None,
                address=told.get("PCI_SLOT_NAME") or None,
            )
        )
    return tuple(found)


TOOLS = {
    "sysfs_net": reads("sysfs_net", ports, fine=(0, 1, 2)),
    "sysfs_net_places": reads("sysfs_net_places", places, fine=(0, 1, 2)),
}
"""grep ends with 1 where nothing is there, with 2 where a file can't be read."""
