"""Makers of small runs, and a disk that forgets what was not fsync'd."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, Measurement
from kvgate.store import disk
from kvgate.store.run import RunWriter

NOON = datetime.datetime(2026, 5, 12, 12, 0, tzinfo=datetime.UTC)


def make_piece(text: str = "x", **changes: object) -> Evidence:
    fields: dict[str, object] = {
        "host": "ini1",
        "command": ("cat", f"/sys/{text}"),
        "exit_status": 0,
        "stdout": text.encode(),
        "stderr": b"",
        "started_at": NOON,
        "ended_at": NOON,
    }
    return Evidence(**{**fields, **changes})  # type: ignore[arg-type]


def make_taken(number: int = 1, **changes: object) -> Measurement:
    fields: dict[str, object] = {
        "name": "fio.read_clat_p99",
        "value": Quantity.of(number, "ms"),
        "host": "ini1",
        "phase": "steady_state",
        "taken_at": NOON,
    }
    return Measurement(**{**fields, **changes})  # type: ignore[arg-type]


class KilledError(BaseException):
    """Stands for SIGKILL: nothing after it has an effect."""


class ForgetfulDisk(disk.System):
    """Knows how much of each file was fsync'd, and dies at its `dies_at`-th call.

    `crash` leaves of every file what was fsync'd and `kept` (0 to 1) of what was written since.
    """

    dies = KilledError

    def __init__(self, dies_at: int | None = None) -> None:
        self.calls, self._dies_at = 0, dies_at
        self._path: dict[int, Path] = {}
        self._firm: dict[Path, int] = {}

    def _call(self) -> None:
        self.calls += 1
        if self._dies_at is not None and self.calls >= self._dies_at:
            raise KilledError

    def open(self, path: Path, flags: int) -> int:
        self._call()
        fd = super().open(path, flags)
        self._path[fd] = path
        self._firm.setdefault(path, os.fstat(fd).st_size)
        return fd

    def write(self, fd: int, buffers: Sequence[disk.Buffer]) -> int:
        if self._dies_at is not None and self.calls + 1 == self._dies_at:
            data = b"".join(buffers)
            os.write(fd, data[: len(data) // 2])  # killed in the middle of a write
        self._call()
        return super().write(fd, buffers)

    def fsync(self, fd: int) -> None:
        self._call()  # and that is all: waiting for a real disk would only cost time here
        if fd in self._path and Path(f"/proc/self/fd/{fd}").readlink() == self._path[fd]:
            self._firm[self._path[fd]] = os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        self._call()
        super().truncate(fd, size)
        path = self._path[fd]
        self._firm[path] = min(self._firm[path], size)

    def rename(self, source: Path, target: Path) -> None:
        self._call()
        super().rename(source, target)
        self._firm[target] = self._firm.pop(source)

    def mkdir(self, path: Path) -> None:
        self._call()
        super().mkdir(path)

    def unlink(self, path: Path) -> None:
        self._call()
        super().unlink(path)
        self._firm.pop(path, None)

    def crash(self, kept: float, *, nuls: int = 0) -> None:
        self._dies_at = None
        for path, firm in self._firm.items():
            if path.exists() and path.name != "lock":
                size = path.stat().st_size
                with path.open("r+b") as file:
                    file.truncate(min(size, firm + int((size - firm) * kept)))
                    if nuls and kept < 1 and size > firm:
                        file.seek(0, 2)
                        file.write(b"\0" * nuls)


@pytest.fixture
def piece() -> Callable[..., Evidence]:
    return make_piece


@pytest.fixture
def taken() -> Callable[..., Measurement]:
    return make_taken


@pytest.fixture
def forgetful() -> type[ForgetfulDisk]:
    return ForgetfulDisk


@pytest.fixture
def small_run(tmp_path: Path) -> Path:
    """Make a closed run: two inputs, a finished block, a discarded one, a measurement outside."""
    path, inputs = tmp_path / "run", {"plan.yaml": b"plan", "gates/g1.yaml": b"g"}
    with RunWriter.create(path, {"who": "eng"}, inputs) as run:
        run.event("gate_begin", gate="G1", attempt=1)
        run.measure(make_taken(1, evidence=(run.evidence(make_piece("one")),)))
        for key, last in (("a", run.end_block), ("b", lambda key: run.discard_block(key, "no"))):
            run.begin_block(key)
            for number in (2, 3):
                ref = run.evidence(make_piece(f"{key}{number}"))
                run.measure(make_taken(number, block=key, evidence=(ref,)))
            last(key)
        run.telemetry({"iops": 5, "host": "ini1"})
        run.telemetry({"iops": 6, "host": "ini1"})
        run.event("attempt", criterion="G1.1", outcome="ran", reasons=[], test="test_a")
        run.event("gate_end", gate="G1", outcome="ended")
    return path
