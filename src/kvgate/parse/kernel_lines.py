"""The kernel log's lines: dmesg in every time format, journalctl -k, syslog, /dev/kmsg."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kvgate.parse.text import refuse

TOOL = "kernel log"
_STAMP = re.compile(
    r"(?:(?P<facility>[a-z0-9]{1,10}) *:(?P<priority>[a-z]{1,8}) *: )?"  # dmesg -x
    r"(?:<\d{1,3}>)?"  # dmesg -r
    r"(?:\[(?P<bracket>\s*\d+\.\d+|\s*\+\d+\.\d+|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}"
    r"|[A-Z][a-z]{2}[ \d]?\d \d\d:\d\d)\] ?"
    r"|(?P<kmsg>\d{1,4},\d{1,20},(?P<micro>\d{1,20}),[^;]{0,40});"
    r"|(?P<iso>\d{4}-\d\d-\d\dT[\d:]{8}(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r"(?: (?P<host>[^\s\[\]:]+) (?P<daemon>[^\s:]+?)(?:\[\d+\])?:(?= ))? "
    r"|(?P<syslog>[A-Z][a-z]{2} [ \d]\d [\d:]{8}) \S+ (?P<ident>[^\s:]+?)(?:\[\d+\])?:(?: |$)"
    r"|(?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?) )"
    r"(?:\[(?P<inner>\s*\d+\.\d+)\] ?)?"  # the monotonic stamp that syslog keeps
    r"(?:\[ *[TC]\d+\] ?)?"  # the caller, CONFIG_PRINTK_CALLER
)
_CUT = re.compile(r"\s*(?:\.\.\.|\[\.\.\.\]|-+ ?snip(?:ped)? ?-+|```)\s*")
_REFUSALS = ("read kernel buffer failed", "Operation not permitted", "No journal files were")


class Message(NamedTuple):
    """A message of the kernel; ``line`` counts from 1, ``uptime_s`` is None where not told."""

    line: int
    stamp: str | None
    uptime_s: decimal.Decimal | None
    text: str


class Log(NamedTuple):
    """The messages; ``cut``: somebody left lines out, and says so."""

    messages: list[Message]
    cut: bool


def decoded(answer: bytes) -> str:
    """Return the log as text, bytes that are not UTF-8 escaped; refuses NUL and emptiness."""
    if not answer.strip():
        refuse(TOOL, "is empty: that is no evidence of health", hint="sudo dmesg, by hand")
    if b"\0" in answer:
        refuse(TOOL, f"holds a NUL byte at {answer.index(0)}")
    return answer.decode("utf-8", "backslashreplace")


def messages(answer: bytes, says: Callable[[str], bool]) -> Log:
    """Return the kernel's messages; a line without stamp continues the one before.

    `says` tells whether a line alone says something known: then it is a message of its own. In a
    log without any stamps a line continues the one before that ends with a colon or comma. Raises
    ParseError for what is no kernel log: no line has a stamp, and none says anything known.
    """
    printed = re.split(r"\r?\n", decoded(answer))
    if any(refusal in line for line in printed[:3] for refusal in _REFUSALS):
        refuse(TOOL, f"could not be read: {printed[0]}", hint="dmesg needs root here")
    stamped = any(_STAMP.match(line) for line in printed)
    if not stamped and not any(says(line) for line in printed):
        refuse(TOOL, "no line has a time stamp of the kernel: this is no kernel log")
    kept = list(_joined(printed, stamped, says))
    return Log(kept, cut=any(_CUT.fullmatch(line) for line in printed))


def _joined(printed: list[str], stamped: bool, says: Callable[[str], bool]) -> Iterator[Message]:
    held: Message | None = None
    for number, line in enumerate(printed, 1):
        match = _STAMP.match(line)
        if not line.strip() or _CUT.fullmatch(line):
            continue
        if held and not match and _continues(held, line, stamped, says):
            held = held._replace(text=f"{held.text.rstrip()} {line.strip()}")
            continue
        if held:
            yield held
        held = None if match and _of_others(match) else _message(number, line, match)
    if held:
        yield held


def _continues(held: Message, line: str, stamped: bool, says: Callable[[str], bool]) -> bool:
    if not stamped or held.stamp is None:
        return held.text.rstrip().endswith((":", ","))
    return not says(line)


def _of_others(match: re.Match[str]) -> bool:
    """Tell whether a daemon wrote the line (the journal and syslog mix them in)."""
    return (match["ident"] or match["daemon"] or "kernel") != "kernel"


def _message(number: int, line: str, match: re.Match[str] | None) -> Message:
    if not match:
        return Message(number, None, None, line)
    seconds = next(
        (
            told
            for told in (match["inner"], match["bracket"])
            if told and re.fullmatch(r"\s*\d{1,12}\.\d{1,9}", told)
        ),
        None,
    )
    uptime = decimal.Decimal(seconds.strip()) if seconds else None
    if match["micro"]:
        uptime = decimal.Decimal(match["micro"]) / 1_000_000
    stamp = next(
        match[name] for name in ("bracket", "kmsg", "iso", "syslog", "clock") if match[name]
    )
    return Message(number, stamp.strip(), uptime, line[match.end() :])
