"""Reads a supplier's table, CSV or XLSX, into cells that know where they stand.

Nothing is evaluated: a formula is refused where its value would be needed, and a text that looks
like one (``=cmd|…``) is a text.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, Literal

from kvgate.errors import SpecError, UsageError
from kvgate.spec.importing import bom_sheet

MOST_BYTES = 64 * 2**20
"""What a file, and what an XLSX unpacked, may have: no packing list is larger."""

MOST_ROWS = 100_000
MOST_COLUMNS = 200
MOST_TEXT = 32_767  # what a cell of Excel holds
_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_BETWEEN = (",", ";", "\t")


Stored = Literal["text", "number", "scientific", "formula", "date", "truth", "error", "merged"]
_STORED: dict[str, Stored] = {
    "n": "number",
    "f": "formula",
    "d": "date",
    "b": "truth",
    "e": "error",
}
"""openpyxl's types of cells; all others are texts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, and as what Excel stores it (everything in CSV is text).

    ``where`` is what errors call it: ``sheet 'List', row 5, column C``. ``scientific`` is a number
    that Excel was told to show so; ``merged`` is part of a merged cell that begins in a row above.
    """

    text: str
    where: str
    stored: Stored = "text"

    def error(self, what: str, *, hint: str = "") -> SpecError:
        """Return the error for this cell."""
        return SpecError(f"{self.where}: {what}", hint=hint)


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """The rows of one sheet that are not empty, and remarks on how it was read."""

    rows: tuple[tuple[Cell, ...], ...]
    remarks: tuple[str, ...]


def read(content: bytes, name: str, sheet: str | None = None) -> Table:
    """Return the table in `content`; errors call the file `name`.

    Raises SpecError for what can't be read with certainty, UsageError for a `sheet` that is not
    there or needs naming, and where openpyxl is missing for an XLSX.
    """
    if len(content) > MOST_BYTES:
        raise SpecError(f"{name}: {len(content)} bytes are more than a packing list has")
    if content.startswith(_ZIP):
        return _xlsx(content, name, sheet)
    if content.startswith(_OLE):
        raise SpecError(f"{name}: is an old Excel file (.xls)", hint="save it as .xlsx or CSV")
    if sheet is not None:
        raise UsageError(f"{name}: is CSV and has no sheets; leave out --sheet")
    text, how = decoded(content, name)
    return Table(tuple(_csv(text, name)), (f"read as {how}",))


def column(index: int) -> str:
    """Return the letter of the column at `index` (0: A, 26: AA), as Excel counts them."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


# CSV


def decoded(content: bytes, name: str) -> tuple[str, str]:
    """Return the text and the encoding it was read in; raises SpecError where that is not sure.

    1. A byte order mark decides. 2. UTF-8, strictly. 3. GB18030, strictly, unless some lines are
    UTF-8: then the file is of two encodings, and which cell is which can't be known.
    """
    for mark, codec, shown in (
        (b"\xef\xbb\xbf", "utf-8", "UTF-8 with a byte order mark"),
        (b"\xff\xfe", "utf-16", "UTF-16"),
        (b"\xfe\xff", "utf-16", "UTF-16"),
    ):
        if content.startswith(mark):  # 1
            return _strictly(content, codec, shown, name), shown
    try:
        return content.decode("utf-8"), "UTF-8"  # 2
    except UnicodeDecodeError:
        _refuse_mixed(content, name)  # 3
        return _strictly(content, "gb18030", "GB18030", name), "GB18030"


def _strictly(content: bytes, codec: str, shown: str, name: str) -> str:
    try:
        text = content.decode(codec)
    except UnicodeDecodeError as err:
        row = content[: err.start].count(b"\n") + 1
        raise SpecError(
            f"{name}: row {row}: is neither UTF-8 nor {shown}"
            if codec == "gb18030"
            else f"{name}: row {row}: has the mark of {shown} and is not",
            hint="save it as UTF-8",
        ) from err
    text = text.removeprefix("\ufeff")
    odd = next((c for c in text if 0xE000 <= ord(c) <= 0xF8FF or c == "\ufffd"), None)
    if odd is not None:
        row = text[: text.index(odd)].count("\n") + 1
        raise SpecError(
            f"{name}: row {row}: holds U+{ord(odd):04X}, which is no character: it was read or "
            f"saved in a wrong encoding (tried: {shown})",
            hint="save it as UTF-8",
        )
    return text


def _refuse_mixed(content: bytes, name: str) -> None:
    """Raise SpecError where some rows are UTF-8 and others are not."""
    good, bad = [], []
    for row, line in enumerate(content.split(b"\n"), 1):
        if line.isascii():
            continue
        try:
            wide = any(len(c.encode()) > 2 for c in line.decode("utf-8") if ord(c) > 127)
        except UnicodeDecodeError:
            bad.append((row, line))
        else:
            good += [row] if wide else []  # two bytes may be a character of GB18030 by chance
    if good and bad:
        row, line = bad[0]
        at = next(i for i, cell in enumerate(_split(line)) if not _utf8(cell))
        raise SpecError(
            f"{name}: row {row}, column {column(at)}: is not UTF-8, and row {good[0]} is: the "
            "file is of two encodings",
            hint="open it where it was made, and save it as UTF-8",
        )


def _split(line: bytes) -> list[bytes]:
    between = max(_BETWEEN, key=lambda each: line.count(each.encode()))
    return line.split(between.encode())


def _utf8(cell: bytes) -> bool:
    try:
        cell.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _csv(text: str, name: str) -> Iterator[tuple[Cell, ...]]:
    first = next((line for line in text.splitlines() if line.strip()), "")
    between = max(_BETWEEN, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=between, strict=True)
    row = 1
    try:
        for cells in reader:
            if len(cells) > MOST_COLUMNS or row > MOST_ROWS:
                raise SpecError(f"{name}: row {row}: is more than a packing list has")
            if any(cell.strip() for cell in cells):
                yield tuple(
                    Cell(cell, f"{name}: row {row}, column {column(at)}")
                    for at, cell in enumerate(cells)
                )
            row = reader.line_num + 1
    except csv.Error as err:
        raise SpecError(f"{name}: row {max(row, reader.line_num)}: is no sound CSV: {err}") from err


# XLSX


def _xlsx(content: bytes, name: str, sheet: str | None) -> Table:
    try:
        import openpyxl
    except ImportError as err:
        raise UsageError(
            f"{name}: reading XLSX needs the package openpyxl, which is not installed",
            hint="pip install 'kvgate[xlsx]', or save the sheet as CSV (UTF-8)",
        ) from err
    _refuse_bomb(content, name)
    try:
        book = openpyxl.load_workbook(
            io.BytesIO(content), read_only=True, data_only=False, keep_links=False
        )
        titles = [str(each.title) for each in book.worksheets]
        title = _sheet(titles, name, sheet)
        where = f"{name}: sheet '{title}'"
        hidden, merged = bom_sheet.look(content, book[title], where)
        rows = tuple(_rows(book[title], where, merged))
    except (SpecError, UsageError):
        raise
    except Exception as err:  # a reader of zipped XML has many ways to find a file unsound
        raise SpecError(
            f"{name}: is no sound XLSX: {type(err).__name__}: {err}"[:300],
            hint="open and save it in Excel or LibreOffice, or export CSV",
        ) from err
    remarks = (f"{where}: hidden rows, which are read as the others: {hidden}",) if hidden else ()
    return Table(rows, (f"read sheet '{title}'", *remarks))


def _refuse_bomb(content: bytes, name: str) -> None:
    """Raise SpecError for an archive that would unpack to more than a packing list has."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            total = 0
            for entry in archive.infolist():
                total += entry.file_size
                with archive.open(entry) as unpacked:  # what it says of its size may be a lie
                    if total > MOST_BYTES or len(unpacked.read(entry.file_size + 1)) > (
                        entry.file_size
                    ):
                        raise SpecError(f"{name}: unpacks to more than {MOST_BYTES} bytes")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as err:
        raise SpecError(f"{name}: is no sound XLSX: {err}") from err


def _sheet(titles: Sequence[str], name: str, sheet: str | None) -> str:
    shown = ", ".join(f"'{title}'" for title in titles)
    if sheet is None:
        if len(titles) == 1:
            return titles[0]
        raise UsageError(f"{name}: has {len(titles)} sheets ({shown})", hint="choose: --sheet NAME")
    if sheet not in titles:
        raise UsageError(f"{name}: has no sheet '{sheet}' (it has {shown})")
    return sheet


def _rows(sheet: Any, where: str, merged: Set[tuple[int, int]]) -> Iterator[tuple[Cell, ...]]:
    for number, row in enumerate(sheet.iter_rows(max_col=MOST_COLUMNS), 1):
        if number > MOST_ROWS:
            raise SpecError(f"{where}, row {number}: is more than a packing list has")
        below = {at for at in range(MOST_COLUMNS) if (number, at) in merged} if merged else set()
        cells = tuple(_cells(row, f"{where}, row {number}", below))
        if any(cell.text.strip() for cell in cells):
            yield cells


def _cells(row: Iterable[Any], where: str, merged: Set[int]) -> Iterator[Cell]:
    for at, cell in enumerate(row):
        kind, value = getattr(cell, "data_type", "n"), cell.value
        place = f"{where}, column {column(at)}"
        text = "" if value is None else str(value)
        if len(text) > MOST_TEXT:
            raise SpecError(f"{place}: holds more text than a cell can")
        stored = _STORED.get(kind, "text") if text else "merged" if at in merged else "text"
        if stored == "number" and "E+" in str(getattr(cell, "number_format", "")).upper():
            stored = "scientific"
        yield Cell(text, place, stored)
