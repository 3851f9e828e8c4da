"""What all units together found, and its way into a state file and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.hashing import ALGORITHM
from kvgate.workloads.scanner.index import COLUMNS, Index
from kvgate.workloads.scanner.kinds import shown

if TYPE_CHECKING:
    from kvgate.workloads.scanner.course import Settings
    from kvgate.workloads.scanner.reading import Piece
    from kvgate.workloads.scanner.state import State

COUNTS = ("bytes", "hole_bytes", "left_out", "through_cache")
LEVEL_COUNTS = ("blocks", "zero_blocks", "zero_bytes")


class Totals:
    """The sum of units. Addition of whole numbers and merging of keys: any order gives the same."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.counts = dict.fromkeys(COUNTS, 0)
        self.groups: dict[int, int] = {}
        self.samples: dict[str, list[int]] = {}
        self.indexes = {size: Index(settings.limit) for size in settings.levels()}
        self.levels = {size: dict.fromkeys(LEVEL_COUNTS, 0) for size in settings.levels()}
        self._rows: dict[str, list[Any]] = {"parts": [], "tensors": [], "problems": []}
        self._done: list[tuple[int, int, int]] = []

    def merge(self, pieces: list[Piece], packed: dict[str, Any]) -> None:
        """Add what a unit found in `pieces`; raises ScanError for another hash than ours."""
        if packed["hash"] != ALGORITHM:
            raise ScanError(
                f"a worker hashes with {packed['hash']}, this process with {ALGORITHM}",
                "install kvgate[scan] at both, or at none",
            )
        for size, level in packed["levels"].items():
            self.indexes[size].merge(level)
            for name in LEVEL_COUNTS:
                self.levels[size][name] += level[name]
        for name in COUNTS:
            self.counts[name] += packed[name]
        for group, count in packed["groups"].items():
            self.groups[group] = self.groups.get(group, 0) + count
        for codec, sums in packed["samples"].items():
            before = self.samples.get(codec, [0] * len(sums))
            self.samples[codec] = [a + b for a, b in zip(before, sums)]  # noqa: B905
        for table, rows in self._rows.items():
            rows += packed[table]
        self._finished(pieces)

    def leave_out(self, pieces: list[Piece], why: str) -> None:
        """Note pieces that nobody could scan."""
        for piece in pieces:
            self.counts["left_out"] += piece.length
            what = f"{why}; {piece.length} bytes left out"
            self._rows["problems"].append((shown(os.fsencode(piece.path)), what))
        self._finished(pieces)

    def _finished(self, pieces: list[Piece]) -> None:
        for each in pieces:
            whole = each.length == each.size
            self._done.append((each.file, each.offset, whole))

    def below(self) -> dict[int, int]:
        """Return the threshold of each block size, for workers to leave out what is above."""
        return {size: index.below for size, index in self.indexes.items()}

    def _save_rows(self, state: State) -> None:
        """Write rows that came since the last time."""
        for table, rows in self._rows.items():
            state.put(table, rows)
            rows.clear()
        state.put("done", ((file, at) for file, at, whole in self._done if not whole))
        state.db.executemany(
            "UPDATE files SET done = 1 WHERE id = ?",
            [(file,) for file, _, whole in self._done if whole],
        )
        self._done.clear()

    def save(self, state: State) -> None:
        """Write everything, in one transaction: what counts is the last that was finished."""
        state.db.execute("BEGIN IMMEDIATE")
        self._save_rows(state)
        if state.kept:
            for size, index in self.indexes.items():
                packed = index.packed()
                for name in COLUMNS:
                    state.put_blob(f"{size} {name}", packed[name])
            state.set("totals", self._plain())
        state.db.execute("COMMIT")

    def _plain(self) -> dict[str, Any]:
        return {
            "counts": self.counts,
            "groups": list(self.groups.items()),
            "samples": self.samples,
            "levels": list(self.levels.items()),
            "below": list(self.below().items()),
        }

    def load(self, state: State) -> None:
        """Take up what `save` wrote."""
        plain = state.meta("totals")
        if plain is None:
            return
        self.counts = plain["counts"]
        self.groups = dict(plain["groups"])
        self.samples = plain["samples"]
        self.levels = dict(plain["levels"])
        for size, below in plain["below"]:
            blobs = {name: state.blob(f"{size} {name}") for name in COLUMNS}
            self.indexes[size].merge({"below": below, **blobs})
