"""`ethtool -g` and `-a`: a port's rings, and its global pause frames."""

from __future__ import annotations

import dataclasses
import re
from typing import TypeVar

from kvgate.parse.ending import reads
from kvgate.parse.text import available, lines, refuse, whole

RINGS, PAUSE = "ethtool -g", "ethtool -a"
_FIELD = re.compile(r"([A-Za-z][\w ./-]{0,40}?):\s*(.*)")
_SWITCH = {"on": True, "off": False}
_Key = TypeVar("_Key")
_NOWS = ("Current hardware settings:", "Current hardware settings")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rings:
    """How many descriptors a port's rings have, and at most; None: n/a."""

    device: str
    rx: int | None
    rx_max: int | None
    tx: int | None
    tx_max: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Global pause frames (IEEE 802.3x), which stop all priorities at once."""

    device: str
    autonegotiate: bool | None
    rx: bool
    tx: bool


def rings(answer: bytes) -> Rings:
    """Parse ``ethtool -g DEV``."""
    device: str | None = None
    told: dict[tuple[bool, str], str] = {}
    now = False
    for line in (each.strip() for each in lines(answer, RINGS)):
        heading = re.fullmatch(r"Ring parameters for (\S{1,64}):", line)
        match = _FIELD.fullmatch(line)
        if heading:
            device = _once(device, heading[1], RINGS)
        elif line in _NOWS:
            now = True
        elif match and match[2]:
            _add(told, (now, match[1]), match[2], RINGS)
    if device is None or not {(False, "RX"), (True, "RX")} <= told.keys():
        refuse(RINGS, "it does not tell the ring RX, now and at most")

    def size(key: tuple[bool, str]) -> int | None:
        text = available(told.get(key))
        return None if text is None else whole(text, RINGS, key[1])

    return Rings(
        device=device,
        rx=size((True, "RX")),
        rx_max=size((False, "RX")),
        tx=size((True, "TX")),
        tx_max=size((False, "TX")),
    )


def pause(answer: bytes) -> Pause:
    """Parse ``ethtool -a DEV``; what was negotiated is not what was set, and left out."""
    device: str | None = None
    told: dict[str, str] = {}
    for line in (each.strip() for each in lines(answer, PAUSE)):
        heading = re.fullmatch(r"Pause parameters for (\S{1,64}):", line)
        match = _FIELD.fullmatch(line)
        if heading:
            device = _once(device, heading[1], PAUSE)
        elif match:
            _add(told, match[1], match[2], PAUSE)
    switches = {name: _SWITCH.get(told.get(name, "")) for name in ("RX", "TX")}
    rx, tx = switches["RX"], switches["TX"]
    if device is None or rx is None or tx is None:
        refuse(PAUSE, "it does not tell RX and TX, on or off")
    return Pause(
        device=device, autonegotiate=_SWITCH.get(told.get("Autonegotiate", "")), rx=rx, tx=tx
    )


def _once(before: str | None, now: str, tool: str) -> str:
    if before is not None and before != now:
        refuse(tool, f"it tells of {before} and of {now}")
    return now


def _add(told: dict[_Key, str], key: _Key, value: str, tool: str) -> None:
    if told.setdefault(key, value) != value:
        refuse(tool, f"'{key}' stands twice, with different values")


TOOLS = {
    "ethtool_g": reads(RINGS, rings),
    "ethtool_a": reads(PAUSE, pause),
}
