"""Looks at what openpyxl's quick reader leaves out of a sheet: hidden rows and merged cells."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

from kvgate.errors import SpecError

MOST_MERGED = 500_000
"""Cells that may lie in merged ones: no packing list has more."""

_HIDDEN = re.compile(rb"<(?:\w+:)?row\s[^>]*hidden=[\"'](?:1|true)[\"']")
_MERGED = re.compile(
    rb"<(?:\w+:)?mergeCell\s[^>]*ref=[\"']([A-Z]{1,3})([0-9]{1,7}):([A-Z]{1,3})([0-9]{1,7})[\"']"
)


def look(content: bytes, sheet: Any, where: str) -> tuple[int, frozenset[tuple[int, int]]]:
    """Return how many rows of `sheet` are hidden, and which cells go on a merged one from above.

    `content` is the XLSX, `sheet` one of openpyxl's read-only sheets of it. A cell is (row from 1,
    column from 0). Raises SpecError for more merged cells than a packing list has.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        text = archive.read(str(sheet._worksheet_path).lstrip("/"))
    covered: set[tuple[int, int]] = set()
    for left, top, right, bottom in _MERGED.findall(text):
        columns = range(_index(left), _index(right) + 1)
        rows = range(int(top) + 1, int(bottom) + 1)
        if len(covered) + len(columns) * len(rows) > MOST_MERGED:
            raise SpecError(f"{where}: has more merged cells than a packing list has")
        covered.update((row, at) for row in rows for at in columns)
    return len(_HIDDEN.findall(text)), frozenset(covered)


def _index(letters: bytes) -> int:
    """Return the index of a column by its letters (A: 0, AA: 26)."""
    found = 0
    for letter in letters:
        found = found * 26 + letter - ord("A") + 1
    return found - 1
