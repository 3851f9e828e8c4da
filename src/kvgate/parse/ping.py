"""`ping` (iputils): how many answered, and whether what was sent was too long for the way."""

from __future__ import annotations

import dataclasses
import re

from kvgate.parse.ending import reads
from kvgate.parse.text import lines, refuse, shown, whole

TOOL = "ping"
_HEAD = re.compile(r"PING .*? ([0-9]{1,6})(?:\([0-9]{1,6}\))? (?:data )?bytes(?: of data)?\.?")
_SUMMARY = re.compile(
    r"([0-9]{1,6}) packets transmitted, ([0-9]{1,6}) received,.* ([0-9.]{1,8})% packet loss.*"
)
_TOO_LONG = re.compile(r"(?i).*(message too long|frag needed|packet too big).*")
_MTU = re.compile(r"(?i).*\bmtu ?= ?([0-9]{2,6})\)?.*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pinged:
    """What came back. ``too_long``: something on the way refused to carry it in one piece.

    ``mtu_bytes`` is the MTU that was told with the refusal, if any.
    """

    payload_bytes: int
    sent: int
    received: int
    too_long: bool
    mtu_bytes: int | None

    @property
    def whole(self) -> bool:
        """Tell whether everything that was sent was answered."""
        return self.sent > 0 and self.received == self.sent


def pinged(answer: bytes) -> Pinged:
    """Parse stdout and stderr of ping together; raises ParseError where it did not end."""
    printed = lines(answer, TOOL)
    head = next((match for line in printed if (match := _HEAD.match(line))), None)
    summary = next((match for line in printed if (match := _SUMMARY.fullmatch(line))), None)
    if head is None or summary is None:
        said = next((line for line in reversed(printed) if line.strip()), "")
        refuse(TOOL, f"it prints no statistics, last: {shown(said)}")
    sent, received = (whole(summary[number], TOOL, "packets") for number in (1, 2))
    if received > sent:
        refuse(TOOL, f"{received} of {sent} packets came back")
    refusals = [line for line in printed if _TOO_LONG.fullmatch(line)]
    told = [match[1] for line in refusals if (match := _MTU.fullmatch(line))]
    return Pinged(
        payload_bytes=whole(head[1], TOOL, "bytes"),
        sent=sent,
        received=received,
        too_long=bool(refusals),
        mtu_bytes=whole(told[0], TOOL, "mtu") if told else None,
    )


TOOLS = {"ping": reads(TOOL, pinged, fine=(0, 1))}
"""ping ends with 1 where nothing came back."""
