"""How a kernel was built: the lines of ``/proc/config.gz`` or ``/boot/config-…``."""

from __future__ import annotations

import re

from kvgate.parse.ending import reads
from kvgate.parse.text import lines, refuse, shown

TOOL = "kernel configuration"
_SET = re.compile(r"(CONFIG_[A-Z0-9_]{1,60})=([ymn]|\"[^\"]{0,200}\"|-?[0-9a-fA-Fx]{1,20})")
_UNSET = re.compile(r"# (CONFIG_[A-Z0-9_]{1,60}) is not set")


def options(answer: bytes) -> dict[str, str]:
    """Return option → y, m, or a text; n for one that "is not set". Comments are left out."""
    found: dict[str, str] = {}
    for line in (each.strip() for each in lines(answer, TOOL)):
        match = _SET.fullmatch(line)
        unset = _UNSET.fullmatch(line)
        if match:
            name, value = match[1], match[2]
        elif unset:
            name, value = unset[1], "n"
        elif not line or line.startswith("#"):
            continue
        else:
            refuse(TOOL, f"{shown(line)} is no option")
        if found.setdefault(name, value) != value:
            refuse(TOOL, f"{name} stands twice, with different values")
    if not found:
        refuse(TOOL, "it has no option")
    return found


TOOLS = {"kernel_config": reads(TOOL, options)}
