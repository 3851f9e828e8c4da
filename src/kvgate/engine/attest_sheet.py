"""Manual checks as a sheet to be filled in elsewhere: written blank as CSV or XLSX, read back."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvgate.engine.attest import Told
from kvgate.errors import SpecError, UsageError
from kvgate.model.attested import Question
from kvgate.spec.importing import bom_cells
from kvgate.spec.importing.bom_cells import Cell
from kvgate.spec.load import nearest

COLUMNS = ("check", "where", "question", "answer", "note", "photos", "by")
"""The heading; photos are paths beside the sheet, with semicolons between."""

_WORDS = {
    True: ("yes", "y", "ok", "是", "合格"),
    False: ("no", "n", "not ok", "否", "不合格"),
}
_FORMULA = ("=", "+", "-", "@", "\t")


def write(path: Path, asked: Sequence[Question]) -> None:
    """Write the blank sheet of `asked` to the new file `path`; raises UsageError."""
    rows = [COLUMNS, *((each.key, each.where, each.text, "", "", "", "") for each in asked)]
    content = _xlsx(rows) if path.suffix.lower() == ".xlsx" else _csv(rows)
    try:
        with path.open("xb") as file:
            file.write(content)
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}; nothing was written") from err


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([[_harmless(cell) for cell in row] for row in rows])
    return b"\xef\xbb\xbf" + text.getvalue().encode()  # so that Excel reads it as UTF-8


def _harmless(text: str) -> str:
    """Return `text` so that no program takes it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _xlsx(rows: Sequence[Sequence[str]]) -> bytes:
    try:
        import openpyxl
    except ImportError as err:
        raise UsageError(
            "openpyxl is not installed, which writes XLSX",
            hint="pip install 'kvgate[xlsx]', or write a sheet that ends in .csv",
        ) from err
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("checks")
    for column, width in zip("ABCDEFG", (24, 16, 70, 10, 40, 30, 20), strict=True):
        sheet.column_dimensions[column].width = width
    for row in rows:
        sheet.append([_harmless(cell) for cell in row])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def read(path: Path, asked: Sequence[Question], by: str) -> tuple[Told, ...]:
    """Return the answers of a filled sheet; rows without an answer are left open.

    `by` is who looked where a row doesn't say. Raises SpecError with the cell for what is not
    understood, UsageError where the file can't be read.
    """
    try:
        content = path.read_bytes()
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}") from err
    rows = bom_cells.read(content, path.name).rows
    heading = [_word(cell).lower() for cell in rows[0]] if rows else []
    missing = [name for name in ("check", "answer") if name not in heading]
    if missing:
        raise SpecError(
            f"{path.name}: has no column '{missing[0]}' in its first row",
            hint="begin with the sheet that `kvgate attest RUN --write-sheet FILE` writes",
        )
    return tuple(_told(heading, rows[1:], {each.key: each for each in asked}, path.parent, by))


def _told(
    heading: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    known: dict[str, Question],
    folder: Path,
    by: str,
) -> Iterator[Told]:
    seen: set[str] = set()
    for row in rows:
        if more := [cell for cell in row[len(heading) :] if cell.text.strip()]:
            raise more[0].error(
                f"'{more[0].text}' stands behind the last column: a comma in a note needs quotes"
            )
        cells = dict(zip(heading, row, strict=False))
        check = cells["check"]
        key = _word(check)
        texts = {name: cell.text.strip() for name, cell in cells.items()}
        if not texts.get("answer"):
            continue
        if key not in known:
            raise check.error(f"'{key}' is no check of this run{nearest(key, known)}")
        if key in seen:
            raise check.error(f"'{key}' is answered twice")
        seen.add(key)
        named = [part.strip() for part in texts.get("photos", "").split(";") if part.strip()]
        yield Told(
            question=known[key],
            ok=_answer(cells["answer"]),
            by=texts.get("by") or by,
            note=texts.get("note", ""),
            photos=tuple(_beside(folder, part, cells["photos"]) for part in named),
        )


def _word(cell: Cell) -> str:
    """Return what a cell says, full-width letters (of Chinese input) as the usual ones."""
    return unicodedata.normalize("NFKC", cell.text).strip()


def _beside(folder: Path, name: str, cell: Cell) -> Path:
    """Return a photo's path; a sheet filled in by others names none but what lies beside it."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise cell.error(f"'{name}' does not lie beside the sheet: photos are given with it")
    return path


def _answer(cell: Cell) -> bool:
    word = _word(cell).lower()
    for ok, words in _WORDS.items():
        if word in words:
            return ok
    raise cell.error(f"'{cell.text}' is neither yes nor no")
