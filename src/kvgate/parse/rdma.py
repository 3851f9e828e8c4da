"""`rdma link` and `rdma statistic` (iproute2): state and hardware counters of RDMA links."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import available, decoded, json_value, lines, refuse, shown, whole
from kvgate.parse.typed import count, member, rows, words

LINK, STATISTIC = "rdma link", "rdma statistic"
_PROMPT = ("$ ", "# ")
_HEAD = re.compile(r"(?:link |[0-9]+/[0-9]+: )([^\s/]{1,64}/[0-9]{1,3}):? (.*)")
_COUNTER = re.compile(r"[A-Za-z][\w.]{1,80}")
_OPTIONAL = "Optional-set:"
_KEYS = ("ifindex", "ifname", "port")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RdmaLink:
    """An RDMA link; ``netdev`` None: it has none (InfiniBand)."""

    device: str
    port: int
    state: str | None
    physical_state: str | None
    netdev: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LinkCounters:
    """The counters of an RDMA link by name; one that is not there is not counted: never 0."""

    link: str  # DEVICE/PORT
    counters: Mapping[str, int]
    optional: Mapping[str, int]  # those that are counted only when switched on


def link(answer: bytes) -> tuple[RdmaLink, ...]:
    """Parse ``rdma link``, as JSON (``-j``) or text (also with an index before the name)."""
    if decoded(answer, LINK).lstrip().startswith("["):
        found = tuple(_from_json(row) for row in rows(json_value(answer, LINK), LINK, "the answer"))
    else:
        found = tuple(_from_text(line) for line in _printed(answer, LINK))
        if not found:
            refuse(LINK, "it prints no link")
    _once([f"{each.device}/{each.port}" for each in found], LINK)
    return found


def _once(names: list[str], tool: str) -> None:
    for name in names:
        if names.count(name) > 1:
            refuse(tool, f"{name} stands twice")


def _printed(answer: bytes, tool: str) -> Iterator[str]:
    return (each for each in lines(answer, tool) if each.strip() and not each.startswith(_PROMPT))


def _from_json(row: dict[str, Any]) -> RdmaLink:
    port = count(row.get("port"), LINK, "port")
    device = words(row.get("ifname"), LINK, "ifname")
    if device is None or port is None:
        refuse(LINK, f"{shown(row)} names no link")
    return RdmaLink(
        device=device,
        port=port,
        state=words(row.get("state"), LINK, "state"),
        physical_state=words(row.get("physical_state"), LINK, "physical_state"),
        netdev=words(row.get("netdev"), LINK, "netdev"),
    )


def _from_text(line: str) -> RdmaLink:
    head = _HEAD.fullmatch(line.strip())
    if not head:
        refuse(LINK, f"{shown(line)} is no link")
    told = head[2].split()
    if len(told) % 2:
        refuse(LINK, f"{shown(line)}: not names and values")
    pairs = dict(zip(told[::2], told[1::2], strict=True))
    if len(pairs) * 2 != len(told):
        refuse(LINK, f"{shown(line)}: a name stands twice")
    device, _, port = head[1].partition("/")
    return RdmaLink(
        device=device,
        port=whole(port, LINK, "port"),
        state=available(pairs.get("state")),
        physical_state=available(pairs.get("physical_state")),
        netdev=available(pairs.get("netdev")),
    )


def statistic(answer: bytes) -> tuple[LinkCounters, ...]:
    """Parse ``rdma statistic show``, as JSON or text; counters may go on in following lines."""
    if decoded(answer, STATISTIC).lstrip().startswith("["):
        document = rows(json_value(answer, STATISTIC), STATISTIC, "the answer")
        found = tuple(_counters_from_json(row) for row in document)
    else:
        found = tuple(_counters_from_text(answer))
        if not found:
            refuse(STATISTIC, "it prints no link")
    _once([each.link for each in found], STATISTIC)
    return found


def _counters_from_json(row: dict[str, Any]) -> LinkCounters:
    device = words(row.get("ifname"), STATISTIC, "ifname")
    port = count(row.get("port"), STATISTIC, "port")
    if device is None or port is None:
        refuse(STATISTIC, f"{shown(row)} names no link")
    sets = {key for key, value in row.items() if isinstance(value, dict)}
    optional = {
        name: value for key in sets for name, value in member(row[key], STATISTIC, key).items()
    }
    told = {key: value for key, value in row.items() if key not in sets and key not in _KEYS}
    return LinkCounters(
        link=f"{device}/{port}", counters=_counted(told), optional=_counted(optional)
    )


def _counted(told: dict[str, Any]) -> dict[str, int]:
    """Return the counters that have a value."""
    found = {name: count(value, STATISTIC, name) for name, value in told.items()}
    return {name: value for name, value in found.items() if value is not None}


def _counters_from_text(answer: bytes) -> Iterator[LinkCounters]:
    blocks: list[tuple[str, list[str]]] = []
    for line in _printed(answer, STATISTIC):
        head = _HEAD.fullmatch(line.strip())
        if head:
            blocks.append((head[1], head[2].split()))
        elif blocks:
            blocks[-1][1].extend(line.split())
        else:
            refuse(STATISTIC, f"{shown(line)} stands before the first link")
    for name, told in blocks:
        at = told.index(_OPTIONAL) if _OPTIONAL in told else len(told)
        yield LinkCounters(
            link=name, counters=_pairs(name, told[:at]), optional=_pairs(name, told[at + 1 :])
        )


def _pairs(link_name: str, told: list[str]) -> dict[str, int]:
    names, values = told[::2], told[1::2]
    if len(names) != len(values) or len(set(names)) != len(names):
        refuse(STATISTIC, f"{link_name}: not one value to each counter: is it cut?")
    for name in names:
        if not _COUNTER.fullmatch(name):
            refuse(STATISTIC, f"{link_name}: {shown(name)} is no counter's name")
    return _counted(dict(zip(names, values, strict=True)))


TOOLS = {
    "rdma_link": reads("rdma_link", link),
    "rdma_statistic": reads("rdma_statistic", statistic),
}
