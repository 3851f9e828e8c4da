"""The one door to the disk: every change to a run folder is made here, and none fails silently.

`System` holds the raw calls that change something. `through` puts another one in its place, so
that tests can lose writes, fill the disk or stop the process at any single call.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from kvgate.errors import StoreError

Buffer = bytes | memoryview
TEMPORARY = ".tmp-"
"""Begins the name of a file that is still being written; a rename gives it its own name."""


class WriteFailedError(StoreError):
    """A change did not reach the disk; whoever was writing must not go on as if it had."""


class System:
    """The operating system's calls that change a disk; each one is a place for a fault."""

    def open(self, path: Path, flags: int) -> int:
        """Open (and where `flags` say so, make) a file; never through a symbolic link."""
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)

    def write(self, fd: int, buffers: Sequence[Buffer]) -> int:
        """Write some of `buffers` and return how many bytes."""
        return os.writev(fd, buffers)

    def fsync(self, fd: int) -> None:
        """Wait until what was written is on the medium."""
        os.fsync(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cut an open file to `size` bytes."""
        os.ftruncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        """Give `source` the name `target`, replacing what had it."""
        source.replace(target)

    def mkdir(self, path: Path) -> None:
        """Make a folder."""
        path.mkdir(0o755)

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()


_system = System()


@contextlib.contextmanager
def through(system: System) -> Iterator[None]:
    """Send every change made in the block through `system`: for tests of faults only."""
    global _system
    before, _system = _system, system
    try:
        yield
    finally:
        _system = before


@contextlib.contextmanager
def told(path: Path, doing: str) -> Iterator[None]:
    """Turn an OSError in the block into a WriteFailedError that names `path` and the cause."""
    try:
        yield
    except OSError as err:
        raise _failure(path, doing, err) from err


def _failure(path: Path, doing: str, err: OSError) -> WriteFailedError:
    full = err.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free some space, then resume the run" if full else ""
    return WriteFailedError(f"{path}: {doing}: {err.strerror or err}", hint=hint)


class File:
    """A file that is only ever added to (or cut back); every method raises WriteFailedError."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT | os.O_EXCL if new else 0)
        with told(path, "making the file" if new else "opening it for writing"):
            self._fd = _system.open(path, flags)
            self._firm = os.fstat(self._fd).st_size
        self._open = True

    @classmethod
    def make_or_open(cls, path: Path) -> Self:
        """Return the file at `path`, made where it is absent."""
        return cls(path, new=not path.exists())

    def write(self, *buffers: Buffer) -> None:
        """Add `buffers`, whole; none of them is copied."""
        left: Sequence[Buffer] = buffers
        while left:
            try:  # not `told`: this is the hot path
                done = _system.write(self._fd, left)
            except OSError as err:
                raise _failure(self.path, "writing", err) from err
            left = _behind(left, done)

    def sync(self) -> None:
        """Return once everything written is on the medium.

        After a failed fsync Linux may forget what it could not write and call the next one fine,
        so what was written since the last good one is cut off again where that is possible.
        """
        size = self.size()
        try:
            with told(self.path, "fsync"):
                _system.fsync(self._fd)
        except WriteFailedError:
            with contextlib.suppress(OSError):
                _system.truncate(self._fd, self._firm)
            raise
        self._firm = size

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        with told(self.path, f"cutting it to {size} bytes"):
            _system.truncate(self._fd, size)
        self._firm = min(self._firm, size)

    def size(self) -> int:
        """Return its length in bytes."""
        with told(self.path, "asking its size"):
            return os.fstat(self._fd).st_size

    def fileno(self) -> int:
        """Return the descriptor, for flock."""
        return self._fd

    def close(self) -> None:
        """Close it (without fsync); a second call does nothing."""
        if self._open:
            self._open = False
            os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _behind(buffers: Sequence[Buffer], done: int) -> Sequence[Buffer]:
    """Return what is left of `buffers` behind their first `done` bytes."""
    for number, buffer in enumerate(buffers):
        if done < len(buffer):
            return [memoryview(buffer)[done:], *buffers[number + 1 :]]
        done -= len(buffer)
    return ()


def make_folder(path: Path) -> None:
    """Make `path` and the folders above it, each fsync'd into its parent."""
    for folder in [path, *path.parents][::-1]:
        if not folder.is_dir():
            with told(folder, "making the folder"):
                _system.mkdir(folder)
            sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Return once the names in folder `path` are on the medium."""
    with told(path, "fsync of the folder"):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _system.fsync(fd)
        finally:
            os.close(fd)


def sync_file(path: Path) -> None:
    """Return once the bytes of an existing file are on the medium."""
    with told(path, "fsync"):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _system.fsync(fd)
        finally:
            os.close(fd)


def replace(path: Path, data: bytes) -> None:
    """Make `data` the content of `path`, whole or not at all, and wait until it is."""
    temporary = path.with_name(TEMPORARY + path.name)
    remove(temporary)  # left by a crash
    with File(temporary, new=True) as file:
        file.write(data)
        file.sync()
    _name(temporary, path)


def publish(temporary: Path, path: Path) -> None:
    """Give a file that was written whole its own name, `path`, and wait until it has it."""
    sync_file(temporary)
    _name(temporary, path)


def _name(temporary: Path, path: Path) -> None:
    with told(path, "renaming the finished file"):
        _system.rename(temporary, path)
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove the file `path` if it is there."""
    if path.is_symlink() or path.exists():
        with told(path, "removing it"):
            _system.unlink(path)
