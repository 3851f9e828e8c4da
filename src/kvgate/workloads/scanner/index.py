"""Which blocks there are and how often: exact up to a limit, beyond it a sketch by hash prefix.

A key is the upper 52 bits of a digest with the folder's number (12 bits) below. Beyond the limit
only keys below a threshold are kept, which halves until they fit. What is kept is counted exactly,
so the threshold, and with it every figure, depends on the content alone: not on the order, on the
number of workers, or on a restart.
"""

from __future__ import annotations

from array import array
from typing import Any

from kvgate.workloads.scanner.hashing import np

GROUP_BITS = 12
GROUPS = 1 << GROUP_BITS
GROUP_MASK = GROUPS - 1
EVERYTHING = 1 << 64
COLUMNS = ("keys", "counts", "sizes")
"""What is packed of an index as bytes."""

ENTRY_BYTES = 64
"""Memory a kept key may cost, with what merging needs meanwhile (20 bytes are stored)."""

_PENDING = 1 << 18


class Index:
    """The distinct keys of one block size, with how often each came and its bytes.

    `limit` is how many keys may be kept. ``below`` is the threshold: keys under it are counted.
    """

    def __init__(self, limit: int, below: int = EVERYTHING) -> None:
        self.limit = limit
        self.below = below
        self._rows: Any = _Sorted() if np is not None else _Mapped()

    def add(self, keys: Any, sizes: Any, counts: Any = 1) -> None:
        """Count `keys`: blocks of `sizes` bytes, each `counts` times; numbers or one a key."""
        self._rows.add(keys, sizes, counts, self.below)
        if self._rows.waiting >= _PENDING:
            self.settle()

    def settle(self) -> None:
        """Merge what is waiting, and lower the threshold until the limit is kept."""
        self._rows.merge()
        while self._rows.kept > self.limit and self.below > 1 << (GROUP_BITS + 1):
            self.below //= 2
            self._rows.drop(self.below)

    def rows(self) -> tuple[Any, Any, Any]:
        """Return keys ascending, counts and sizes, merged."""
        self.settle()
        return self._rows.columns()  # type: ignore[no-any-return]  # NumPy or array

    def packed(self) -> dict[str, Any]:
        """Return everything as bytes, for a file or another process."""
        keys, counts, sizes = self.rows()
        return {
            "below": self.below,
            "keys": keys.tobytes(),
            "counts": counts.tobytes(),
            "sizes": sizes.tobytes(),
        }

    def merge(self, packed: dict[str, Any]) -> None:
        """Add what another index holds."""
        if packed["below"] < self.below:
            self.below = packed["below"]
            self._rows.merge()
            self._rows.drop(self.below)
        if packed["keys"]:
            keys, counts, sizes = (
                _column(packed["keys"], "Q"),
                _column(packed["counts"], "Q"),
                _column(packed["sizes"], "I"),
            )
            self.add(keys, sizes, counts)


def _column(data: bytes, code: str) -> Any:
    if np is not None:
        return np.frombuffer(data, dtype={"Q": np.uint64, "I": np.uint32}[code])
    column = array(code)
    column.frombytes(data)
    return column


class _Sorted:
    """Rows in sorted NumPy arrays; what comes waits until there is enough to merge."""

    def __init__(self) -> None:
        self._merged = (_column(b"", "Q"), _column(b"", "Q"), _column(b"", "I"))
        self._waiting: list[tuple[Any, Any, Any]] = []
        self.waiting = 0

    @property
    def kept(self) -> int:
        return len(self._merged[0])

    def add(self, keys: Any, sizes: Any, counts: Any, below: int) -> None:
        size = np.broadcast_to(np.asarray(sizes, dtype=np.uint32), keys.shape)
        count = np.broadcast_to(np.asarray(counts, dtype=np.uint64), keys.shape)
        if below < EVERYTHING:
            kept = keys < np.uint64(below)
            keys, size, count = keys[kept], size[kept], count[kept]
        self._waiting.append((keys, count, size))
        self.waiting += len(keys)

    def merge(self) -> None:
        if not self.waiting:
            self._waiting.clear()
            return
        fresh = _reduced([np.concatenate(part) for part in zip(*self._waiting)], None)  # noqa: B905  Python 3.8
        self._waiting.clear()
        self.waiting = 0
        if self.kept:
            both = [np.concatenate(part) for part in zip(self._merged, fresh)]  # noqa: B905
            fresh = _reduced(both, "stable")  # two sorted runs: a merge
        self._merged = fresh

    def drop(self, below: int) -> None:
        end = int(np.searchsorted(self._merged[0], np.uint64(below)))
        keys, counts, sizes = (part[:end].copy() for part in self._merged)
        self._merged = (keys, counts, sizes)

    def columns(self) -> tuple[Any, Any, Any]:
        return self._merged


def _reduced(rows: list[Any], kind: Any) -> tuple[Any, Any, Any]:
    """Return the rows sorted by key, those of one key as one."""
    keys, counts, sizes = rows
    order = np.argsort(keys, kind=kind)
    keys = keys[order]
    first = np.empty(len(keys), dtype=bool)
    first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    return keys[starts], np.add.reduceat(counts[order], starts), sizes[order][starts]


class _Mapped:
    """The same in a dictionary, for hosts without NumPy."""

    def __init__(self) -> None:
        self._rows: dict[int, list[int]] = {}
        self.waiting = 0

    @property
    def kept(self) -> int:
        return len(self._rows)

    def add(self, keys: Any, sizes: Any, counts: Any, below: int) -> None:
        for at, key in enumerate(keys):
            if key >= below:
                continue
            count = counts if isinstance(counts, int) else counts[at]
            row = self._rows.get(key)
            if row is not None:
                row[0] += count
            else:
                self._rows[key] = [count, sizes if isinstance(sizes, int) else sizes[at]]
                self.waiting += 1

    def merge(self) -> None:
        self.waiting = 0

    def drop(self, below: int) -> None:
        self._rows = {key: row for key, row in self._rows.items() if key < below}

    def columns(self) -> tuple[Any, Any, Any]:
        keys = array("Q", sorted(self._rows))
        counts = array("Q", (self._rows[key][0] for key in keys))
        return keys, counts, array("I", (self._rows[key][1] for key in keys))
