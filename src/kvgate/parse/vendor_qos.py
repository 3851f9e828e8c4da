"""`niccli` (Broadcom) and `nicctl` (AMD Pensando): lossless priorities and DSCPs of their ports."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from kvgate.parse.ending import reads
from kvgate.parse.text import lines, refuse, shown

NICCLI, NICCTL = "niccli", "nicctl show qos"
_MOST_DSCP = 63
_ADDRESS = r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NicQos:
    """One port. ``interface`` and ``address`` (PCI) tell which, None where the answer doesn't."""

    interface: str | None
    address: str | None
    trust: str | None  # dscp, pcp; None: not told
    pfc_enabled_priorities: tuple[int, ...]
    dscp2prio: Mapping[int, int]


_DEVICE = re.compile(r"([0-9]{1,3}) ?\) .*")
_ABOUT = re.compile(r"(Device Interface Name|PCI Address)\s*:\s*(\S+)")
_ASKED = re.compile(r"(?:.*[#$] ?)?niccli\S* (?:--?dev|-i) ([0-9]{1,3}) .*qos.*")
_BEGIN = "IEEE 8021QAZ ETS Configuration TLV:"
_PFC = re.compile(r"PFC enabled: ?((?:[0-7](?:[ ,]+[0-7])*)|none)")
_PART = re.compile(r"(Priority|DSCP): ([0-9]{1,3})")


@dataclasses.dataclass(slots=True)
class _Block:
    """A port's settings while they are read."""

    number: int | None
    priorities: tuple[int, ...] | None = None
    dscp: dict[int, int] = dataclasses.field(default_factory=dict)
    entry: int | None = None  # the priority of the APP entry that is being read


def niccli(answer: bytes) -> tuple[NicQos, ...]:
    """Parse ``niccli --list_devices`` with ``niccli --dev N qos --ets --show`` of each after it.

    A line with the command as it was asked says which device follows; the list may be missing.
    Raises ParseError where no settings are there, or a port's lack the row "PFC enabled".
    """
    about: dict[int, dict[str, str]] = {}
    blocks: list[_Block] = []
    listed: int | None = None
    asked: int | None = None
    for line in (each.strip() for each in lines(answer, NICCLI)):
        if match := _ASKED.fullmatch(line):
            asked = int(match[1])
        elif line == _BEGIN:
            blocks.append(_Block(asked))
            asked = None
        elif not blocks and (match := _DEVICE.fullmatch(line)):
            listed = int(match[1])
            about[listed] = {}
        elif listed is not None and not blocks and (match := _ABOUT.fullmatch(line)):
            about[listed][match[1]] = match[2]
        elif blocks:
            _take(blocks[-1], line)
    if not blocks:
        refuse(NICCLI, "it prints no QoS settings of a device")
    return tuple(_broadcom(block, about.get(block.number or 0, {})) for block in blocks)


def _take(block: _Block, line: str) -> None:
    if line.startswith("PFC enabled"):
        match = _PFC.fullmatch(line)
        if not match or block.priorities is not None:
            refuse(NICCLI, f"{shown(line)} lists no priorities, or for the second time")
        block.priorities = tuple(int(n) for n in re.findall("[0-7]", match[1]))
    elif line.startswith("APP#"):
        block.entry = None
    elif match := _PART.fullmatch(line):
        number = int(match[2])
        if match[1] == "Priority":
            block.entry = number if number <= 7 else refuse(NICCLI, f"{line}: there are 0 to 7")
        elif block.entry is None or number > _MOST_DSCP:
            refuse(NICCLI, f"{shown(line)} has no priority before it, or is no DSCP")
        else:
            _map(block.dscp, number, block.entry, NICCLI)


def _map(table: dict[int, int], code: int, priority: int, tool: str) -> None:
    if table.setdefault(code, priority) != priority:
        refuse(tool, f"DSCP {code} has two priorities")


def _broadcom(block: _Block, about: Mapping[str, str]) -> NicQos:
    if block.priorities is None:
        refuse(NICCLI, "a device's settings lack the row 'PFC enabled'")
    address = about.get("PCI Address")
    return NicQos(
        interface=about.get("Device Interface Name"),
        address=address.lower() if address else None,
        trust="dscp" if block.dscp else None,
        pfc_enabled_priorities=block.priorities,
        dscp2prio=block.dscp,
    )


_NIC = re.compile(rf"NIC\s*:\s*\S+ \(({_ADDRESS})\)")
_CLASS = re.compile(r"Classification type\s*:\s*(\S+)")
_CODES = re.compile(
    r"DSCP\s*:\s*([0-9]+(?:-[0-9]+)?(?:, ?[0-9]+(?:-[0-9]+)?)*) ==> priority : (\d)"
)
_BITMAP = re.compile(r"PFC priority bitmap\s*:\s*0x([0-9a-fA-F]{1,2})")


def nicctl(answer: bytes) -> tuple[NicQos, ...]:
    """Parse ``nicctl show qos``: one entry a NIC; its bitmap says which priorities PFC is on for.

    Raises ParseError where no NIC is there, and for one without bitmap or classification.
    """
    found: list[tuple[str, list[str]]] = []
    for line in (each.strip() for each in lines(answer, NICCTL)):
        match = _NIC.fullmatch(line)
        if match:
            found.append((match[1].lower(), []))
        elif found:
            found[-1][1].append(line)
    if not found:
        refuse(NICCTL, "it prints no NIC")
    return tuple(_pensando(address, told) for address, told in found)


def _pensando(address: str, told: list[str]) -> NicQos:
    kinds = {match[1].lower() for line in told if (match := _CLASS.fullmatch(line))}
    bitmaps = {int(match[1], 16) for line in told if (match := _BITMAP.fullmatch(line))}
    if len(kinds) != 1 or len(bitmaps) != 1:
        refuse(NICCTL, f"{address} tells not one classification type and one PFC priority bitmap")
    table: dict[int, int] = {}
    for line in told:
        if match := _CODES.fullmatch(line):
            priority = int(match[2])
            for code in _spread(match[1]):
                _map(table, code, priority, NICCTL)
    bits = bitmaps.pop()
    return NicQos(
        interface=None,
        address=address,
        trust=kinds.pop(),
        pfc_enabled_priorities=tuple(n for n in range(8) if bits >> n & 1),
        dscp2prio=table,
    )


def _spread(text: str) -> Iterator[int]:
    """Yield the codes of ``0-9, 11``."""
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        low, high = int(first[:4]), int((last or first)[:4])
        if not low <= high <= _MOST_DSCP:
            refuse(NICCTL, f"{shown(part)} is no range of DSCPs")
        yield from range(low, high + 1)


TOOLS = {"niccli": reads(NICCLI, niccli), "nicctl": reads(NICCTL, nicctl)}
