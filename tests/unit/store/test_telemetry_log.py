from __future__ import annotations

from pathlib import Path

import pytest

from kvgate.errors import DamagedRunError
from kvgate.store.telemetry_log import MAGIC, LogWalk, LogWriter, entry_at

PAYLOADS = [b"names", b"\0" * 40, b"an event", b""]


def log(path: Path) -> list[int]:
    """Write a small log and return where each record ends."""
    writer = LogWriter(path)
    ends = []
    for payload in PAYLOADS:
        writer.add(b"B", payload)
        ends.append(writer.size)
    writer.close()
    return ends


def test_records_come_back_and_are_found_by_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log(path)
    walk = LogWalk(path)
    found = list(walk)
    assert [entry.payload for entry in found] == PAYLOADS
    assert [entry_at(path, entry.start, entry.end) for entry in found] == PAYLOADS
    assert (walk.torn, walk.end) == ("", path.stat().st_size)


def test_cut_at_every_byte_all_that_is_whole_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    ends = log(path)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        walk = LogWalk(path)
        whole = [entry.payload for entry in walk]
        assert whole == PAYLOADS[: sum(end <= size for end in ends)]
        assert walk.cut_short == (size not in (*ends, len(MAGIC)))
        assert bool(walk.torn) == walk.cut_short


def test_a_bit_flipped_anywhere_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log(path)
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        walk = LogWalk(path)
        if at < len(MAGIC):
            with pytest.raises(DamagedRunError, match="no telemetry log"):
                list(walk)
            continue
        whole = [entry.payload for entry in walk]
        assert whole == PAYLOADS[: len(whole)]
        assert len(whole) < len(PAYLOADS)
        assert walk.torn


def test_a_record_that_was_cut_out_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    ends = log(path)
    data = path.read_bytes()
    path.write_bytes(data[: ends[0]] + data[ends[1] :])
    walk = LogWalk(path)
    assert [entry.payload for entry in walk] == PAYLOADS[:1]
    assert (walk.torn, walk.cut_short) == ("a record is not as it was written", False)
