"""How many bytes a pool of chunk files holds, kept by all its processes together, and its bound.

The count lies in a file that is locked while it is used. A file is made at its full size (sparse)
under that lock before it is written, so that what is there is never more than what is counted,
whoever is killed when; the count is made anew from what is there whenever chunks are evicted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import time
from collections.abc import Iterator

NAME = "size"
SPARE = 0.1
"""The share of its bound that is freed at once, so that it seldom looks for the oldest."""
LEFT_AFTER_S = 60.0
"""How old a temporary file without a writer is when it is removed: its writer was killed."""


class Ledger:
    """The bytes of the files below `folder`/blocks. Without a limit they are only counted."""

    def __init__(self, folder: pathlib.Path, limit_bytes: int | None) -> None:
        self.limit_bytes = limit_bytes
        self._folder = folder
        self._blocks = folder / "blocks"
        with self._held() as count:
            _put(count, self._clean())

    @property
    def used_bytes(self) -> int:
        """Return how many bytes are there or about to be."""
        with self._held() as count:
            return _get(count)

    def create(self, path: pathlib.Path, size: int) -> tuple[int | None, list[str]]:
        """Make a file that is about to hold `size` bytes; returns its descriptor, locked.

        None where there is no room even without all that may be evicted. Also returns the names
        of the chunks evicted for it. Raises OSError.
        """
        with self._held() as count:
            used, gone = _get(count), list[str]()
            if self.limit_bytes is not None and used + size > self.limit_bytes:
                used, gone = self._evict(int(self.limit_bytes * (1 - SPARE)) - size)
            if self.limit_bytes is not None and used + size > self.limit_bytes:
                _put(count, used)
                return None, gone
            descriptor = _new(path, size)
            _put(count, used + size)
            return descriptor, gone

    def remove(self, path: pathlib.Path, size: int) -> None:
        """Remove a file that could not be written, and count its bytes no more."""
        with self._held() as count:
            path.unlink(missing_ok=True)
            _put(count, max(0, _get(count) - size))

    @contextlib.contextmanager
    def _held(self) -> Iterator[int]:
        """Hold the count's file locked; yields its descriptor."""
        descriptor = os.open(self._folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _files(self) -> Iterator[tuple[float, int, pathlib.Path]]:
        """Yield every file's last use, size and path."""
        for folder in self._blocks.iterdir():
            with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        told = entry.stat(follow_symlinks=False)
                        yield told.st_mtime, told.st_size, pathlib.Path(entry.path)

    def _clean(self) -> int:
        """Remove what killed writers left; returns the bytes that are there."""
        used, old = 0, time.time() - LEFT_AFTER_S
        for touched, size, path in self._files():
            if path.suffix != ".tmp" or touched >= old or not remove_unused(path):
                used += size
        return used

    def _evict(self, target: int) -> tuple[int, list[str]]:
        """Remove files, the longest unused first, down to `target` bytes; never one in use.

        Returns the bytes that are left, and the names of the chunks that went.
        """
        used, gone = self._clean(), list[str]()
        for _, size, path in sorted(self._files()):
            if used > target and path.suffix != ".tmp" and remove_unused(path):
                used -= size
                if path.suffix == ".kv":
                    gone.append(path.stem)
        return used, gone


def remove_unused(path: pathlib.Path) -> bool:
    """Remove a file unless somebody reads or writes it now; tells whether it is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _new(path: pathlib.Path, size: int) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        raise
    return descriptor


def _get(descriptor: int) -> int:
    return int.from_bytes(os.pread(descriptor, 8, 0), "little")


def _put(descriptor: int, count: int) -> None:
    os.pwrite(descriptor, count.to_bytes(8, "little"), 0)
