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
    r"|(?P<iso>\d{4}-\d\d-\d\dT[\d:]{8}(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) "
    r"|(?P<syslog>[A-Z][a-z]{2} [ \d]\d [\d:]{8}) "
    r"|(?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?) )"
)
_ORIGIN = re.compile(r"[^\s\[\]:]+ (?P<daemon>[^\s:\[]+)(?:\[\d+\])?:(?: |$)")
_INNER = re.compile(
    r"(?:\[(?P<uptime>\s*\d+\.\d+)\] ?)?"  # the monotonic stamp that syslog keeps
    r"(?:\[ *[TC]\d+\] ?)?"  # the caller, CONFIG_PRINTK_CALLER
)
_SECONDS = re.compile(r"\s*\d{1,20}(?:\.\d{1,9})?")
_CUT = re.compile(r"\s*(?:\.\.\.|\[\.\.\.\]|-+ ?snip(?:ped)? ?-+|```)\s*")
_LONGEST = 2**16
"""Characters of a message that are read; the kernel's own records have some 1,000."""

_REFUSALS = ("read kernel buffer failed", "Operation not permitted", "No journal files were")


Line = tuple[int, str, re.Match[str] | None]
"""Its number, itself, and its time stamp."""


class Message(NamedTuple):
    """A message of the kernel; ``line`` counts from 1.

    ``seconds`` is the stamp's text for `uptime_s`, "" where there is none: digits are seconds since
    boot, or without a point microseconds (/dev/kmsg); anything else is a date.
    """

    line: int
    stamp: str | None
    seconds: str
    text: str

    @property
    def uptime_s(self) -> decimal.Decimal | None:
        """Return the seconds since boot, None where the stamp does not tell them."""
        if not _SECONDS.fullmatch(self.seconds):
            return None
        told = decimal.Decimal(self.seconds.strip())
        return told if "." in self.seconds else told / 1_000_000


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
    printed = decoded(answer).replace("\r\n", "\n").split("\n")
    if any(refusal in line for line in printed[:3] for refusal in _REFUSALS):
        refuse(TOOL, f"could not be read: {printed[0]}", hint="dmesg needs root here")
    lines = [
        (number, line, _STAMP.match(line)) for number, line in enumerate(printed, 1) if line.strip()
    ]
    stamped = any(match for _, _, match in lines)
    if not stamped and not any(says(line) for _, line, _ in lines):
        refuse(TOOL, "no line has a time stamp of the kernel: this is no kernel log")
    kept = [each for each in lines if each[2] or not _CUT.fullmatch(each[1])]
    hosted = any(_daemon(line, match) == "kernel" for _, line, match in kept)
    return Log(list(_joined(kept, stamped, hosted, says)), cut=len(kept) < len(lines))


def _joined(
    lines: list[Line], stamped: bool, hosted: bool, says: Callable[[str], bool]
) -> Iterator[Message]:
    """Yield the messages; `hosted`: host and daemon follow the stamps, as syslog writes them."""
    held: Message | None = None
    more: list[str] = []
    for number, line, match in lines:
        if held and not match and _continues(held, more, line, stamped, says):
            more.append(line.strip())
            continue
        if held:
            yield _with(held, more)
        others = hosted and _daemon(line, match) not in (None, "kernel")
        held, more = None if others else _message(number, line, match, hosted), []
    if held:
        yield _with(held, more)


def _with(held: Message, more: list[str]) -> Message:
    """Return the message with the lines that go on with it, no longer than any can be."""
    if not more and len(held.text) <= _LONGEST:
        return held
    return held._replace(text=" ".join([held.text.rstrip(), *more])[:_LONGEST])


def _daemon(line: str, match: re.Match[str] | None) -> str | None:
    """Return who wrote the line, None where its stamp is not of syslog or the journal."""
    if match is None or match["bracket"] or not (match["iso"] or match["syslog"]):
        return None
    origin = _ORIGIN.match(line, match.end())
    return origin["daemon"] if origin else None


def _continues(
    held: Message, more: list[str], line: str, stamped: bool, says: Callable[[str], bool]
) -> bool:
    if not stamped or held.stamp is None:
        return (more[-1] if more else held.text.rstrip()).endswith((":", ","))
    return not says(line)


def _message(number: int, line: str, match: re.Match[str] | None, hosted: bool) -> Message:
    if not match:
        return Message(number, None, "", line)
    bracket, end = match["bracket"], match.end()
    stamp = bracket or match["kmsg"] or match["iso"] or match["syslog"] or match["clock"]
    origin = _ORIGIN.match(line, end) if hosted and not bracket else None
    end = origin.end() if origin else end
    inner = _INNER.match(line, end) if line.startswith("[", end) else None
    told = (inner and inner["uptime"]) or bracket or match["micro"] or ""
    return Message(
        number,
        stamp.strip(),
        told,
        line[inner.end() :] if inner else line[end:],
    )
