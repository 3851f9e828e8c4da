"""Tables whose columns are underlined by a row of dashes, as nvme-cli prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_RULE = re.compile(r"-{2,}(?: +-{2,})+\s*")


def tables(printed: list[str]) -> Iterator[tuple[list[tuple[str, int]], list[str]]]:
    """Yield (columns, lines below) of every table; a column is its title and where it begins.

    A table ends at an empty line; the lines are as printed, without those that are empty.
    """
    for at, line in enumerate(printed):
        if at and _RULE.fullmatch(line):
            starts = [match.start() for match in re.finditer(r"-+", line)]
            ends = [*starts[1:], None]
            heading = printed[at - 1]
            columns = [(heading[a:b].strip(), a) for a, b in zip(starts, ends, strict=True)]
            below = []
            for row in printed[at + 1 :]:
                if not row.strip():
                    break
                below.append(row)
            yield columns, below


def cells(columns: list[tuple[str, int]], line: str) -> dict[str, str] | None:
    """Return the cells of `line` by their column's title, cut where the columns begin.

    None where something stands across a border: its columns are shifted, so nothing is known.
    """
    starts = [start for _, start in columns]
    if any(
        start and not line[start - 1 : start].isspace() for start in starts if start < len(line)
    ):
        return None
    ends = [*starts[1:], len(line)]
    return {
        title: line[start:end].strip() for (title, start), end in zip(columns, ends, strict=True)
    }
