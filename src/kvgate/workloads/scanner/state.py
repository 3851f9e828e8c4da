"""What a scan has found so far, in one SQLite file: killed at any moment, it goes on from there."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from kvgate.workloads.scanner.errors import ScanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FORMAT = 1
_BLOB = 256 * 1024 * 1024
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS files (
  id INTEGER PRIMARY KEY, path BLOB, root INTEGER, kind INTEGER, size INTEGER, used INTEGER,
  mtime INTEGER, dev INTEGER, ino INTEGER, done INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS links (dev INTEGER, ino INTEGER, PRIMARY KEY (dev, ino));
CREATE TABLE IF NOT EXISTS groups (
  id INTEGER PRIMARY KEY, root INTEGER, folder BLOB, kind INTEGER);
CREATE TABLE IF NOT EXISTS done (file INTEGER, at INTEGER, PRIMARY KEY (file, at));
CREATE TABLE IF NOT EXISTS parts (file INTEGER, at INTEGER, digest TEXT);
CREATE TABLE IF NOT EXISTS tensors (
  file INTEGER, digest TEXT, name TEXT, dtype TEXT, bytes INTEGER);
CREATE TABLE IF NOT EXISTS problems (path TEXT, what TEXT);
CREATE TABLE IF NOT EXISTS blobs (name TEXT, part INTEGER, data BLOB, PRIMARY KEY (name, part));
"""


class State:
    """The file `path`, or one that only this process has where `path` is empty.

    Raises ScanError where it is no state of ours, of another format, or can't be written.
    """

    def __init__(self, path: str) -> None:
        self.kept = bool(path)
        self._path = path
        try:
            self.db = sqlite3.connect(path, isolation_level=None)  # "": a temporary file
            self.db.execute("PRAGMA temp_store = FILE")
            self.db.execute(f"PRAGMA synchronous = {'FULL' if path else 'OFF'}")
            self.db.execute("BEGIN IMMEDIATE")
            for each in _TABLES.split(";"):
                self.db.execute(each)
            self.db.execute("COMMIT")
            found = self.meta("format")
        except sqlite3.Error as err:
            raise ScanError(
                f"{path}: {err}", "name a new file, or the state of a scan that nobody runs now"
            ) from err
        if found is None:
            self.set("format", FORMAT)
        elif found != FORMAT:
            raise ScanError(f"{path}: of format {found}; this kvgate knows {FORMAT}")

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    def meta(self, name: str) -> Any:
        """Return a value that was set, or None."""
        row = self.db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def set(self, name: str, value: Any) -> None:
        """Set a value (JSON)."""
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))

    def same(self, asked: Any) -> None:
        """Note what is asked; raises ScanError where the state is of something else."""
        before = self.meta("asked")
        asked = json.loads(json.dumps(asked))  # as it comes back
        if before is None:
            self.set("asked", asked)
        elif before != asked:
            differs = sorted(name for name in asked if before.get(name) != asked[name])
            raise ScanError(
                f"{self._path}: is the state of another scan ({', '.join(differs)} differ)",
                "name a new file with --state, or ask for the same",
            )

    def clear_listing(self) -> None:
        """Forget a listing that was not finished."""
        for table in ("files", "links", "groups", "problems"):
            self.db.execute(f"DELETE FROM {table}")  # noqa: S608  names of ours

    def rows(self, query: str, *values: Any) -> Iterator[Any]:
        """Yield the rows of a query."""
        yield from self.db.execute(query, values)

    def put(self, table: str, rows: Iterable[Any]) -> None:
        """Add rows to a table of ours."""
        listed = list(rows)
        if listed:
            marks = ", ".join("?" * len(listed[0]))
            self.db.executemany(
                f"INSERT OR IGNORE INTO {table} VALUES ({marks})",  # noqa: S608  names of ours
                listed,
            )

    def put_blob(self, name: str, data: bytes) -> None:
        """Keep bytes under a name, in parts that SQLite takes."""
        self.db.execute("DELETE FROM blobs WHERE name = ?", (name,))
        for part, at in enumerate(range(0, len(data), _BLOB)):
            self.put("blobs", [(name, part, memoryview(data)[at : at + _BLOB])])

    def blob(self, name: str) -> bytes:
        """Return bytes that were kept; empty where there are none."""
        query = "SELECT data FROM blobs WHERE name = ? ORDER BY part"
        return b"".join(row[0] for row in self.rows(query, name))
