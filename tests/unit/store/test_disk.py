from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kvgate.errors import StoreError
from kvgate.model.record import Evidence, Measurement
from kvgate.store import disk
from kvgate.store import run as run_module
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import verify

Piece = Callable[..., Evidence]
Taken = Callable[..., Measurement]


def create(path: Path) -> RunWriter:
    return RunWriter.create(path / "run", {"who": "eng"}, {"plan.yaml": b"plan"})


class Order(disk.System):
    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []

    def _name(self, fd: int) -> str:
        return Path(f"/proc/self/fd/{fd}").readlink().name.split(".")[0]

    def write(self, fd: int, buffers: Sequence[disk.Buffer]) -> int:
        self.log.append(("write", self._name(fd)))
        return super().write(fd, buffers)

    def fsync(self, fd: int) -> None:
        self.log.append(("fsync", self._name(fd)))
        super().fsync(fd)


def test_evidence_is_firm_before_its_measurements_and_both_before_the_journal(
    tmp_path: Path, piece: Piece, taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "GROUP_S", 1e9)
    with create(tmp_path) as run:
        run.begin_block("a")
        run.measure(taken(1, block="a", evidence=(run.evidence(piece("a")),)))
        with disk.through(system := Order()):
            run.end_block("a")
    assert system.log == [
        ("fsync", "pack-000001"),
        ("write", "measurements"),
        ("fsync", "measurements"),
        ("write", "journal"),
        ("fsync", "journal"),
    ]


@pytest.mark.parametrize(
    ("name", "group_s", "group_bytes"),
    [pytest.param("time", 0.0, 1 << 40, id="time"), pytest.param("bytes", 1e9, 150, id="bytes")],
)
def test_group_commit_by_time_or_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, group_s: float, group_bytes: int
) -> None:
    with create(tmp_path) as run:
        monkeypatch.setattr(run_module, "GROUP_S", group_s)
        monkeypatch.setattr(run_module, "GROUP_BYTES", group_bytes)
        with disk.through(system := Order()):
            run.event("note", text="x")
        assert ("fsync", "journal") in system.log
        monkeypatch.setattr(run_module, "GROUP_S", 1e9)
        monkeypatch.setattr(run_module, "GROUP_BYTES", 1 << 40)
        with disk.through(system := Order()):
            run.event("note", text="x")
        assert ("fsync", "journal") not in system.log


class Failing(disk.System):
    """Fails at one kind of call on files whose name contains `name`, after half of a write."""

    def __init__(self, call: str, name: str, number: int) -> None:
        self.call, self.name, self.number = call, name, number

    def _hits(self, call: str, fd: int) -> bool:
        return call == self.call and self.name in str(Path(f"/proc/self/fd/{fd}").readlink())

    def write(self, fd: int, buffers: Sequence[disk.Buffer]) -> int:
        if self._hits("write", fd):
            data = b"".join(buffers)
            os.write(fd, data[: len(data) // 2])
            raise OSError(self.number, os.strerror(self.number))
        return super().write(fd, buffers)

    def fsync(self, fd: int) -> None:
        if self._hits("fsync", fd):
            raise OSError(self.number, os.strerror(self.number))
        super().fsync(fd)


def work(run: RunWriter, piece: Piece, taken: Taken) -> None:
    run.begin_block("b")
    run.measure(taken(2, block="b", evidence=(run.evidence(piece("b")),)))
    run.telemetry({"a": 1})
    run.event("note", text="x")
    run.end_block("b")
    run.measure(taken(3))
    run.sync()


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("name", ["journal", "measurements", "pack-", "telemetry"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_after_a_failed_write_nothing_is_called_saved(
    tmp_path: Path, piece: Piece, taken: Taken, call: str, name: str, number: int
) -> None:
    run = create(tmp_path)
    run.begin_block("a")
    run.measure(taken(1, block="a", evidence=(run.evidence(piece("a")),)))
    run.end_block("a")
    with disk.through(Failing(call, name, number)):
        with pytest.raises(StoreError, match=os.strerror(number)) as caught:
            work(run, piece, taken)
        assert name in str(caught.value)
        assert isinstance(caught.value.__cause__, OSError)
    # The disk works again, but the writer can't know what is there.
    later: list[Callable[[], object]] = [
        lambda: run.event("note", text="x"),
        run.sync,
        lambda: run.end_block("b"),
        lambda: run.evidence(piece("c")),
        lambda: run.telemetry({}),
        run.close,
    ]
    for use in later:
        with pytest.raises(StoreError, match="earlier write failed"):
            use()
    with RunWriter.open(run.path) as again:
        assert again.finished_blocks() == {"a"}
    assert [m.value.number for m in RunReader(run.path).measurements()] == [1]


def test_full_disk_at_creation_names_path_and_cause(tmp_path: Path) -> None:
    with (
        disk.through(Failing("write", "manifest", errno.ENOSPC)),
        pytest.raises(StoreError, match=r"manifest\.json: writing: No space left") as caught,
    ):
        create(tmp_path)
    assert "free some space" in caught.value.hint
    with pytest.raises(StoreError, match="creation was interrupted"):
        RunWriter.open(tmp_path / "run")


class Interrupting(disk.System):
    """Raises KeyboardInterrupt at the `at`-th write or fsync, before or after it had its effect."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.calls = at, after, 0

    def _around(self, call: Callable[[], int | None]) -> int | None:
        self.calls += 1
        if self.calls == self.at and not self.after:
            raise KeyboardInterrupt
        done = call()
        if self.calls == self.at:
            raise KeyboardInterrupt
        return done

    def write(self, fd: int, buffers: Sequence[disk.Buffer]) -> int:
        done = self._around(lambda: super(Interrupting, self).write(fd, buffers))
        assert done is not None
        return done

    def fsync(self, fd: int) -> None:
        self._around(lambda: super(Interrupting, self).fsync(fd))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 12))
def test_an_interrupt_anywhere_leaves_a_whole_run_and_a_usable_writer(
    tmp_path: Path, piece: Piece, taken: Taken, at: int, after: bool
) -> None:
    with create(tmp_path) as run:
        with disk.through(Interrupting(at, after=after)), pytest.raises(KeyboardInterrupt):
            work(run, piece, taken)
        run.event("interrupted", because="Ctrl-C")
        again = "b" not in run.finished_blocks()
        if again and "b" in run._ledger.open:
            run.discard_block("b", "interrupted")
        if again:
            run.begin_block("b")
            run.measure(taken(4, block="b"))
            run.end_block("b")
    values = [m.value.number for m in RunReader(run.path).measurements()]
    assert (4 if again else 2) in values
    assert [p.kind for p in verify(run.path).problems] == ["unsealed"]
