"""`nvme id-ctrl`: what an NVMe controller is (NVMe Base Specification, Identify Controller)."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.smart import KELVIN
from kvgate.parse.text import available, json_object, lines, refuse, shown
from kvgate.parse.typed import count, grouped, words

TOOL = "nvme id-ctrl"
_LINE = re.compile(r"([a-z][a-z0-9_]{0,20})\s*:\s?(.*)")
_DETAIL = re.compile(r"\s+\[[0-9:]+\].*|ps\s+[0-9]+ : .*|\s+.*|NVME Identify Controller:|")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ControllerId:
    """The controller; bit fields as numbers. None where the drive or the tool says nothing."""

    vid: int
    ssvid: int | None
    serial: str | None
    model: str | None
    firmware: str | None
    cntlid: int | None
    version: str | None  # of NVMe, e.g. 1.3.0
    mdts: int | None  # power of two, in pages; 0: no limit
    oacs: int | None
    oncs: int | None
    fna: int | None
    nn: int | None
    sanicap: int | None
    wctemp_c: int | None
    cctemp_c: int | None
    tnvmcap_bytes: int | None
    unvmcap_bytes: int | None
    subnqn: str | None


def controller(answer: bytes) -> ControllerId:
    """Parse the JSON or the text of ``nvme id-ctrl`` (1.x, 2.x)."""
    if answer.lstrip().startswith(b"{"):
        told = json_object(answer, TOOL)
    else:
        told = _from_text(lines(answer, TOOL))

    def number(name: str) -> int | None:
        value = told.get(name)
        if isinstance(value, str) and available(value) and not value.startswith("0x"):
            return grouped(value, TOOL, name)
        return count(value, TOOL, name)

    vid = number("vid")
    if vid is None:
        refuse(TOOL, "it has no vid")
    return ControllerId(
        vid=vid,
        ssvid=number("ssvid"),
        serial=words(told.get("sn"), TOOL, "sn"),
        model=words(told.get("mn"), TOOL, "mn"),
        firmware=words(told.get("fr"), TOOL, "fr"),
        cntlid=number("cntlid"),
        version=_version(number("ver")),
        mdts=number("mdts"),
        oacs=number("oacs"),
        oncs=number("oncs"),
        fna=number("fna"),
        nn=number("nn"),
        sanicap=number("sanicap"),
        wctemp_c=_celsius(number("wctemp")),
        cctemp_c=_celsius(number("cctemp")),
        tnvmcap_bytes=number("tnvmcap"),
        unvmcap_bytes=number("unvmcap"),
        subnqn=words(told.get("subnqn"), TOOL, "subnqn"),
    )


def _from_text(printed: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for line in printed:
        match = _LINE.fullmatch(line)
        if match and match[1] != "ps":
            if told.setdefault(match[1], match[2].strip()) != match[2].strip():
                refuse(TOOL, f"'{match[1]}' stands twice")
        elif not _DETAIL.fullmatch(line):
            refuse(TOOL, f"{shown(line)} is no 'name : value'")
    for name in ("wctemp", "cctemp"):  # 2.x in --human-readable: "343 K (70 °C)"
        if name in told:
            told[name] = re.sub(r" K \(.*\)$|\s*\[.*\]$", "", told[name])
    return told


def _version(told: int | None) -> str | None:
    """Return VER as major.minor.tertiary (16, 8 and 8 bits); 0: older than 1.2, not told."""
    if not told:
        return None
    return f"{told >> 16}.{told >> 8 & 0xFF}.{told & 0xFF}"


def _celsius(kelvin: int | None) -> int | None:
    """Return °C of a threshold in Kelvin; 0: the controller has no such threshold."""
    return kelvin - KELVIN if kelvin else None


TOOLS = {"nvme_id_ctrl": reads("nvme_id_ctrl", controller)}
