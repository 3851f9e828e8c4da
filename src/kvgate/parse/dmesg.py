"""The kernel log since boot, or since a marker: known events, and PCIe errors by device."""

from __future__ import annotations

import bisect
import dataclasses
import decimal
import itertools
import re
from collections.abc import Callable, Iterator, Mapping

from kvgate.parse.ending import reads
from kvgate.parse.kernel_aer import AerDevice, FirmwareRecord, aer_devices, firmware_records
from kvgate.parse.kernel_lines import TOOL, Log, Message, messages
from kvgate.parse.kernel_patterns import Pattern, patterns
from kvgate.parse.text import refuse, shown

ALL_ONES = 0xFFFF
"""An error counter of a suspended GPU reads all ones in each of its 16 bits: 16 counters of a
block add up to 1,048,560 "errors"."""

_MOST_DIGITS = 20  # 64-bit counters


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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place in a log, by what stood last there: reading on from it leaves no trace on the host.

    ``times``: how many messages before it, itself included, have the same stamp and text.
    """

    stamp: str
    text: str
    times: int


def end_of(answer: bytes) -> Mark:
    """Return the mark of the last message of the log; raises ParseError where it has no stamp."""
    log = messages(answer, says=lambda line: any(_matches([line])))
    last = log.messages[-1] if log.messages else None
    if last is None or last.stamp is None:
        refuse(TOOL, "its last message has no time stamp to be known by")
    times = sum((each.stamp, each.text) == (last.stamp, last.text) for each in log.messages)
    return Mark(stamp=last.stamp, text=last.text, times=times)


def kernel_log(answer: bytes, marker: str | Mark | None = None) -> KernelLog:
    """Parse the kernel log, of any time format; after `marker` if given.

    A text marks the last line that holds it, a Mark (of the same format of time) its own place.
    Raises ParseError for what is no kernel log, and where the marker is not in it: then lines
    since were lost (the kernel's buffer is a ring), and silence would prove nothing.
    """
    log = messages(answer, says=lambda line: any(_matches([line])))
    kept = log.messages if marker is None else _since(log, marker)
    texts = [message.text for message in kept]
    firmware = firmware_records(texts)
    return KernelLog(
        messages=len(kept),
        cut=log.cut,
        firmware=firmware,
        aer=aer_devices(texts, firmware),
        events=tuple(
            _event(kept[index], pattern, match) for index, pattern, match in _matches(texts)
        ),
    )


def _since(log: Log, marker: str | Mark) -> list[Message]:
    if isinstance(marker, Mark):
        key = (marker.stamp, marker.text)
        found = [i for i, each in enumerate(log.messages) if (each.stamp, each.text) == key]
        last = found[marker.times - 1] if len(found) >= marker.times else None
    else:
        last = max((i for i, each in enumerate(log.messages) if marker in each.text), default=None)
    if last is None:
        told = marker.text if isinstance(marker, Mark) else marker
        refuse(
            TOOL,
            f"the marker {shown(told)} is not in it: lines were lost",
            hint="a larger log_buf_len= keeps more; ask journalctl -k instead",
        )
    return log.messages[last + 1 :]


def _matches(texts: list[str]) -> Iterator[tuple[int, Pattern, re.Match[str]]]:
    """Yield the index of every text that says something known, the pattern, and the match.

    Only lines that hold what a pattern needs are tried: found in all text at once, in C.
    """
    whole = "\n".join(texts)
    starts = list(itertools.accumulate((len(text) + 1 for text in texts), initial=0))
    likely: list[tuple[int, int]] = []
    for rank, pattern in enumerate(patterns()):
        at = whole.find(pattern.needs)
        while at >= 0:
            index = bisect.bisect_right(starts, at) - 1
            likely.append((index, rank))
            at = whole.find(pattern.needs, starts[index + 1])
    for index, rank in sorted(likely):
        pattern = patterns()[rank]
        match = pattern.regex.search(texts[index])
        if match:
            yield index, pattern, match


def _event(message: Message, pattern: Pattern, match: re.Match[str]) -> Event:
    fields = {name: held for name, held in match.groupdict().items() if held is not None}
    told = fields.get("count", "")
    count = int(told) if told and len(told) < _MOST_DIGITS else None
    implausible = bool(told) and (count is None or (pattern.kind == "ras" and not count % ALL_ONES))
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
