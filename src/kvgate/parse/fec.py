"""`ethtool --show-fec`: the forward error correction that a port uses and may use."""

from __future__ import annotations

import dataclasses
import re

from kvgate.parse.ending import reads
from kvgate.parse.text import lines, refuse, shown

TOOL = "ethtool --show-fec"
_HEADING = re.compile(r"FEC parameters for (\S{1,64}):")
_CONFIGURED = re.compile(r"(?:Supported/)?Configured FEC encodings: (.*)")
_ACTIVE = re.compile(r"Active FEC encodings?: (.*)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fec:
    """A port's FEC; names as ethtool has them: RS, BaseR, LLRS, Off."""

    device: str
    configured: tuple[str, ...]
    active: tuple[str, ...]


def fec(answer: bytes) -> Fec:
    """Parse ``ethtool --show-fec DEV`` (4.x to 6.x)."""
    device: str | None = None
    told: dict[str, tuple[str, ...]] = {}
    for line in (each.strip() for each in lines(answer, TOOL)):
        if not line:
            continue
        if match := _HEADING.fullmatch(line):
            device = match[1]
        elif match := _CONFIGURED.fullmatch(line):
            told["configured"] = tuple(match[1].split())
        elif match := _ACTIVE.fullmatch(line):
            told["active"] = tuple(match[1].split())
        elif not line.lower().startswith(("supported", "netlink", "statistics")):
            refuse(TOOL, f"{shown(line)} is no line of it")
    if device is None or not told.get("active"):
        refuse(TOOL, "it does not tell which FEC a port uses")
    return Fec(device=device, configured=told.get("configured", ()), active=told["active"])


TOOLS = {"ethtool_fec": reads(TOOL, fec)}
