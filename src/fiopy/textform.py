"""fio's text ("normal") output of version 3.x → results; its figures are rounded to 3–4 digits."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from fiopy.errors import FioOutputError
from fiopy.result import DiskUse, JobResult, Latency, Transfer

_HEAD = re.compile(
    r"(?P<name>.+?): \(groupid=(?P<group>\d{1,9}), jobs=(?P<jobs>\d{1,9})\): "
    r"err=\s*(?P<err>\d{1,5})\b"
)
_MOVED = re.compile(
    r"\s*(?P<dir>read|write|trim)\s*: IOPS=(?P<iops>[\d.]+[kMG]?), BW=[\d.]+\w*/s "
    r"\((?P<bw>[\d.]+)(?P<unit>[kMGT]?)B/s\)"
    r"\((?P<io>[\d.]+)(?P<io_unit>[KMGTP]i)?B/(?P<ms>\d{1,15})msec\)"
)
_LATENCY = re.compile(
    r"\s*(?P<name>slat|clat|lat) \((?P<unit>[num]sec|sec)\): min=\s*(?P<min>[\d.]+[kMG]?), "
    r"max=\s*(?P<max>[\d.]+[kMG]?), avg=\s*(?P<mean>[\d.]+[kMG]?), "
    r"stdev=\s*(?P<stddev>[\d.]+[kMG]?)"
)
_PERCENTILES = re.compile(r"\s*(?P<name>clat|lat) percentiles \((?P<unit>[num]sec|sec)\):")
_PERCENTILE = re.compile(r"([\d.]{1,12})th=\[\s*(\d{1,18})\]")
_ISSUED = re.compile(r"\s*issued rwts: total=([\d,]+) short=([\d,]+) dropped=([\d,]+)")
_DISK = re.compile(r"  (?P<name>\S+): ios=.*util=(?P<util>[\d.]+)%")
_NS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}
_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {None: 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_ORDER = ("read", "write", "trim")


def split(text: str) -> tuple[list[list[str]], tuple[DiskUse, ...], list[str]]:
    """Return the lines of each job's result, the use of disks, and all other lines."""
    blocks: list[list[str]] = []
    disks: list[DiskUse] = []
    rest: list[str] = []
    inside = False
    for line in text.splitlines():
        if _HEAD.match(line):
            blocks.append([line])
            inside = True
        elif match := _DISK.match(line):
            disks.append(DiskUse(match["name"], _number(match["util"])))
        elif inside and line.startswith(" "):
            blocks[-1].append(line)
        else:
            inside = False
            rest.append(line)
    return blocks, tuple(disks), rest


def job(block: Sequence[str]) -> JobResult:
    """Return the result that `block` (a header and its indented lines) says."""
    head = _HEAD.match(block[0])
    if head is None:
        raise FioOutputError(f"{block[0][:80]!r} is no header of a job")
    parts: dict[str, list[str]] = {}
    current: list[str] = []
    for line in block[1:]:
        if match := _MOVED.match(line):
            current = parts.setdefault(match["dir"], [])
        current.append(line)
    moved = {each: _transfer(each, lines, block) for each, lines in parts.items()}
    return JobResult(
        name=head["name"].strip(),
        error=int(head["err"]),
        group=int(head["group"]),
        processes=int(head["jobs"]),
        read=moved.get("read"),
        write=moved.get("write"),
        trim=moved.get("trim"),
    )


def _transfer(direction: str, lines: Sequence[str], block: Sequence[str]) -> Transfer:
    match = _MOVED.match(lines[0])
    if match is None:
        raise FioOutputError(f"{lines[0][:80]!r} is no line of bandwidth")
    issued = _issued(direction, block)
    latency = _latencies(lines)
    return Transfer(
        bytes_per_s=_number(match["bw"]) * _DECIMAL[match["unit"]],
        iops=_scaled(match["iops"]),
        runtime_ms=int(match["ms"]),
        total_bytes=round(_number(match["io"]) * _BINARY[match["io_unit"]]),
        total_ios=issued[0],
        short_ios=issued[1],
        dropped_ios=issued[2],
        slat=latency.get("slat"),
        clat=latency.get("clat"),
        lat=latency.get("lat"),
    )


def _issued(direction: str, block: Sequence[str]) -> tuple[int | None, int | None, int | None]:
    """Return total, short and dropped I/Os of `direction`, None where the line is missing."""
    for line in block:
        if match := _ISSUED.match(line):
            columns = [group.split(",") for group in match.groups()]
            at = _ORDER.index(direction)
            if any(len(column) <= at or not column[at].isdigit() for column in columns):
                raise FioOutputError(f"{line.strip()[:80]!r}: fewer counts than directions")
            total, short, dropped = (int(column[at]) for column in columns)
            return total, short, dropped
    return None, None, None


def _latencies(lines: Sequence[str]) -> dict[str, Latency]:
    found: dict[str, Latency] = {}
    percentiles: dict[str, dict[float, float]] = {}
    open_list: tuple[str, float] | None = None
    for line in lines:
        if match := _LATENCY.match(line):
            figure = {
                part: _scaled(match[part]) * _NS[match["unit"]]
                for part in ("min", "max", "mean", "stddev")
            }
            found[match["name"]] = Latency(
                min_ns=figure["min"],
                max_ns=figure["max"],
                mean_ns=figure["mean"],
                stddev_ns=figure["stddev"],
            )
        if match := _PERCENTILES.match(line):
            open_list = match["name"], _NS[match["unit"]]
        elif open_list and line.lstrip().startswith("|"):
            name, factor = open_list
            percentiles.setdefault(name, {}).update(
                (_number(percent), int(value) * factor)
                for percent, value in _PERCENTILE.findall(line)
            )
        else:
            open_list = None
    for name, each in percentiles.items():
        found[name] = dataclasses.replace(found.get(name, Latency()), percentiles_ns=each)
    return found


def _scaled(text: str) -> float:
    """Return ``6501.3k`` as 6501300.0."""
    factor = _DECIMAL.get(text[-1])
    return _number(text[:-1]) * factor if factor else _number(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as err:
        raise FioOutputError(f"'{text[:40]}' is no number") from err
