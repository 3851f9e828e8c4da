"""The program that writes and reads back, run as it runs on a host, and what its lines come to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.workloads import acknowledged, acknowledged_program
from kvgate.workloads.acknowledged import Fate, Written, fate

PROGRAM = acknowledged_program.__file__
SIZE, SLOTS = 4096, 16


def run(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60
    )
    return done.stdout


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(bytes(SIZE * SLOTS))
    return path


@pytest.fixture
def written(file: Path) -> Written:
    told = Written()
    for line in run("write", file, SIZE, SLOTS, 7, 400, 0.5).splitlines():
        told.take(line)
    return told


def readback(file: Path, seed: int = 7) -> str:
    return run("verify", file, SIZE, SLOTS, seed)


def test_what_was_acknowledged_is_there(file: Path, written: Written) -> None:
    assert len(written.acks) >= 4
    assert written.errors == []
    assert written.begun_s <= written.acks[0][0] <= written.ended_s
    assert fate(written, readback(file)) == Fate((), (), ())


def test_it_ends_once_it_is_told_that_it_is_enough(file: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_bytes(Path(PROGRAM).read_bytes())
    program.with_name(acknowledged_program.ENOUGH).touch()
    done = subprocess.run(  # else it would write for an hour
        [sys.executable, program, "write", file, *map(str, (SIZE, SLOTS, 7, 400, 3600))],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    told = Written()
    for line in done.stdout.splitlines():
        told.take(line)
    assert told.errors == []
    assert told.ended_s is not None
    assert fate(told, readback(file)) == Fate((), (), ())


def spoil(file: Path, slot: int, data: bytes, at: int = 0) -> None:
    with file.open("r+b") as opened:
        opened.seek(slot * SIZE + at)
        opened.write(data)


def test_lost_stale_torn_and_misplaced_blocks_are_told_apart(file: Path, written: Written) -> None:
    lost, stale, torn, moved = sorted(written.last)[:4]
    spoil(file, lost, bytes(SIZE))
    old = acknowledged_program.content(7, stale, 0, SIZE)
    spoil(file, stale, old)
    spoil(file, torn, b"x", at=SIZE - 1)
    spoil(file, moved, acknowledged_program.content(7, moved + 1, 9, SIZE))
    assert fate(written, readback(file)) == Fate((lost, stale), (torn, moved), ())


def test_another_runs_blocks_are_not_ours(file: Path, written: Written) -> None:
    assert fate(written, readback(file, seed=8)).lost == tuple(sorted(written.last))


def test_a_later_write_that_was_under_way_is_no_loss() -> None:
    told = Written()
    told.take("A 3 5 10.000 0.001000")
    assert fate(told, "V 3 6\nD\n") == Fate((), (), ())
    assert fate(told, "V 3 4\nD\n") == Fate((3,), (), ())
    assert fate(told, "E 3 5\nD\n") == Fate((), (), (3,))


def test_a_full_disk_is_an_error_that_the_writer_tells() -> None:
    told = Written()
    for line in run("write", "/dev/full", SIZE, SLOTS, 7, 100, 5).splitlines():
        told.take(line)
    assert told.acks == []
    assert {code for _, code in told.errors} == {28}  # ENOSPC


@pytest.mark.parametrize("answer", ["", "V 3 5\n", "V 4 1\nD\n", "V 3 x\nD\n", "\x1b[1m\nD\n"])
def test_an_answer_that_is_not_whole_is_refused(answer: str) -> None:
    told = Written(last={3: 5})
    with pytest.raises(ParseError, match="verify: "):
        fate(told, answer)


@pytest.mark.parametrize("line", ["", "A 1 2", "A 1 2 3 4", "E", "X 1 2", "A -1 2 1.000 0.000001"])
def test_a_line_of_another_shape_is_refused(line: str) -> None:
    with pytest.raises(ParseError, match="writer: "):
        Written().take(line)


def test_nothing_acknowledged_proves_nothing() -> None:
    found = {each.name: each for each in acknowledged.readings(Written(), Fate((), (), ()))}
    assert found["failover.acknowledged"].value == Quantity.of(0, "")
    assert found["failover.lost_writes"].value is None
    assert "no write was acknowledged" in found["failover.lost_writes"].problem


def test_what_can_not_be_read_back_is_not_called_there() -> None:
    told = Written(last={1: 1}, acks=[(1.0, 0.1)])
    found = {each.name: each for each in acknowledged.readings(told, Fate((), (), (1,)))}
    assert "1 blocks can't be read back: 1" in found["failover.lost_writes"].problem


def test_the_program_needs_nothing_but_python() -> None:
    source = Path(PROGRAM).read_text("utf-8")
    assert "kvgate." not in source.replace("nothing of kvgate.", "")
    assert os.path.basename(PROGRAM) == "acknowledged_program.py"  # noqa: PTH119
