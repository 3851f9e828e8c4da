"""`ip link` (iproute2): network interfaces, their MTU, state and flags."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import available, decoded, json_value, lines, refuse, shown, whole
from kvgate.parse.typed import count, rows, words

TOOL = "ip link"
_HEAD = re.compile(
    r"([0-9]{1,9}): ([^\s:@]{1,64})(?:@([^\s:]{1,64}))?: <([A-Z0-9_,-]*)> ((?:\S+ \S+(?: |$))+)"
)
_BELOW = re.compile(r"\s+link/(\S+)(?: ([0-9a-f]{2}(?::[0-9a-f]{2})+))?(?: .*)?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """A network interface. ``no_carrier``: it is up and has no link."""

    index: int | None
    name: str
    parent: str | None  # of a VLAN or a macvlan
    flags: tuple[str, ...]
    mtu_bytes: int | None
    operstate: str | None
    link_type: str | None
    address: str | None

    @property
    def no_carrier(self) -> bool:
        """Tell whether the kernel says NO-CARRIER."""
        return "NO-CARRIER" in self.flags


def interfaces(answer: bytes) -> tuple[Interface, ...]:
    """Parse ``ip link``, as JSON (``-j``; its empty objects are nothing) or as text."""
    if decoded(answer, TOOL).lstrip().startswith("["):
        found = [
            _from_json(row) for row in rows(json_value(answer, TOOL), TOOL, "the answer") if row
        ]
    else:
        found = _from_text(lines(answer, TOOL))
    if not found:
        refuse(TOOL, "it prints no interface")
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            refuse(TOOL, f"{name} stands twice")
    return tuple(found)


def _from_json(row: dict[str, Any]) -> Interface:
    name = words(row.get("ifname"), TOOL, "ifname")
    flags = row.get("flags")
    if name is None or not isinstance(flags, list) or not all(isinstance(f, str) for f in flags):
        refuse(TOOL, f"{shown(row)} is no interface with a name and flags")
    return Interface(
        index=count(row.get("ifindex"), TOOL, "ifindex"),
        name=name,
        parent=words(row.get("link"), TOOL, "link"),
        flags=tuple(flags),
        mtu_bytes=count(row.get("mtu"), TOOL, "mtu"),
        operstate=_state(row.get("operstate")),
        link_type=words(row.get("link_type"), TOOL, "link_type"),
        address=words(row.get("address"), TOOL, "address"),
    )


def _state(value: Any) -> str | None:
    """Return the operational state; UNKNOWN is one of them (lo), not a missing one."""
    if value is not None and not isinstance(value, str):
        refuse(TOOL, f"operstate is {shown(value)}, not a text")
    return value or None


def _from_text(printed: list[str]) -> list[Interface]:
    found: list[Interface] = []
    for line in printed:
        if head := _HEAD.fullmatch(line.rstrip()):
            told = head[5].split()
            pairs = dict(zip(told[::2], told[1::2], strict=True))
            mtu = available(pairs.get("mtu"))
            found.append(
                Interface(
                    index=int(head[1]),
                    name=head[2],
                    parent=head[3],
                    flags=tuple(head[4].split(",")) if head[4] else (),
                    mtu_bytes=None if mtu is None else whole(mtu, TOOL, "mtu"),
                    operstate=_state(pairs.get("state")),
                    link_type=None,
                    address=None,
                )
            )
        elif line.strip() and not (found and line[0].isspace()):
            refuse(TOOL, f"{shown(line)} is no interface")
        elif (below := _BELOW.fullmatch(line)) and found:
            found[-1] = dataclasses.replace(found[-1], link_type=below[1], address=below[2])
    return found


TOOLS = {"ip_link": reads("ip_link", interfaces)}
