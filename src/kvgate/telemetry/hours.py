"""Makes an hour's log into columnar files: its samples, its pyramid, and what happened.

Of the log ``000007-20261130T23.log`` become ``….samples.parquet`` (a row a series, a row group a
group of a host; rows with spec ``t`` and ``s`` hold times and spans of the group), then
``….events.jsonl``, then ``….bins.parquet`` (10 s and 60 s by host, 600 s and 3,600 s ordered by
series over all hosts). The last one is there only where all are; then the journal binds their
digests, and only then does the log go. So a kill at any point leaves the log or all that it held.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from kvgate.errors import ParseError
from kvgate.store import disk, sums
from kvgate.store.check_series import BOUND
from kvgate.store.layout import SERIES
from kvgate.store.telemetry_log import LogWalk, entry_at
from kvgate.telemetry import columns
from kvgate.telemetry.block import BLOCK, EVENT, NAMES, Block, Group, bins_of, head_of, samples_of
from kvgate.telemetry.pyramid import Bins, joined
from kvgate.telemetry.stream import gaps_of
from kvgate.telemetry.wire import MISSING

LOG = ".log"
SAMPLES, BINS, EVENTS = ".samples.parquet", ".bins.parquet", ".events.jsonl"
NAME = re.compile(
    r"(\d{6})-(\d{8}T\d{2})(\.log|\.samples\.parquet|\.bins\.parquet|\.events\.jsonl)"
)
BY_HOST_MS, OVER_ALL_MS = (10_000, 60_000), (600_000, 3_600_000)
OVERVIEW_ROWS = 4096
_HOUR_MS = 3_600_000
_MOST_GAPS = 3600
_MOST_EVENT_BYTES = 64 * 2**20


def log_name(folder: Path, moment: datetime.datetime) -> str:
    """Return the name of the next log in `folder`, begun at `moment`."""
    used = [int(match[1]) for each in folder.iterdir() if (match := NAME.fullmatch(each.name))]
    return f"{max(used, default=0) + 1:06d}-{moment:%Y%m%dT%H}{LOG}"


@dataclasses.dataclass(slots=True)
class Indexed:
    """What a log holds: groups by host, name and number, and where their blocks are."""

    groups: dict[tuple[str, str, int], Group] = dataclasses.field(default_factory=dict)
    blocks: dict[tuple[str, str, int], list[tuple[int, int]]] = dataclasses.field(
        default_factory=dict
    )
    spans: dict[tuple[str, str, int], tuple[int, int]] = dataclasses.field(default_factory=dict)
    events: list[bytes] = dataclasses.field(default_factory=list)
    torn: str = ""
    end: int = 0
    altered: bool = False

    @classmethod
    def of(cls, path: Path) -> Indexed:
        """Return what the log at `path` holds up to where it is whole."""
        found, walk, size = cls(), LogWalk(path), 0
        for entry in walk:
            if entry.kind == NAMES:
                group = Group.of(entry.payload)
                found.groups[group.host, group.name, group.number] = group
            elif entry.kind == EVENT and size < _MOST_EVENT_BYTES:
                found.events.append(entry.payload)
                size += len(entry.payload)
            elif entry.kind == BLOCK:
                head = head_of(entry.payload)
                key = (head.host, head.group, head.number)
                if key not in found.groups:
                    raise ParseError(f"{path}: a block of {key} stands before its names")
                found.blocks.setdefault(key, []).append((entry.start, entry.end))
                first, last = found.spans.get(key, (head.first_ms, head.last_ms))
                found.spans[key] = (min(first, head.first_ms), max(last, head.last_ms))
        found.end = walk.end
        found.torn, found.altered = walk.torn, bool(walk.torn) and not walk.cut_short
        return found


def logs_in(folder: Path, *, but: Path | None) -> list[Path]:
    """Return the logs in `folder` in their order, without the one that is written (`but`)."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(LOG) and path != but)


def settle(
    logs: Sequence[Path],
    *,
    journal: Callable[..., object],
    meanwhile: Callable[[], None],
    on_trouble: Callable[[str], None],
) -> None:
    """Make columnar files of each of `logs`, which nobody writes any more.

    A log that was altered stays as it is, and so do all where there is no pyarrow. `meanwhile` is
    called now and then. Raises StoreError where the disk fails.
    """
    if logs and (why := columns.absent()):
        on_trouble(f"telemetry stays in its logs: {why}")
        return
    for path in logs:
        found = Indexed.of(path)
        if found.altered:
            on_trouble(f"{path}: {found.torn}, and more behind it; it stays as it is")
            continue
        written = convert(path, found, meanwhile)
        for each in written:
            digest, name = sums.hash_file(each), f"{SERIES}/{each.name}"
            journal(BOUND, name=name, sha256=digest, bytes=each.stat().st_size)
        disk.remove(path)


def convert(path: Path, found: Indexed, meanwhile: Callable[[], None]) -> list[Path]:
    """Write the columnar files of the log at `path`, which holds `found`; return those written.

    One group of one host is in memory at a time, and the upper levels of all.
    """
    stem = path.name.removesuffix(LOG)
    samples = columns.ColumnWriter(path.with_name(stem + SAMPLES), {"values": "int"})
    bins = columns.ColumnWriter(path.with_name(stem + BINS), BIN_LISTS)
    upper: list[tuple[Group, Bins]] = []
    try:
        for key in sorted(found.blocks):
            group = found.groups[key]
            payloads = [entry_at(path, start, end) for start, end in found.blocks[key]]
            note = _add_samples(samples, group, [samples_of(each, group) for each in payloads])
            upper += _add_bins(bins, group, note, joined([bins_of(each) for each in payloads]))
            meanwhile()
        samples.publish()
        events = path.with_name(stem + EVENTS)
        disk.replace(events, b"".join(each + b"\n" for each in found.events))
        _add_overview(bins, upper)
        bins.publish()
    except BaseException:
        samples.abandon()
        bins.abandon()
        raise
    return [samples.path, events, bins.path]


BIN_LISTS = {"low": "int", "high": "int", "total": "real", "count": "int"}


def _fixed(group: Group, name: str, spec: str, width_ms: int, first_ms: int) -> dict[str, object]:
    return {
        "host": group.host,
        "group": group.name,
        "series": name,
        "spec": spec,
        "number": group.number,
        "every_ms": group.every_ms,
        "width_ms": width_ms,
        "first_ms": first_ms,
    }


def _add_samples(
    writer: columns.ColumnWriter, group: Group, blocks: list[Block]
) -> dict[str, object]:
    """Write the samples of a group and return what they are, from when to when, with what gaps."""
    t = np.concatenate([each.t for each in blocks])
    span = np.concatenate([each.span for each in blocks])
    values = np.concatenate([each.values for each in blocks], axis=1)
    rows = columns.Rows(["values"])
    first = int(t[0])
    for name, spec, numbers in (("", "t", t), ("", "s", span)):
        rows.add(_fixed(group, name, spec, 0, first), {"values": numbers})
    for (name, spec), numbers in zip(group.series, values, strict=True):
        rows.add(_fixed(group, name, spec, 0, first), {"values": numbers})
    note: dict[str, object] = {
        "host": group.host,
        "group": group.name,
        "number": group.number,
        "every_ms": group.every_ms,
        "width_ms": 0,
        "first_ms": int(t.min()),
        "last_ms": int(t.max()),
        "gaps": gaps_of(t, group.every_ms)[:_MOST_GAPS],
    }
    writer.add(rows, note)
    return note


def _add_bins(
    writer: columns.ColumnWriter, group: Group, note: dict[str, object], narrow: Bins
) -> Iterator[tuple[Group, Bins]]:
    """Write the levels that are kept by host, and yield the upper ones.

    `note`, of the samples, stands at each: who wants no samples need not open their file.
    """
    for width in BY_HOST_MS:
        narrow = narrow.wider(width)
        rows = columns.Rows(list(BIN_LISTS))
        for number, (name, spec) in enumerate(group.series):
            _add_row(rows, group, name, spec, narrow.series(number))
        writer.add(rows, {**note, "width_ms": width})
    for width in OVER_ALL_MS:
        narrow = narrow.wider(width)
        yield group, narrow


def _add_row(rows: columns.Rows, group: Group, name: str, spec: str, one: Bins) -> None:
    """Add a series' bins, one list for each hour, so that time is regular in each."""
    for hour in np.unique(one.t // _HOUR_MS):
        there = one.t // _HOUR_MS == hour
        first = int(one.t[there].min())
        slots = (one.t[there] - first) // one.width_ms
        size = int(slots.max()) + 1
        lists = {
            "low": np.full(size, MISSING),
            "high": np.full(size, MISSING),
            "total": np.zeros(size),
            "count": np.zeros(size, np.int64),
        }
        for at, values in (
            ("low", one.low),
            ("high", one.high),
            ("total", one.total),
            ("count", one.count),
        ):
            lists[at][slots] = values[0][there]
        rows.add(_fixed(group, name, spec, one.width_ms, first), lists)


def _add_overview(writer: columns.ColumnWriter, upper: list[tuple[Group, Bins]]) -> None:
    """Write the upper levels ordered by series, so that one of them is near on all hosts."""
    for width in OVER_ALL_MS:
        order = sorted(
            (name, group.host, place, number)
            for place, (group, bins) in enumerate(upper)
            if bins.width_ms == width
            for number, (name, _) in enumerate(group.series)
        )
        for start in range(0, len(order), OVERVIEW_ROWS):
            chunk = order[start : start + OVERVIEW_ROWS]
            rows = columns.Rows(list(BIN_LISTS))
            for name, _, place, number in chunk:
                group, bins = upper[place]
                _add_row(rows, group, name, group.series[number][1], bins.series(number))
            ends = {"from": chunk[0][0], "to": chunk[-1][0], "width_ms": width}
            times = [upper[place][1].t for _, _, place, _ in chunk]
            first, last = min(int(t[0]) for t in times), max(int(t[-1]) for t in times)
            writer.add(rows, {**ends, "first_ms": first, "last_ms": last + width})
