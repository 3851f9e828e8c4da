"""The kernel log since boot, or since a marker: known events, and PCIe errors by device."""

from __future__ import annotations

import dataclasses
import decimal
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from kvgate.parse.ending import reads
from kvgate.parse.kernel_aer import AerDevice, FirmwareRecord, aer_devices, firmware_records
from kvgate.parse.kernel_lines import TOOL, Log, Message, messages
from kvgate.parse.kernel_patterns import Pattern, patterns
from kvgate.parse.text import refuse, shown

ALL_ONES = 0xFFFF
"""An error counter of a suspended GPU reads all ones in each of its 16 bits: 16 counters of a
block add up to 1,048,560 "errors"."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A line that says something known; ``fields`` are the pattern's groups as printed.

    ``count`` is how many errors the line tells of; None where it tells no number, or one that is
    ``implausible``: counters that read all ones, as those of a suspended GPU do.
    """

    id: str
    kind: str
    severity: str
    line: int
    stamp: str | None
    uptime_s: decimal.Decimal | None
    device: str | None
    count: int | None
    implausible: bool
    fields: Mapping[str, str]
    text: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelLog:
    """What the log says. ``messages``: how many were read; ``cut``: marks say it was cut."""

    messages: int
    cut: bool
    events: tuple[Event, ...]
    aer: tuple[AerDevice, ...]
    firmware: tuple[FirmwareRecord, ...]


def kernel_log(answer: bytes, marker: str | None = None) -> KernelLog:
    """Parse the kernel log, of any time format; after the last line with `marker` if given.

    Raises ParseError for what is no kernel log, and where the marker is not in it: then lines
    since were lost (the kernel's buffer is a ring), and silence would prove nothing.
    """
    log = messages(answer, says=lambda line: any(_matches(line, patterns())))
    kept = log.messages if marker is None else _since(log, marker)
    texts = [message.text for message in kept]
    whole = "\n".join(texts)
    likely = [pattern for pattern in patterns() if pattern.needs in whole]
    firmware = firmware_records(texts)
    return KernelLog(
        messages=len(kept),
        cut=log.cut,
        firmware=firmware,
        aer=aer_devices(texts, firmware),
        events=tuple(
            _event(message, pattern, match)
            for message in kept
            for pattern, match in _matches(message.text, likely)
        ),
    )


def _since(log: Log, marker: str) -> list[Message]:
    last = max((i for i, each in enumerate(log.messages) if marker in each.text), default=None)
    if last is None:
        refuse(
            TOOL,
            f"the marker {shown(marker)} is not in it: lines were lost",
            hint="a larger log_buf_len= keeps more; ask journalctl -k instead",
        )
    return log.messages[last + 1 :]


def _matches(text: str, among: Iterable[Pattern]) -> Iterator[tuple[Pattern, re.Match[str]]]:
    for pattern in among:
        if pattern.needs in text:
            match = pattern.regex.search(text)
            if match:
                yield pattern, match


def _event(message: Message, pattern: Pattern, match: re.Match[str]) -> Event:
    fields = {name: held for name, held in match.groupdict().items() if held is not None}
    count = int(fields["count"]) if fields.get("count", "").isdecimal() else None
    implausible = pattern.kind == "ras" and count is not None and count % ALL_ONES == 0
    return Event(
        id=pattern.id,
        kind=pattern.kind,
        severity="warning" if implausible else pattern.severity,
        line=message.line,
        stamp=message.stamp,
        uptime_s=message.uptime_s,
        device=fields.get("device"),
        count=None if implausible else count,
        implausible=implausible,
        fields=fields,
        text=message.text,
    )


TOOLS: Mapping[str, Callable[[bytes, int | None], object]] = {"dmesg": reads(TOOL, kernel_log)}
