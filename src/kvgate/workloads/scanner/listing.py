"""Lists the regular files below paths: no links followed, nothing else opened, one file system."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.index import GROUPS
from kvgate.workloads.scanner.kinds import folder_of, kind_of, shown
from kvgate.workloads.scanner.reading import Piece
from kvgate.workloads.scanner.tensor_hashes import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kvgate.workloads.scanner.state import State

SEGMENT = 128 * 1024 * 1024
"""Bytes of a larger file that are scanned at once, and of smaller ones together."""

MOST_ROOTS = 600
"""So many, each with every kind, have room among the folders that are told apart."""

_MOST_PIECES = 1024
_DEEPEST = 6
_ROWS = 2000
COUNTS = (
    *("files", "folders", "hard_links", "links", "specials", "mounts", "bytes", "used"),
    *("sparse_files", "no_entry"),
)
"""What is counted: ``links`` are symbolic ones; all but ``files`` to ``used`` were left out."""


def roots_of(paths: Sequence[str]) -> list[bytes]:
    """Return the real places of `paths`, those inside of another left out; raises ScanError."""
    found: list[bytes] = []
    for path in paths:
        real = os.path.realpath(os.fsencode(path))
        try:
            mode = Path(os.fsdecode(real)).stat().st_mode
        except OSError as err:
            raise ScanError(f"{shown(os.fsencode(path))}: {err.strerror}") from err
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise ScanError(f"{shown(real)}: is neither a folder nor a regular file")
        found.append(real)
    if len(found) > MOST_ROOTS:
        raise ScanError(f"{len(found)} paths are too many: {MOST_ROOTS} at most")
    return sorted(
        each
        for each in set(found)
        if not any(each != top and each.startswith(top.rstrip(b"/") + b"/") for top in found)
    )


class Listing:
    """Walks `roots` and writes every regular file into `state`; `told` hears how many."""

    def __init__(self, state: State, roots: Sequence[bytes], told: Callable[[int], None]) -> None:
        self._state, self._roots, self._told = state, roots, told
        self._counts = dict.fromkeys(COUNTS, 0)
        self._rows: list[Any] = []
        self._groups: list[dict[Any, None] | None] = [{} for _ in range(_DEEPEST + 1)]

    def run(self) -> None:
        """List everything; a listing that was killed is begun again."""
        if self._state.meta("counts") is not None:
            return
        self._state.db.execute("BEGIN")
        self._state.clear_listing()
        for number, root in enumerate(self._roots):
            told = Path(os.fsdecode(root)).stat()
            if stat.S_ISDIR(told.st_mode):
                self._walk(number, root, told.st_dev)
            else:
                self._file(number, root, told)
        self._flush()
        depth, groups = next(
            (depth, found)
            for depth, found in reversed(list(enumerate(self._groups)))
            if found is not None
        )
        rows = ((at, *group) for at, group in enumerate(groups))
        self._state.put("groups", ((at, root, b"/".join(f), kind) for at, root, f, kind in rows))
        self._state.set("depth", depth)
        self._state.set("counts", self._counts)
        self._state.db.execute("COMMIT")

    def _walk(self, number: int, root: bytes, dev: int) -> None:
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            self._counts["folders"] += 1
            try:
                with os.scandir(folder) as entries:
                    found = sorted(entries, key=lambda each: each.name)
            except OSError as err:
                self._no_entry(folder, err)
                continue
            inner = [each.path for each in found if self._entry(number, each, dev)]
            waiting += reversed(inner)

    def _entry(self, number: int, entry: os.DirEntry[bytes], dev: int) -> bool:
        """Note one entry; return whether it is a folder to go into."""
        if entry.is_symlink():
            self._counts["links"] += 1
            return False
        try:
            told = entry.stat(follow_symlinks=False)
        except OSError as err:  # gone since, or no permission
            self._no_entry(entry.path, err)
            return False
        if told.st_dev != dev:
            self._counts["mounts"] += 1
        elif stat.S_ISDIR(told.st_mode):
            return True
        elif stat.S_ISREG(told.st_mode):
            self._file(number, entry.path, told)
        else:
            self._counts["specials"] += 1
        return False

    def _no_entry(self, path: bytes, err: OSError) -> None:
        self._counts["no_entry"] += 1
        self._state.put("problems", [(shown(path), f"{err.strerror or err}; left out")])

    def _file(self, number: int, path: bytes, told: os.stat_result) -> None:
        place = (told.st_dev, told.st_ino)
        if told.st_nlink > 1:
            added = self._state.db.execute("INSERT OR IGNORE INTO links VALUES (?, ?)", place)
            if added.rowcount == 0:
                self._counts["hard_links"] += 1
                return
        kind, used = kind_of(path), told.st_blocks * 512
        self._rows.append(
            (None, path, number, kind, told.st_size, used, told.st_mtime_ns, *place, 0)
        )
        self._group(number, path, kind)
        counts = self._counts
        counts["files"] += 1
        counts["bytes"] += told.st_size
        counts["used"] += used
        counts["sparse_files"] += used < told.st_size
        if len(self._rows) >= _ROWS:
            self._flush()

    def _group(self, number: int, path: bytes, kind: int) -> None:
        folder = folder_of(_inside(self._roots[number], path), _DEEPEST)
        for depth, known in enumerate(self._groups):
            if known is None:
                return
            known[(number, folder[:depth], kind)] = None
            if len(known) > GROUPS:
                self._groups[depth:] = [None] * (len(self._groups) - depth)

    def _flush(self) -> None:
        self._state.put("files", self._rows)
        self._rows.clear()
        self._told(self._counts["files"])


def _inside(root: bytes, path: bytes) -> bytes:
    return path[len(root.rstrip(b"/")) + 1 :]


_UNDONE = """
SELECT id, path, root, kind, size, used, mtime, dev, ino FROM files
WHERE done = 0 AND id > ? ORDER BY id LIMIT 1000"""


def pieces(state: State, roots: Sequence[bytes]) -> Iterator[list[Piece]]:
    """Yield what is still to be scanned, in the order it was listed, some files at a time."""
    depth = state.meta("depth")
    known = {
        (root, folder, kind): at
        for at, root, folder, kind in state.rows("SELECT id, root, folder, kind FROM groups")
    }
    batch: list[Piece] = []
    last = held = 0
    while True:
        rows = list(state.rows(_UNDONE, last))
        if not rows:
            break
        last = rows[-1][0]
        for row in rows:
            folder = b"/".join(folder_of(_inside(roots[row[2]], row[1]), depth))
            for piece in _cut(row, known[(row[2], folder, row[3])], _done(state, row)):
                batch.append(piece)
                held += piece.length
                if len(batch) >= 512 or held >= SEGMENT:
                    yield batch
                    batch, held = [], 0
    if batch:
        yield batch


def _done(state: State, row: Any) -> set[int]:
    if row[4] <= SEGMENT:
        return set()
    return {each[0] for each in state.rows("SELECT at FROM done WHERE file = ?", row[0])}


def _cut(row: Any, group: int, done: set[int]) -> Iterator[Piece]:
    file, path, _, kind, size, used, mtime, dev, ino = row
    name, sparse = os.fsdecode(path), used < size
    step = step_of(name, size, sparse)
    for at in range(0, max(size, 1), step):
        if at not in done:
            length = min(step, size - at)
            yield Piece(file, name, group, kind, at, length, size, mtime, dev, ino, sparse)


def step_of(name: str, size: int, sparse: bool) -> int:
    """Return how long the pieces of a file are: a safetensors file is one."""
    if name.endswith(".safetensors") and size <= MOST_BYTES:
        return max(size, 1)
    if sparse:
        return max(SEGMENT, -(-size // _MOST_PIECES // SEGMENT) * SEGMENT)
    return SEGMENT
