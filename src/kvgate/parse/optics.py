"""`ethtool -m DEV`: the module in a port, optics or cable: what it is, light, heat, alarms."""

from __future__ import annotations

import dataclasses
import decimal
import re

from kvgate.parse.ending import reads
from kvgate.parse.text import available, lines, refuse, shown

TOOL = "ethtool -m"
_LINE = re.compile(r"\s*(\S[^:]{0,90}?)\s*:\s*(.*)")
_POWER = re.compile(
    r"([0-9]{1,4}\.[0-9]{1,6}) mW / (?:(-?[0-9]{1,3}\.[0-9]{1,4})|-inf) dBm", re.IGNORECASE
)
_HEAT = re.compile(r"(-?[0-9]{1,3}(?:\.[0-9]{1,3})?) degrees C(?: / .*)?")
_RECEIVED = re.compile(r"(?:Rcvr|Receiver) signal .*(?:power|OMA).*")
_SENT = re.compile(r"(?:Transmit avg optical|Laser output) power(?: *\(Channel [0-9]{1,2}\))?")
_FLAG = re.compile(r".{3,80} (?:alarm|warning)\b.*")
_ONCE = {
    "Identifier": "identifier",
    "Vendor name": "vendor",
    "Vendor PN": "part_number",
    "Vendor SN": "serial",
    "Module temperature": "temperature",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Light on one lane; ``dbm`` None: none at all (−inf)."""

    milliwatt: decimal.Decimal
    dbm: decimal.Decimal | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module. Without lanes and temperature it has no diagnostics: a copper cable has none."""

    identifier: str  # 0x03 (SFP), 0x11 (QSFP28)
    vendor: str | None
    part_number: str | None
    serial: str | None
    temperature_c: decimal.Decimal | None
    received: tuple[Lane, ...]
    sent: tuple[Lane, ...]
    alarms: tuple[str, ...]  # the alarms and warnings that are on


def module(answer: bytes) -> Module:
    """Parse what SFP, QSFP and CMIS modules print (ethtool 4.x to 6.x).

    Raises ParseError where there is no identifier (an unknown module is printed as hex), and for
    a power or a temperature that it does not know.
    """
    told: dict[str, str] = {}
    received: list[Lane] = []
    sent: list[Lane] = []
    alarms: list[str] = []
    for line in lines(answer, TOOL):
        match = _LINE.fullmatch(line)
        if not match:
            continue
        name, value = match[1], match[2].strip()
        if name in _ONCE:
            if told.setdefault(_ONCE[name], value) != value:
                refuse(TOOL, f"'{name}' stands twice, with different values")
        elif "threshold" in name:
            continue
        elif _FLAG.fullmatch(name):
            alarms += [" ".join(name.split())] if _on(name, value) else []
        elif _RECEIVED.fullmatch(name):
            received.append(_lane(name, value))
        elif _SENT.fullmatch(name):
            sent.append(_lane(name, value))
    identifier = available(told.get("identifier"))
    if identifier is None:
        refuse(TOOL, "it names no identifier of a module")
    return Module(
        identifier=identifier,
        vendor=available(told.get("vendor")),
        part_number=available(told.get("part_number")),
        serial=available(told.get("serial")),
        temperature_c=_heat(available(told.get("temperature"))),
        received=tuple(received),
        sent=tuple(sent),
        alarms=tuple(alarms),
    )


def _on(name: str, value: str) -> bool:
    if value not in ("On", "Off"):
        refuse(TOOL, f"'{name}' is {shown(value)}, neither On nor Off")
    return value == "On"


def _lane(name: str, value: str) -> Lane:
    match = _POWER.fullmatch(value)
    if not match:
        refuse(TOOL, f"'{name}' is {shown(value)}, not mW and dBm")
    return Lane(
        milliwatt=decimal.Decimal(match[1]),
        dbm=None if match[2] is None else decimal.Decimal(match[2]),
    )


def _heat(told: str | None) -> decimal.Decimal | None:
    if told is None:
        return None
    match = _HEAT.fullmatch(told)
    return decimal.Decimal(match[1]) if match else refuse(TOOL, f"{shown(told)} is no temperature")


TOOLS = {"ethtool_m": reads(TOOL, module)}
