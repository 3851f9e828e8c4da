"""Checks evidence packs to the piece: goes on behind damage, so that each piece is named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kvgate.store import pack
from kvgate.store.layout import open_regular
from kvgate.store.verification import Problem

_CHUNK = 1 << 20


@dataclasses.dataclass(slots=True)
class PackCheck:
    """What a pack holds: the SHA-256 of each whole piece, and which are not as their frames say."""

    name: str
    refs: set[bytes] = dataclasses.field(default_factory=set)
    altered: set[str] = dataclasses.field(default_factory=set)
    problems: list[Problem] = dataclasses.field(default_factory=list)

    def blame(self, detail: str, stated: str | None, actual: str | None) -> None:
        """Report damage to the piece that its frame calls `stated`, whose bytes have `actual`."""
        if stated is not None:
            self.altered.add(stated)
        if actual is not None:
            self.refs.add(bytes.fromhex(actual))
        self.problems.append(Problem(self.name, "altered", detail))


def check_pack(path: Path, name: str) -> PackCheck:
    """Read the pack `path` whole; `name` is what problems call it. Raises StoreError, OSError."""
    found = PackCheck(name)
    size, end = path.lstat().st_size, 0
    while end < size:
        scan = pack.Scan(path, end, hashing=True)
        for piece in scan:
            if piece.actual == piece.ref:
                found.refs.add(bytes.fromhex(piece.ref))
            else:
                found.blame(
                    f"evidence {piece.ref} at byte {piece.offset}: the SHA-256 of its "
                    f"bytes is {piece.actual}",
                    piece.ref,
                    piece.actual,
                )
        end = scan.end
        if end < size:
            end = _next_frame(path, scan.end + 1, size)
            _blame_frame(found, path, scan.end, end)
    return found


def _blame_frame(found: PackCheck, path: Path, start: int, end: int) -> None:
    """Report the bytes from `start` to `end`, which begin with no frame of a whole piece."""
    with open_regular(path) as file:
        file.seek(start)
        frame = pack.read_frame(file.read(pack.FRAME_BYTES))
        inside = end - start - pack.FRAME_BYTES - 1
        actual = pack.hash_span(file, inside) if inside > 0 else None
    stated = frame[0] if frame else None
    found.blame(
        f"{end - start} bytes from byte {start} on are no whole piece: evidence {stated or '?'} by "
        f"the frame, {actual or '?'} by the bytes behind it",
        stated,
        actual,
    )


def _next_frame(path: Path, start: int, size: int) -> int:
    """Return where the next frame begins at or behind `start`, `size` if nowhere."""
    mark = b"\n" + pack.MAGIC
    with open_regular(path) as file:
        at, tail = start, b""
        file.seek(at)
        while chunk := file.read(_CHUNK):
            data = tail + chunk
            found = data.find(mark)
            while found >= 0:
                begin = at - len(tail) + found + 1
                if _is_frame(path, begin, size):
                    return begin
                found = data.find(mark, found + 1)
            at, tail = at + len(chunk), data[-len(mark) + 1 :]
    return size


def _is_frame(path: Path, at: int, size: int) -> bool:
    with open_regular(path) as file:
        file.seek(at)
        read = pack.read_frame(file.read(pack.FRAME_BYTES))
    return read is not None and at + pack.FRAME_BYTES + read[1] + 1 <= size
