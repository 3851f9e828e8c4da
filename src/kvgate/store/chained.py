"""Writes a chained file: lines are added whole or not at all, also when a signal comes between."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kvgate.store import disk
from kvgate.store.chain import link


class _At(NamedTuple):
    """Where the file stands; replaced as one, so that an interrupt sees the old or the new."""

    number: int
    head: str
    size: int  # bytes handed to the operating system
    waiting: int  # lines not yet handed over


class ChainedFile:
    """The writing end of journal, measurements or telemetry; not thread-safe.

    `held_back` lines wait in memory for `sync` (so that evidence can be fsync'd before them);
    others are handed to the operating system at once and survive the death of this process.
    Every method that writes raises WriteFailedError.
    """

    def __init__(
        self,
        path: Path,
        head: str,
        *,
        count: int = 0,
        size: int = 0,
        held_back: bool = False,
        new: bool = False,
    ) -> None:
        self._file = disk.File(path, new=new)
        self._at = _At(count, head, size, 0)
        self._lines: list[bytes] = []
        self._held_back = held_back
        self._dirty = not new  # of a reopened file, what is behind the bound may not be fsync'd

    @property
    def count(self) -> int:
        """Return the number of lines, waiting ones too."""
        return self._at.number

    @property
    def head(self) -> str:
        """Return the chain after the last line."""
        return self._at.head

    def append(self, body: bytes) -> bytes:
        """Add the record `body` (canonical JSON) and return its line."""
        at = self._at
        line, head = link(at.head, body)
        del self._lines[at.waiting :]  # what an interrupted append left
        self._lines.append(line)
        self._at = _At(at.number + 1, head, at.size, at.waiting + 1)
        if not self._held_back:
            self.flush()
        return line

    def flush(self) -> None:
        """Hand waiting lines to the operating system."""
        at = self._at
        if not at.waiting:
            return
        data = b"".join(self._lines[: at.waiting])
        self._dirty = True
        try:
            self._file.write(data)
            self._at = _At(at.number, at.head, at.size + len(data), 0)
        except disk.WriteFailedError:
            raise
        except BaseException:  # an interrupt: take back what may be half there, and keep it waiting
            self._file.truncate(self._at.size)
            raise

    def sync(self) -> None:
        """Return once every line is on the medium."""
        self.flush()
        if self._dirty:
            self._file.sync()
            self._dirty = False

    def cut(self, size: int) -> None:
        """Cut the file to `size` bytes, on the medium; only before anything is appended."""
        self._file.truncate(size)
        self._file.sync()
        self._at = self._at._replace(size=size)

    def close(self) -> None:
        """Close the file; lines still waiting are not written."""
        self._file.close()
