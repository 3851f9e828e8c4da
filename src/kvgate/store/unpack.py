"""An exported run unpacked where it can do no harm, with its own digest; zstd by whoever has it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import io
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store import tar
from kvgate.store.layout import open_regular

ZSTD = b"\x28\xb5\x2f\xfd"
WIDEST_WINDOW_BYTES = 128 * 2**20
"""What a reader of zstd has to hold in memory at most."""

MOST_EXPANSION = 400
SMALLEST_BOUND_BYTES = 64 * 2**20
"""An archive that unpacks to more than this, and to more than that many times its size, is a bomb:
journals and evidence, which are text, become some 10 to 40 times smaller."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unpacked:
    """An archive unpacked into `run`; `sha256` is that of the archive's own bytes."""

    run: Path
    sha256: str
    bytes: int
    files: int


@contextlib.contextmanager
def unpacked(archive: Path) -> Iterator[Unpacked]:
    """Unpack `archive` (.tar.zst or .tar) into a temporary folder for as long as the block runs.

    Raises DamagedRunError for what no export holds: unsafe names, links, devices, several
    folders, too much for its size; StoreError where it can't be read or zstd is not to be had.
    """
    with tempfile.TemporaryDirectory(prefix="kvgate-verify-") as place:
        with open_regular(archive) as file:
            size = file.seek(0, 2)
            file.seek(0)
            digest = hashlib.sha256()
            while chunk := file.read(1 << 20):
                digest.update(chunk)
            file.seek(0)
            most = max(SMALLEST_BOUND_BYTES, MOST_EXPANSION * size)
            try:
                with _plain(archive, file) as source:
                    names = _unpack(archive, source, Path(place), most)
            except DamagedRunError as err:
                raise DamagedRunError(f"{archive}: {err.message}") from err
        run = Path(place) / names[0].partition("/")[0]
        yield Unpacked(run, digest.hexdigest(), size, len(names))


def _unpack(archive: Path, source: BinaryIO, place: Path, most: int) -> list[str]:
    names: list[str] = []
    left = min(most, shutil.disk_usage(place).free)
    try:
        for member in tar.members(source):
            left -= member.bytes + tar.BLOCK
            if why := _unfit(member, names, left):
                raise DamagedRunError(why)
            names.append(member.name)
            target = place / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as out:
                for part in tar.bytes_of(source, member):
                    out.write(part)
    except OSError as err:
        raise StoreError(f"{archive}: can't be unpacked in {place}: {err.strerror or err}") from err
    if not names:
        raise DamagedRunError("holds no file")
    return names


def _unfit(member: tar.Member, names: list[str], left: int) -> str:
    """Return why `member` can't be of an exported run, "" where it can."""
    folder, slash, _ = member.name.partition("/")
    if left < 0:
        return "it unpacks to more than its size allows, or than is free here"
    if not slash or (names and folder != names[0].partition("/")[0]):
        return f"{member.name!r} is not in one folder, a run's, with the rest"
    return ""


@contextlib.contextmanager
def _plain(archive: Path, file: io.BufferedReader) -> Iterator[BinaryIO]:
    """Yield the tar in `file`: itself, or by Python's zstd, `zstandard`, or the zstd command."""
    magic = file.read(len(ZSTD))
    file.seek(0)
    if magic != ZSTD:
        yield file
        return
    reader = _by_module(file)
    if reader is None:
        with _by_command(archive) as reader:
            yield reader
        return
    yield _Told(reader)  # type: ignore[misc]  # it reads, which is all that is asked


def _by_module(file: BinaryIO) -> Any | None:
    """Return a reader of `file` by a module that is there, None without one."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("compression.zstd").ZstdFile(file)  # Python 3.14
    with contextlib.suppress(ImportError):
        zstandard = importlib.import_module("zstandard")
        machine = zstandard.ZstdDecompressor(max_window_size=WIDEST_WINDOW_BYTES)
        return machine.stream_reader(file, read_across_frames=True)
    return None


class _Told:
    """A reader whose every error says that the archive can't be decompressed."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def read(self, length: int) -> bytes:
        """Return up to `length` bytes, none at the end; raises DamagedRunError."""
        try:
            found: bytes = self._reader.read(length)
        except Exception as err:  # each module has errors of its own
            raise DamagedRunError(f"is no whole zstd: {err}") from err
        return found


@contextlib.contextmanager
def _by_command(archive: Path) -> Iterator[BinaryIO]:
    command = ["zstd", "-q", "-d", "-c", "--", str(archive)]
    try:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except FileNotFoundError as err:
        raise StoreError(
            f"{archive}: to read zstd takes Python 3.14, its module zstandard, or the command zstd",
            hint="install one of them, or have the run exported as .tar",
        ) from err
    with child:
        try:
            yield cast(BinaryIO, child.stdout)
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        raise DamagedRunError(f"is no whole zstd: the command exited {child.returncode}")
