"""How tools print their version: the number alone, without the tool's name around it."""

from __future__ import annotations

import re

from kvgate.parse.text import lines, refuse, shown

_NUMBER = r"([0-9]+(?:\.[0-9]+)+\S*)"
SHAPES = {
    "fio": re.compile(rf"fio-{_NUMBER}"),
    "nvme": re.compile(rf"nvme version {_NUMBER}(?: \(.*\))?"),
    "python": re.compile(rf"Python {_NUMBER}"),
    "lsblk": re.compile(rf"lsblk (?:from|\()?\s*util-linux {_NUMBER}\)?"),
    "lspci": re.compile(rf"lspci version {_NUMBER}"),
    "ethtool": re.compile(rf"ethtool version {_NUMBER}"),
    "smartctl": re.compile(rf"smartctl {_NUMBER} [0-9-]{{10}} .*"),
    "dmidecode": re.compile(_NUMBER),
    "dcb": re.compile(rf"dcb utility, iproute2-{_NUMBER}"),
    "chronyc": re.compile(rf"chronyc \(chrony\) version {_NUMBER} .*"),
    "lldpcli": re.compile(rf"lldpcli {_NUMBER}"),
}
"""First line of ``TOOL --version``, of ``nvme version``, of ``dcb -V``, of ``lldpcli -v``."""


def version(answer: bytes, tool: str) -> str:
    """Return the version in `tool`'s first line, e.g. ``3.33``; raises ParseError otherwise."""
    first = next((line.strip() for line in lines(answer, f"{tool} version") if line.strip()), "")
    match = SHAPES[tool].fullmatch(first)
    if not match:
        refuse(f"{tool} version", f"{shown(first)} is not how {tool} prints its version")
    return match[1].rstrip(")")
