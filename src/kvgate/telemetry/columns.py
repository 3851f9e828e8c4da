"""The columnar files: Parquet, written and read by row groups; the only user of pyarrow."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store import disk
from kvgate.telemetry.pyramid import Ints
from kvgate.telemetry.wire import MISSING

FORMAT = "kvgate-telemetry/1"
_KEY = b"kvgate"
_PIECE_BYTES = 2**20
WORDS = ("host", "group", "series", "spec")
NUMBERS = ("number", "every_ms", "width_ms", "first_ms")

_COMPRESSION, _LEVEL = "zstd", 3
"""With BYTE_STREAM_SPLIT 0.75 bytes a sample of a mixed host; DELTA_BINARY_PACKED takes 0.89, plain
1.03, dictionaries 1.03, and level 9 saves 1.5 % for twice the time (tests/benchmarks)."""


def absent() -> str:
    """Return why columnar files can't be made or read here; "" where they can."""
    try:
        arrow()
    except StoreError as err:
        return err.message
    return ""


def arrow() -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet; raises StoreError with the way to get them."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as err:
        raise StoreError(
            f"pyarrow, which columnar files of telemetry need, can't be imported: {err}",
            hint="pip install 'kvgate[telemetry]'",
        ) from err


class Sink(io.RawIOBase):
    """A file for pyarrow to write to that goes through the one door to the disk.

    Small pieces are put together. Once given up it takes what still comes and keeps none of it.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = disk.File(path, new=True)
        self._at = 0
        self._held = bytearray()
        self._given_up = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return how many bytes came."""
        return self._at

    def write(self, data: Any) -> int:
        """Add `data`, whole."""
        size = len(data)
        self._at += size
        if not self._given_up:
            self._held += data
            if len(self._held) >= _PIECE_BYTES:
                self._let_out()
        return size

    def _let_out(self) -> None:
        held, self._held = bytes(self._held), bytearray()
        try:
            self._file.write(held)
        except disk.WriteFailedError:
            self._given_up = True
            raise

    def finish(self) -> None:
        """Write what waits and close; `disk.publish` syncs the file."""
        self._let_out()
        self._file.close()

    def give_up(self) -> None:
        """Close the file; nothing more is written."""
        self._given_up = True
        self._file.close()


class Rows:
    """Rows for one row group: words and numbers of each, and lists of whole or real numbers."""

    def __init__(self, lists: Sequence[str]) -> None:
        self._fixed: dict[str, list[Any]] = {name: [] for name in (*WORDS, *NUMBERS)}
        self._lists: dict[str, list[Any]] = {name: [] for name in lists}

    def add(self, fixed: Mapping[str, object], lists: Mapping[str, Any]) -> None:
        """Add one row; MISSING in a list becomes null."""
        for name, column in self._fixed.items():
            column.append(fixed[name])
        for name, column in self._lists.items():
            column.append(lists[name])

    def __len__(self) -> int:
        return len(self._fixed["host"])

    def table(self) -> Any:
        """Return them as a pyarrow table."""
        pa, _ = arrow()
        columns = {name: pa.array(self._fixed[name], pa.string()) for name in WORDS}
        columns |= {name: pa.array(self._fixed[name], pa.int64()) for name in NUMBERS}
        for name, rows in self._lists.items():
            flat = np.concatenate(rows)
            ends = np.cumsum([0, *(len(row) for row in rows)])
            mask = flat == MISSING if flat.dtype == np.int64 else None
            values = pa.array(flat, mask=mask if mask is not None and mask.any() else None)
            columns[name] = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)
        return pa.table(columns)


class ColumnWriter:
    """Writes a file of row groups, each with a note of what it holds, for its index."""

    def __init__(self, path: Path, lists: Mapping[str, str]) -> None:
        pa, pq = arrow()
        self.path = path
        self._temporary = path.with_name(disk.TEMPORARY + path.name)
        disk.remove(self._temporary)
        self._index: list[dict[str, Any]] = []
        fields = [(name, pa.string()) for name in WORDS] + [(name, pa.int64()) for name in NUMBERS]
        kinds = {"int": pa.int64(), "real": pa.float64()}
        fields += [(name, pa.list_(kinds[kind])) for name, kind in lists.items()]
        self._sink = Sink(self._temporary)
        self._writer = pq.ParquetWriter(
            self._sink,
            pa.schema(fields),
            compression=_COMPRESSION,
            compression_level=_LEVEL,
            use_dictionary=[*WORDS, *NUMBERS],
            column_encoding={f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in lists},
            write_statistics=False,
        )

    def add(self, rows: Rows, note: Mapping[str, Any]) -> None:
        """Write `rows` as one row group that `note` describes."""
        self._writer.write_table(rows.table(), row_group_size=len(rows))
        self._index.append(dict(note))

    def publish(self) -> None:
        """Finish the file and give it its name."""
        told = json.dumps({"format": FORMAT, "row_groups": self._index}, separators=(",", ":"))
        self._writer.add_key_value_metadata({_KEY: told.encode()})
        self._writer.close()
        self._sink.finish()
        disk.publish(self._temporary, self.path)

    def abandon(self) -> None:
        """Remove what was written so far, as far as the disk lets one."""
        self._sink.give_up()
        with contextlib.suppress(disk.WriteFailedError):
            disk.remove(self._temporary)


class ColumnReader:
    """Reads a columnar file; raises DamagedRunError where it is none that this kvgate reads."""

    def __init__(self, path: Path) -> None:
        pa, pq = arrow()
        self.path = path
        self._errors = (OSError, ValueError, KeyError, TypeError, pa.ArrowException)
        try:
            self._file = pq.ParquetFile(path)
            told = json.loads(self._file.metadata.metadata[_KEY])
            self.row_groups: list[dict[str, Any]] = told["row_groups"]
            found = told["format"]
        except self._errors as err:
            raise DamagedRunError(f"{path}: can't be read as telemetry: {err}") from err
        if found != FORMAT or len(self.row_groups) != self._file.metadata.num_row_groups:
            raise DamagedRunError(f"{path}: is of format '{found}'; this kvgate reads {FORMAT}")

    def columns(self, number: int, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return words and numbers of row group `number` by column."""
        try:
            table = self._file.read_row_group(number, columns=list(names))
        except self._errors as err:
            raise DamagedRunError(f"{self.path}: row group {number}: {err}") from err
        return {name: table.column(name).to_pylist() for name in names}

    def lists(self, number: int, names: Sequence[str], rows: Sequence[int]) -> list[list[Ints]]:
        """Return for each of `rows` of row group `number` its lists `names`; null is MISSING."""
        try:
            table = self._file.read_row_group(number, columns=list(names))
            found = []
            for row in rows:
                cells = [table.column(name)[row].values for name in names]
                found.append([_numbers(cell) for cell in cells])
        except self._errors as err:
            raise DamagedRunError(f"{self.path}: row group {number}: {err}") from err
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _numbers(cell: Any) -> Any:
    if cell.null_count:
        cell = cell.fill_null(MISSING)
    return cell.to_numpy(zero_copy_only=False)
