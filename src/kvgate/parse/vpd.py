"""Vital product data of PCI cards as ``lspci -vv`` prints it, and whether a driver has the card."""

from __future__ import annotations

import dataclasses
import re

from kvgate.parse import lspci
from kvgate.parse.ending import reads
from kvgate.parse.system import serial
from kvgate.parse.text import available, lines

TOOL = "lspci -vv"
_HEAD = re.compile(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) \S.*", re.IGNORECASE)
_VPD = re.compile(r"\s+Capabilities: \[[0-9a-f]{2,3}\] Vital Product Data")
_NAME = re.compile(r"\s+Product Name: (.*)")
_FIELD = re.compile(r"\s+\[(PN|SN)\] (?:Part number|Serial number): (.*)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A PCI function with what its card says of itself; None: the card doesn't tell it.

    ``readable`` is False where lspci may not read the card's capabilities (it needs root).
    """

    address: str  # with its domain: 0000:41:00.0
    description: str | None
    driver: str | None
    product: str | None
    part_number: str | None
    serial: str | None
    readable: bool


def cards(answer: bytes) -> tuple[Card, ...]:
    """Parse ``lspci -D -vv``; no device at all is () here: none of that class is there.

    The fields are those of the PCI Local Bus Specification 3.0, appendix I (PN, SN), under the
    names that pciutils prints (ls-vpd.c). Raises ParseError as `parse.lspci` does.
    """
    if not answer.strip():
        return ()
    told: dict[str, dict[str, str]] = {}
    inside, current = False, ""
    for line in lines(answer, TOOL):
        if head := _HEAD.fullmatch(line):
            inside, current = False, head[1].lower()
            told[current] = {}
        elif _VPD.fullmatch(line):
            inside = current in told  # a device whose head was lost has no name to keep it by
        elif line.strip().startswith("Capabilities: "):
            inside = False
        elif inside and (match := _NAME.fullmatch(line)):
            told[current].setdefault("name", match[1])
        elif inside and (match := _FIELD.fullmatch(line)):
            told[current].setdefault(match[1], match[2])
    return tuple(_card(each, told.get(each.slot.lower(), {})) for each in lspci.lspci(answer))


def _card(device: lspci.Device, told: dict[str, str]) -> Card:
    slot = device.slot.lower()
    return Card(
        address=slot if slot.count(":") == 2 else f"0000:{slot}",
        description=device.description,
        driver=device.driver,
        product=available(told.get("name")),
        part_number=available(told.get("PN")),
        serial=serial(told.get("SN", "")),
        readable=not device.denied,
    )


TOOLS = {"lspci_vpd": reads("lspci_vpd", cards)}
