"""`ethtool DEV` and `ethtool -S DEV`: link settings and counters of a network port."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from kvgate.parse.ending import ended_well
from kvgate.parse.text import available, decoded, lines, refuse, shown

SETTINGS, COUNTERS = "ethtool", "ethtool -S"
NO_DATA = 75
"""ethtool's exit code where the driver tells nothing: "No data available"."""

_HEADING = re.compile(r"Settings for ([^\s:]{1,64}):")
_FIELD = re.compile(r"\s+([A-Z][^:]{1,60}):\s*(.*)")
_COMPLAINT = re.compile(r"(?:Cannot get|netlink error:|No data available).*")
_SPEED = re.compile(r"([0-9]{1,9})Mb/s")
_UNKNOWN_SPEED = ("65535Mb/s", "4294967295Mb/s")  # SPEED_UNKNOWN, in 16 and 32 bits
_LINK = re.compile(r"(yes|no)(?: \((.*)\))?")
_ON_OFF = {"on": True, "off": False}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A port's settings; None where ethtool says nothing, ``Unknown!`` or ``Not reported``."""

    device: str | None  # None: the heading is not there (a grep)
    speed_mbps: int | None
    duplex: str | None
    autonegotiation: bool | None
    port: str | None
    lanes: int | None
    supported_fec: tuple[str, ...] | None
    advertised_fec: tuple[str, ...] | None
    partner_fec: tuple[str, ...] | None
    link_detected: bool | None
    link_reason: str | None  # "no (No cable)"
    warnings: tuple[str, ...]


def settings(answer: bytes) -> tuple[Settings, ...]:
    """Parse what one or several ``ethtool DEV`` printed, also with complaints before it.

    Lines of a shell's echo (``$ …``) are no settings. Raises ParseError where nothing of ethtool
    is in the answer, and for a port that tells one thing twice, and differently.
    """
    found: list[Settings] = []
    warnings: list[str] = []
    device: str | None = None
    told: dict[str, str] | None = None
    for line in lines(answer, SETTINGS):
        heading = _HEADING.fullmatch(line.strip())
        if heading:
            if told is not None:
                found.append(_settings(device, told, warnings))
                warnings = []
            device, told = heading[1], {}
        elif _COMPLAINT.fullmatch(line.strip()):
            warnings.append(line.strip())
        elif match := _FIELD.fullmatch(line):
            told = {} if told is None else told
            _add(told, match[1], match[2].strip())
            if device is None and match[1] == "Link detected":  # the last line of a port
                found.append(_settings(None, told, warnings))
                told, warnings = None, []
        elif device is None and line.strip() and not line.startswith(("$ ", "# ")):
            refuse(SETTINGS, f"{shown(line)} is nothing that ethtool prints")
    if told is not None:
        found.append(_settings(device, told, warnings))
    if not found:
        refuse(SETTINGS, "it has no 'Settings for …' and no field of them")
    return tuple(found)


def _add(told: dict[str, str], name: str, value: str) -> None:
    if told.setdefault(name, value) != value:
        refuse(SETTINGS, f"'{name}' is {shown(told[name])} and also {shown(value)}")


def _settings(device: str | None, told: dict[str, str], warnings: list[str]) -> Settings:
    def text(name: str) -> str | None:
        value = available(told.get(name))
        unknown = value is None or value.startswith(("Unknown!", "Not reported"))
        return None if unknown else value

    def modes(name: str) -> tuple[str, ...] | None:
        value = told.get(name)  # "None" is a mode: no FEC
        return None if value in (None, "", "Not reported") else tuple(str(value).split())

    link = text("Link detected")
    match = _LINK.fullmatch(link) if link else None
    if link and not match:
        refuse(SETTINGS, f"'Link detected' is {shown(link)}, neither yes nor no")
    lanes, negotiated = text("Lanes"), text("Auto-negotiation")
    if lanes is not None and not re.fullmatch("[0-9]{1,3}", lanes):
        refuse(SETTINGS, f"'Lanes' is {shown(lanes)}, not a number")
    return Settings(
        device=device,
        speed_mbps=_speed(text("Speed")),
        duplex=text("Duplex"),
        autonegotiation=None if negotiated is None else _ON_OFF.get(negotiated.lower()),
        port=text("Port"),
        lanes=None if lanes is None else int(lanes),
        supported_fec=modes("Supported FEC modes"),
        advertised_fec=modes("Advertised FEC modes"),
        partner_fec=modes("Link partner advertised FEC modes"),
        link_detected=None if match is None else match[1] == "yes",
        link_reason=match[2] if match else None,
        warnings=tuple(warnings),
    )


def _speed(told: str | None) -> int | None:
    if told is None or told in _UNKNOWN_SPEED:
        return None
    match = _SPEED.fullmatch(told)
    if not match:
        refuse(SETTINGS, f"'Speed' is {shown(told)}, not in Mb/s")
    return int(match[1])


_COUNTER = re.compile(r"\s*(\S(?:.{0,98}\S)?):\s*([0-9]{1,20})")
_ONE = b"NIC statistics:\n"
_PLAIN = re.compile(r"^ +([^\s:]{1,100}): ([0-9]{1,20})\n", re.MULTILINE)
_PARTED = re.compile(r"-{3,}")
_NOTHING = ("no stats available", "nothing to see here")
_ERROR = re.compile(
    r"err(?:or)?s?(?:_|$|\b)|errs\b|discard|drop|crc|fail|timeout|jabber|undersize|oversize|too_long|"
    r"out_of_(?:buffer|sequence)|symbol|link_down|no_frags|storm_error|icrc|retrans|alignment"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """One reading of a port's counters, by their whole names: digits and queues kept apart."""

    counters: Mapping[str, int]

    def errors(self) -> tuple[str, ...]:
        """Return the names that count losses or faults, as they are called by the drivers."""
        return tuple(name for name in self.counters if _ERROR.search(name.lower()))


def statistics(answer: bytes) -> tuple[Statistics, ...]:
    """Parse ``ethtool -S DEV``; readings parted by a heading or by ``---`` are kept apart.

    A name may hold colons (``rxq0: rx_bytes``) and its values are unsigned. A driver without
    counters is one reading that is empty.
    """
    if plain := _one_reading(answer):
        return (plain,)
    readings: list[dict[str, int]] = []
    empty = False
    for line in lines(answer, COUNTERS):
        text = line.strip()
        if not text:
            continue
        if text == "NIC statistics:" or _PARTED.fullmatch(text):
            readings.append({})
        elif match := _COUNTER.fullmatch(line.rstrip()):
            readings = readings or [{}]
            name, value = match[1], int(match[2])
            if readings[-1].setdefault(name, value) != value:
                refuse(COUNTERS, f"'{name}' stands twice, with different values")
        elif text.lower() in _NOTHING:
            empty = True
        else:
            refuse(COUNTERS, f"{shown(line)} is no counter")
    found = [reading for reading in readings if reading]
    if not found and not empty:
        refuse(COUNTERS, f"{shown(decoded(answer, COUNTERS))} holds no counter")
    return tuple(Statistics(counters=reading) for reading in found or [{}])


def _one_reading(answer: bytes) -> Statistics | None:
    """Return the only reading of an answer in which nothing is odd, found in one go; else None.

    A port has hundreds of counters, one a queue.
    """
    if not answer.startswith(_ONE) or b"\0" in answer:
        return None
    try:
        text = answer[len(_ONE) :].decode("ascii")
    except UnicodeDecodeError:
        return None
    found = _PLAIN.findall(text)
    names, values = zip(*found, strict=True) if found else ((), ())
    counters = dict(zip(names, map(int, values), strict=True))
    whole = len(found) == text.count("\n") == len(counters) > 0
    return Statistics(counters=counters) if whole else None


def _read_settings(answer: bytes, exit_code: int | None) -> object:
    ended_well(SETTINGS, exit_code, fine=(0, NO_DATA))
    return settings(answer)


def _read_statistics(answer: bytes, exit_code: int | None) -> object:
    ended_well(COUNTERS, exit_code)
    return statistics(answer)


TOOLS = {"ethtool": _read_settings, "ethtool_S": _read_statistics}
