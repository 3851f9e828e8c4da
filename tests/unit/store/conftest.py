"""Makers of small runs, and a disk that forgets what was not fsync'd."""

from __future__ import annotations

import dataclasses
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


@dataclasses.dataclass
class Medium:
    """What a disk holds, and how much of it is firm; paths as the writer used them."""

    files: dict[Path, bytes] = dataclasses.field(default_factory=dict)
    firm: dict[Path, int] = dataclasses.field(default_factory=dict)
    loose: list[Loose] = dataclasses.field(default_factory=list)
    folders: list[Path] = dataclasses.field(default_factory=list)

    def copy(self) -> Medium:
        return Medium(dict(self.files), dict(self.firm), list(self.loose), list(self.folders))

    def after_crash(
        self, run: Path, kept: float, *, nuls: int = 0, names: bool = True
    ) -> dict[str, bytes]:
        """Return what is left in `run`: all that was fsync'd, and `kept` of what was not.

        Without `names` a name is left only if its folder was fsync'd after it was made, renamed
        or removed. `nuls` stand behind what was cut, as some file systems leave them. A folder
        has "/" at its end.
        """
        files = {}
        for path, data in self.files.items():
            firm = self.firm.get(path, 0)
            end = firm + int((len(data) - firm) * kept)
            files[path] = data[:end] + b"\0" * (nuls if end < len(data) else 0)
        gone = [] if names else [loose.name for loose in self.loose if loose.folder]
        for loose in reversed(self.loose if not names else []):
            if loose.folder:
                files = {p: d for p, d in files.items() if loose.name not in p.parents}
                continue
            data = files.pop(loose.name, b"")
            if loose.before is not None:
                files[loose.name] = loose.before
            if loose.source is not None:
                files[loose.source] = data
        left = {str(p.relative_to(run)): d for p, d in files.items() if p.is_relative_to(run)}
        there = [p for p in self.folders if not any(g in (p, *p.parents) for g in gone)]
        return left | {f"{p.relative_to(run)}/": b"" for p in there if p.is_relative_to(run)}


@dataclasses.dataclass(frozen=True)
class Loose:
    """A change of a name that is not firm: what the name was of before, and where it came from."""

    name: Path
    before: bytes | None = None
    source: Path | None = None
    folder: bool = False


class Hasty(disk.System):
    """Does every call but fsync: waiting for a real disk would only cost time here."""

    def fsync(self, fd: int) -> None:
        pass


class ModelDisk(disk.System):
    """Does every call, and knows what a crash at any moment would leave.

    `moments` holds the medium in the middle of every call (of a write half is done), and what
    `note` returned then. With `fails_at` that call is answered with `error` (a write does half, an
    fsync brings nothing to the medium), and with `stays` every later one too.
    """

    def __init__(
        self,
        note: Callable[[], object] | None = None,
        *,
        fails_at: int = 0,
        error: int = 0,
        stays: bool = False,
    ) -> None:
        self.calls = 0
        self.medium = Medium()
        self.moments: list[tuple[Medium, object]] = []
        self.hit = False
        self._note, self._fails_at, self._error, self._stays = note, fails_at, error, stays

    def _call(self, half: tuple[Path, bytes] | None = None) -> None:
        self.calls += 1
        if self._note is not None:
            medium = self.medium.copy()
            if half is not None:
                medium.files[half[0]] = medium.files.get(half[0], b"") + half[1]
            self.moments.append((medium, self._note()))
        if self.calls == self._fails_at or (self._stays and self.hit):
            if half is not None and not self.hit:
                self.medium.files[half[0]] = self.medium.files.get(half[0], b"") + half[1]
                half[0].open("ab").write(half[1])
            self.hit = True
            raise OSError(self._error, os.strerror(self._error))

    def open(self, path: Path, flags: int) -> int:
        self._call()
        new = not path.exists()
        fd = super().open(path, flags)
        if new:
            self.medium.files[path] = b""
            self.medium.loose.append(Loose(path))
        elif path not in self.medium.files:
            self.medium.files[path] = path.read_bytes()
            self.medium.firm[path] = len(self.medium.files[path])
        return fd

    def write(self, fd: int, buffers: Sequence[disk.Buffer]) -> int:
        path, data = _path(fd), b"".join(buffers)
        self._call((path, data[: len(data) // 2]))
        done = super().write(fd, buffers)
        self.medium.files[path] += data[:done]
        return done

    def fsync(self, fd: int) -> None:
        self._call()
        path, medium = _path(fd), self.medium
        if path.is_dir():
            medium.loose = [loose for loose in medium.loose if loose.name.parent != path]
        else:
            medium.firm[path] = len(medium.files[path])

    def truncate(self, fd: int, size: int) -> None:
        self._call()
        super().truncate(fd, size)
        path, medium = _path(fd), self.medium
        medium.files[path] = medium.files[path][:size]
        medium.firm[path] = min(medium.firm.get(path, 0), size)

    def rename(self, source: Path, target: Path) -> None:
        self._call()
        super().rename(source, target)
        medium = self.medium
        medium.loose.append(Loose(target, medium.files.get(target), source))
        medium.files[target] = medium.files.pop(source)
        medium.firm[target] = medium.firm.pop(source, 0)

    def mkdir(self, path: Path) -> None:
        self._call()
        super().mkdir(path)
        self.medium.loose.append(Loose(path, folder=True))
        self.medium.folders.append(path)

    def unlink(self, path: Path) -> None:
        self._call()
        super().unlink(path)
        self.medium.loose.append(Loose(path, self.medium.files.pop(path, None)))


def _path(fd: int) -> Path:
    return Path(f"/proc/self/fd/{fd}").readlink()


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
def hasty() -> Hasty:
    return Hasty()


@pytest.fixture
def model_disk() -> type[ModelDisk]:
    return ModelDisk


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
