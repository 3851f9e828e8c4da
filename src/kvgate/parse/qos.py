"""`mlnx_qos` and `dcb pfc show`: lossless priorities, trust and traffic classes of a port."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import decoded, json_object, lines, refuse, shown
from kvgate.parse.typed import count, flag

MLNX, PFC = "mlnx_qos", "dcb pfc"
_PRIORITIES = tuple(range(8))  # IEEE 802.1Q


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrafficClass:
    """A traffic class of mlnx_qos."""

    number: int
    ratelimit: str | None
    tsa: str | None  # ets, strict, vendor
    bandwidth_pct: int | None
    priorities: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MlnxQos:
    """What mlnx_qos prints; None where it prints nothing of the kind."""

    dcbx_mode: str | None
    trust: str | None
    pfc_enabled_priorities: tuple[int, ...]
    prio2buffer: tuple[int, ...] | None
    buffer_bytes: tuple[int, ...] | None
    cable_len_m: int | None
    dscp2prio: Mapping[int, int]  # {} where the answer has no such mapping
    traffic_classes: tuple[TrafficClass, ...]


_LINES = {
    "dcbx": re.compile(r"DCBX mode: ([A-Za-z ]{1,40})"),
    "trust": re.compile(r"Priority trust state: (\S+)"),
    "cable": re.compile(r"Cable len: ([0-9]{1,5})"),
    "buffers": re.compile(
        r"Receive buffer size \(bytes\): ([0-9]{1,9}(?:,[0-9]{1,9})*),?"
        r"\s*(?:max_buffer_size=[0-9]+)?"
    ),
    "dscp": re.compile(r"prio:([0-7]) dscp:([0-9]{2}(?:,[0-9]{2})*),?"),
    "priority": re.compile(r"priority((?:\s+[0-7]){8})"),
    "enabled": re.compile(r"enabled((?:\s+[01]){8})"),
    "buffer": re.compile(r"buffer((?:\s+[0-7]){8})"),
    "tc": re.compile(r"tc: ([0-7]) ratelimit: ([^,]+)(?:, tsa: (\w+))?(?:, bw: ([0-9]{1,3})%)?"),
    "member": re.compile(r"priority:\s+([0-7])"),
    "heading": re.compile(r"dscp2prio mapping:|PFC configuration:|default priority:.*"),
}


def mlnx_qos(answer: bytes) -> MlnxQos:
    """Parse ``mlnx_qos -i DEV``.

    Raises ParseError for every line that it doesn't know (an answer whose line ends were lost
    says nothing that could be relied upon), and where the row ``enabled`` of PFC is missing.
    """
    once: dict[str, re.Match[str]] = {}
    dscp: dict[int, int] = {}
    classes: dict[int, TrafficClass] = {}
    current: int | None = None
    for line in (each.strip() for each in lines(answer, MLNX)):
        if not line:
            continue
        kind, match = _kind(line)
        if kind == "dscp":
            for code in match[2].split(","):
                if dscp.setdefault(int(code), int(match[1])) != int(match[1]):
                    refuse(MLNX, f"DSCP {code} has two priorities")
        elif kind == "tc":
            current = int(match[1])
            if current in classes:
                refuse(MLNX, f"traffic class {current} stands twice")
            classes[current] = _class(match)
        elif kind == "member":
            if current is None:
                refuse(MLNX, f"{shown(line)} belongs to no traffic class")
            before = classes[current]
            classes[current] = dataclasses.replace(
                before, priorities=(*before.priorities, int(match[1]))
            )
        elif kind != "heading" and once.setdefault(kind, match)[0] != match[0]:
            refuse(MLNX, f"{shown(line)}: another line tells it differently")
    return _built(once, dscp, classes)


def _kind(line: str) -> tuple[str, re.Match[str]]:
    for kind, shape in _LINES.items():
        if match := shape.fullmatch(line):
            return kind, match
    return refuse(MLNX, f"{shown(line)} is no line of mlnx_qos")


def _class(match: re.Match[str]) -> TrafficClass:
    return TrafficClass(
        number=int(match[1]),
        ratelimit=match[2],
        tsa=match[3],
        bandwidth_pct=int(match[4]) if match[4] else None,
        priorities=(),
    )


def _built(
    once: dict[str, re.Match[str]], dscp: dict[int, int], classes: dict[int, TrafficClass]
) -> MlnxQos:
    def numbers(kind: str, separator: str | None = None) -> tuple[int, ...] | None:
        match = once.get(kind)
        return None if match is None else tuple(int(n) for n in match[1].split(separator))

    def text(kind: str) -> str | None:
        return once[kind][1].strip() if kind in once else None

    enabled = numbers("enabled")
    if enabled is None or numbers("priority") != _PRIORITIES:
        refuse(MLNX, "it has no PFC configuration with the rows 'priority' (0 to 7) and 'enabled'")
    return MlnxQos(
        dcbx_mode=text("dcbx"),
        trust=text("trust"),
        pfc_enabled_priorities=tuple(n for n, on in zip(_PRIORITIES, enabled, strict=True) if on),
        prio2buffer=numbers("buffer"),
        buffer_bytes=numbers("buffers", ","),
        cable_len_m=int(once["cable"][1]) if "cable" in once else None,
        dscp2prio=dscp,
        traffic_classes=tuple(classes.values()),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DcbPfc:
    """What ``dcb pfc show`` prints; ``delay`` in bit times (802.1Qbb), as printed."""

    pfc_cap: int | None
    macsec_bypass: bool | None
    delay: int | None
    pfc_enabled_priorities: tuple[int, ...]


_PAIR = re.compile(r"(pfc-cap|macsec-bypass|delay) (\S+)")
_PRIO = re.compile(r"prio-pfc ([0-7]:(?:on|off)(?: [0-7]:(?:on|off))*)")
_COUNTS = re.compile(r"(?:requests|indications)(?: [0-7]:[0-9]{1,20})+")
_SWITCH = {"on": True, "off": False}


def dcb_pfc(answer: bytes) -> DcbPfc:
    """Parse ``dcb pfc show dev DEV``, as text (in one or several lines) or JSON.

    Raises ParseError unless it tells of each of the eight priorities whether PFC is on.
    """
    if decoded(answer, PFC).lstrip().startswith("{"):
        told = json_object(answer, PFC)
    else:
        told = _pfc_from_text(decoded(answer, PFC))
    switches = told.get("prio_pfc")
    if not isinstance(switches, list) or len(switches) != len(_PRIORITIES):
        refuse(PFC, f"prio-pfc is {shown(switches)}, not on or off for each of eight priorities")
    on = [flag(each, PFC, "prio-pfc") for each in switches]
    if None in on:
        refuse(PFC, "prio-pfc leaves out a priority")
    return DcbPfc(
        pfc_cap=count(told.get("pfc_cap"), PFC, "pfc-cap"),
        macsec_bypass=flag(told.get("macsec_bypass"), PFC, "macsec-bypass"),
        delay=count(told.get("delay"), PFC, "delay"),
        pfc_enabled_priorities=tuple(n for n in _PRIORITIES if on[n]),
    )


def _pfc_from_text(text: str) -> dict[str, Any]:
    rest = re.sub(r"\s+", " ", text).strip()
    told: dict[str, Any] = {}
    while rest:
        pair, prio, counts = _PAIR.match(rest), _PRIO.match(rest), _COUNTS.match(rest)
        if pair:
            name, value = pair[1].replace("-", "_"), pair[2]
            _once(told, name, _SWITCH.get(value, value) if name == "macsec_bypass" else value)
        elif prio:
            _once(told, "prio_pfc", _switches(prio[1]))
        elif not counts:
            refuse(PFC, f"{shown(rest)} is nothing that `dcb pfc show` prints")
        rest = rest[(pair or prio or counts).end() :].lstrip()  # type: ignore[union-attr]  # one is
    return told


def _once(told: dict[str, Any], name: str, value: Any) -> None:
    if told.setdefault(name, value) != value:
        refuse(PFC, f"{name} is {shown(told[name])} and also {shown(value)}")


def _switches(text: str) -> list[bool]:
    found: dict[int, bool] = {}
    for word in text.split():
        number, _, switch = word.partition(":")
        if found.setdefault(int(number), _SWITCH[switch]) != _SWITCH[switch]:
            refuse(PFC, f"priority {number} is on and off")
    if tuple(sorted(found)) != _PRIORITIES:
        refuse(PFC, f"prio-pfc tells of {len(found)} priorities, not of eight")
    return [found[number] for number in _PRIORITIES]


TOOLS = {"mlnx_qos": reads("mlnx_qos", mlnx_qos), "dcb_pfc": reads("dcb_pfc", dcb_pfc)}
