"""`ib_write_bw` and `ib_read_bw` (perftest): what one run, or each size of it, carried."""

from __future__ import annotations

import dataclasses
import decimal
import re

from kvgate.model.quantity import Quantity
from kvgate.parse.ending import reads
from kvgate.parse.text import lines, refuse, shown, whole

_HEAD = re.compile(
    r"#bytes\s+#iterations\s+BW peak\[(?P<unit>MB|MiB|Gb)/sec\]\s+BW average\[(?P=unit)/sec\]\s+"
    r"MsgRate\[Mpps\]"
)
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_ROW = re.compile(rf"([0-9]{{1,12}})\s+([0-9]{{1,15}})\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}")
_DEVICE = re.compile(r".*\bDevice\s*: (\S{1,64})\s*")
_MTU = re.compile(r"\s*Mtu\s*: ([0-9]{3,5})\[B\]\s*")
_GID = re.compile(r"\s*GID index\s*: ([0-9]{1,3})\s*")
_NO_PEAK = "BW peak won't be measured in this run"
_UNITS = {"MB": "MiB/s", "MiB": "MiB/s", "Gb": "Gb/s"}
"""perftest's MB are powers of 1024 (its help: MiB=2^20 byte), Gb are 10^9 bits."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What messages of one size carried, in the run's unit; ``peak`` None: not measured."""

    size_bytes: int
    iterations: int
    peak: decimal.Decimal | None
    average: decimal.Decimal
    mega_messages_s: decimal.Decimal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """A run: ``unit`` is MiB/s or Gb/s; device, MTU and GID index as the first side printed them.

    A log that holds both sides has each row once; ``rows_printed`` counts it twice.
    """

    unit: str
    device: str | None
    mtu_bytes: int | None
    gid_index: int | None
    rows: tuple[Row, ...]
    rows_printed: int

    def rate(self, row: Row) -> Quantity:
        """Return the average that `row` tells, in bit/s."""
        bits = 10**9 if self.unit == "Gb/s" else 8 * 2**20
        return Quantity(row.average * bits, "bit/s")


def bandwidth(answer: bytes) -> Bandwidth:
    """Parse what ib_write_bw or ib_read_bw printed, noise before its table or not.

    Raises ParseError where there is no table, or none of its rows is whole.
    """
    tool = "perftest"
    printed = lines(answer, tool)
    heads = [(at, m) for at, line in enumerate(printed) if (m := _HEAD.fullmatch(line.strip()))]
    if not heads:
        refuse(tool, f"it prints no table of bandwidth, last: {shown(_last(printed))}")
    units = {head["unit"] for _, head in heads}
    if len(units) != 1:
        refuse(tool, "two tables are in different units")
    peaks = not any(_NO_PEAK in line for line in printed)
    found: list[Row] = []
    for line in printed[heads[0][0] :]:
        if match := _ROW.fullmatch(line.strip()):
            found.append(_row(match, peaks=peaks))
        elif line[:1].isdigit() or line[:2].strip().isdigit():
            refuse(tool, f"{shown(line)} is no row of the table")
    if not found:
        refuse(tool, "its table has no row: the run did not end")
    return Bandwidth(
        unit=_UNITS[units.pop()],
        device=_first(_DEVICE, printed),
        mtu_bytes=_whole(_first(_MTU, printed), "Mtu"),
        gid_index=_whole(_first(_GID, printed), "GID index"),
        rows=tuple(dict.fromkeys(found)),
        rows_printed=len(found),
    )


def _last(printed: list[str]) -> str:
    return next((line.strip() for line in reversed(printed) if line.strip()), "")


def _first(pattern: re.Pattern[str], printed: list[str]) -> str | None:
    return next((match[1] for line in printed if (match := pattern.fullmatch(line))), None)


def _whole(text: str | None, field: str) -> int | None:
    return None if text is None else whole(text, "perftest", field)


def _row(match: re.Match[str], *, peaks: bool) -> Row:
    return Row(
        size_bytes=int(match[1]),
        iterations=int(match[2]),
        peak=decimal.Decimal(match[3]) if peaks else None,
        average=decimal.Decimal(match[4]),
        mega_messages_s=decimal.Decimal(match[5]),
    )


TOOLS = {
    "ib_write_bw": reads("ib_write_bw", bandwidth),
    "ib_read_bw": reads("ib_read_bw", bandwidth),
}
