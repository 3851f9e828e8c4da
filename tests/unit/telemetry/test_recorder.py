from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvgate.store import disk
from kvgate.store.telemetry_log import MAGIC, LogWalk
from kvgate.telemetry import hours, recorder
from kvgate.telemetry.archive import Archive
from kvgate.telemetry.block import BLOCK

HOUR_MS = 1_796_083_200_000
THREE = ["bins.parquet", "events.jsonl", "samples.parquet"]


def until(met: Callable[[], Any], within_s: float = 30.0) -> None:
    end = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


def points(path: Path, name: str = "disk.a.reads", host: str = "ini1") -> list[tuple[float, float]]:
    line = Archive(path).line(host, name, at_most=10**6)
    return [(point.at, point.mean) for point in line.points]


def test_at_the_end_all_is_columnar_and_bound_in_the_journal(told: Any, fill: Any) -> None:
    with told.recording() as record:
        fill(record, "ini1", 90)
        record.event("ini1", HOUR_MS, {"kind": "state", "text": "nvme0: dead, was live"})
    assert told.files() == THREE
    assert [each["name"].split(".", 1)[1] for each in told.journal] == [
        THREE[2],
        THREE[1],
        THREE[0],
    ]
    assert {each["kind"] for each in told.journal} == {"telemetry_file"}
    assert len(points(told.path)) == 89
    assert [event["text"] for event in Archive(told.path).events("state")]
    assert told.troubles == []


def test_without_pyarrow_the_log_is_kept_read_the_same_and_said(
    told: Any, fill: Any, without_pyarrow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with told.recording() as record:
        fill(record, "ini1", 90)
    assert told.files() == ["log"]
    assert told.troubles == ["telemetry stays in its logs: pyarrow is not here"]
    of_log = points(told.path)
    coarse = Archive(told.path).line("ini1", "load.1min", at_most=4).points
    monkeypatch.undo()
    with told.recording():
        until(lambda: told.files() == THREE)
    assert points(told.path) == of_log
    assert Archive(told.path).line("ini1", "load.1min", at_most=4).points == coarse


def test_samples_are_on_the_medium_half_a_minute_later(told: Any, fill: Any) -> None:
    with told.recording() as record:
        fill(record, "ini1", 20)
        told.now_s += recorder.BLOCK_S
        until(lambda: told.files() == ["log"])
        (log,) = (told.path / "telemetry").iterdir()
        until(lambda: any(entry.kind == BLOCK for entry in LogWalk(log)))
        assert len(points(told.path)) == 19  # what a kill now would leave


def test_each_hour_has_a_log_of_its_own_and_the_one_before_becomes_columnar(
    told: Any, fill: Any
) -> None:
    with told.recording() as record:
        fill(record, "ini1", 20)
        told.now_s += recorder.BLOCK_S
        until(lambda: told.files() == ["log"])
        told.now_s += 3600
        until(lambda: told.files() == THREE)
        fill(record, "ini1", 20, start_ms=HOUR_MS + 3_600_000)
    assert told.files() == sorted(2 * THREE)
    archive = Archive(told.path)
    (gap,) = archive.gaps()["ini1"]
    assert (gap.begin, gap.end) == (HOUR_MS / 1000 + 19, HOUR_MS / 1000 + 3600)
    assert archive.line("ini1", "load.1min", at_most=10**6).gaps == (gap,)


def test_killed_at_any_byte_what_was_written_before_is_there(
    told: Any, fill: Any, without_pyarrow: None
) -> None:
    with told.recording() as record:
        fill(record, "ini1", 4)
        record.names("ini1", "fast", 1000, (("load.1min", "l100"),))  # what was before is a block
        record.numbers("ini1", "fast", HOUR_MS + 4000, 9000, [77])
    (log,) = (told.path / "telemetry").iterdir()
    data = log.read_bytes()
    ends = [entry.end for entry in LogWalk(log) if entry.kind == BLOCK]
    for size in range(len(data) + 1):
        log.write_bytes(data[:size])
        archive = Archive(told.path)
        whole = sum(end <= size for end in ends)
        assert len(archive.series()) == (2 if whole else 0)
        if whole:
            assert len(archive.line("ini1", "load.1min").points) == (4 if whole == 1 else 5)
        assert bool(archive.notes) == (
            size not in {entry.end for entry in LogWalk(log)} | {len(MAGIC)}
        )


def test_what_a_kill_lost_is_a_gap_of_less_than_a_minute(
    told: Any, fill: Any, without_pyarrow: None
) -> None:
    """Cut the log at each byte behind the first half minute; go on; look at what is missing."""
    with told.recording() as record:
        for half in range(4):
            fill(record, "ini1", 30, start_ms=HOUR_MS + 30_000 * half)
            told.now_s += recorder.BLOCK_S
            record._write(last=False)
    (log,) = (told.path / "telemetry").iterdir()
    data, known = log.read_bytes(), [e.end for e in LogWalk(log) if e.kind == BLOCK]
    assert len(known) == 4
    for size in {*known, *(end - 1 for end in known), *range(known[0], len(data), 97)}:
        for other in (told.path / "telemetry").iterdir():
            other.unlink()
        log.write_bytes(data[:size])
        whole = sum(end <= size for end in known)
        if not whole:
            continue
        killed_ms = HOUR_MS + 30_000 * (whole + 1)  # the block that was torn was the next one
        with told.recording() as record:
            fill(record, "ini1", 5, start_ms=killed_ms + 7000)
        (gap,) = Archive(told.path).gaps("ini1")["ini1"]
        assert gap.begin * 1000 == HOUR_MS + 30_000 * whole - 1000
        assert gap.end * 1000 == killed_ms + 7000
        assert killed_ms / 1000 - gap.begin <= 60


class Stops(disk.System):
    """A disk whose power goes at one call."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def _next(self) -> None:
        self.calls += 1
        if self.calls >= self.at:
            raise OSError(errno.EIO, "the power went")

    def open(self, path: Path, flags: int) -> int:
        self._next()
        return super().open(path, flags)

    def write(self, fd: int, buffers: Sequence[disk.Buffer]) -> int:
        self._next()
        return super().write(fd, buffers)

    def fsync(self, fd: int) -> None:
        self._next()
        super().fsync(fd)

    def rename(self, source: Path, target: Path) -> None:
        self._next()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._next()
        super().unlink(path)


def test_stopped_at_any_change_while_columns_are_made_nothing_is_lost(
    told: Any, fill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(hours.columns, "absent", lambda: "not now")
        with told.recording() as record:
            fill(record, "ini1", 30)
    wanted, at, stopped = points(told.path), 0, True
    folder = told.path / "telemetry"
    log = next(folder.iterdir())
    data = log.read_bytes()
    while stopped:
        at += 1
        for each in list(folder.iterdir()):
            each.unlink()
        log.write_bytes(data)
        system = Stops(at)
        with disk.through(system):
            stopped = _settled(folder)
        assert points(told.path) == wanted, at
        assert not _settled(folder)  # the next one finishes it
        assert (told.files(), points(told.path)) == (THREE, wanted)
    assert at > 10


def _settled(folder: Path) -> bool:
    """Make columns; tell whether the disk stopped it."""
    try:
        hours.settle(
            hours.logs_in(folder, but=None),
            journal=lambda _kind, **_: None,
            meanwhile=lambda: None,
            on_trouble=lambda _text: None,
        )
    except disk.WriteFailedError:
        return True
    return False


def test_a_disk_that_is_full_costs_what_could_not_be_written_and_no_more(
    told: Any, fill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)

    class Full(disk.System):
        def write(self, fd: int, buffers: Sequence[disk.Buffer]) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with told.recording() as record:
        with disk.through(Full()):
            fill(record, "ini1", 20)
            told.now_s += recorder.BLOCK_S
            until(lambda: record.lost == 20)
        fill(record, "ini1", 20, start_ms=HOUR_MS + 60_000)
    assert "No space left on device" in told.troubles[0]
    assert points(told.path, "load.1min")[0][0] == HOUR_MS / 1000 + 60
    gaps = [event["text"] for event in Archive(told.path).events("gap")]
    assert gaps == ["fast: 41.0 s without a sample"]


def test_a_log_that_was_altered_stays_as_it_is(told: Any, fill: Any, monkeypatch: Any) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(hours.columns, "absent", lambda: "not now")
        with told.recording() as record:
            fill(record, "ini1", 30)
    (log,) = (told.path / "telemetry").iterdir()
    data = bytearray(log.read_bytes())
    block = next(entry for entry in LogWalk(log) if entry.kind == BLOCK)
    data[block.end - 1] ^= 1
    log.write_bytes(data)
    with told.recording():
        pass
    assert told.files() == ["log"]
    assert "stays as it is" in told.troubles[-1]


def test_samples_that_go_back_and_events_without_end_are_counted_not_kept(
    told: Any, fill: Any
) -> None:
    with told.recording() as record:
        fill(record, "ini1", 5)
        record.numbers("ini1", "fast", HOUR_MS, 5000, [1, 1])
        for n in range(recorder.MOST_EVENTS + 30):
            record.event("ini2", HOUR_MS + n, {"kind": "kernel", "text": "x"})
    archive = Archive(told.path)
    assert len(archive.line("ini1", "load.1min").points) == 5
    said = {event["kind"]: event["text"] for event in archive.events("dropped", "unkept")}
    assert "1 samples were dropped" in said["dropped"]
    assert said["unkept"] == "30 more events are not kept"


def test_a_counter_that_fell_is_an_event_and_no_point(told: Any) -> None:
    with told.recording() as record:
        record.names("ini1", "fast", 1000, (("rdma.m.1.errors", "c"), ("rdma.m.1.sent", "c")))
        for n, row in enumerate([(5, 100), (6, 200), (0, 0), (2, 50)]):
            record.numbers("ini1", "fast", HOUR_MS + 1000 * n, 1000 * n, row)
    assert [mean for _, mean in points(told.path, "rdma.m.1.errors")] == [1, 2]
    texts = [event["text"] for event in Archive(told.path).events("counter")]
    assert texts[0].startswith("rdma.m.1.errors went back from 6 to 0")
    line = Archive(told.path).line("ini1", "rdma.m.1.errors", at_most=10)
    assert all(np.isfinite(point.high) and point.low >= 0 for point in line.points)
