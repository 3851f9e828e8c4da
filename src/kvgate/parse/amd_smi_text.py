"""amd-smi's text, CSV and tables → the trees that its JSON would be: keys in lower case."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from kvgate.parse.text import refuse, shown

TOOL = "amd-smi"
_PAIR = re.compile(r"( *)([A-Za-z][A-Za-z0-9_ .%/-]{0,60}?):(?: +(\S.*?)| *)")
_CUT = re.compile(r"\s*(?:\.\.\.|\[output truncated\]|-+ ?snipped ?-+|```)\s*")
_TITLE = re.compile(r"([A-Z][A-Z_ ]{2,40}):")
_UNIT = r"(?: (?:W|°C|C|%|MHz|[KMGTP]?B|[MG]b/s|GT/s|ns|mV)(?=\s|$))?"
_CELL = re.compile(rf"\S+/ ?\S+ GB|\S+{_UNIT}")
_CSV_CELL = re.compile(r'(?:\[[^\]]*\]|"[^"]*"|[^,])*')

_READ = frozenset({"", "process_info", "current_partition"})

Tree = dict[str, Any]


class Printed(NamedTuple):
    """What a form of amd-smi printed; ``cut``: somebody left something out, and says so."""

    gpus: list[Tree]
    processes: list[Tree]
    cut: bool


def without_cuts(printed: list[str]) -> tuple[list[str], bool]:
    """Return the lines that amd-smi printed, and whether marks say that some were left out."""
    kept = [line.rstrip() for line in printed if line.strip() and not _CUT.fullmatch(line)]
    return kept, any(_CUT.fullmatch(line) for line in printed)


def outline(printed: list[str]) -> list[Tree]:
    """Return the trees of ``KEY: value`` lines, one for every ``GPU: n``, nested by indent.

    Lines without a GPU above them are one tree without a GPU. Raises ParseError for a line of
    another shape.
    """
    trees: list[Tree] = []
    open_at: list[tuple[int, Tree]] = []
    for line in _joined(printed):
        match = _PAIR.fullmatch(line)
        if not match:
            refuse(TOOL, f"{shown(line)} is not KEY: value")
        indent, key, value = len(match[1]), match[2].strip().lower(), match[3]
        if (key == "gpu" and not indent) or not trees:
            trees.append({})
            open_at = [(-1, trees[-1])]
        while open_at[-1][0] >= indent:
            open_at.pop()
        below = open_at[-1][1]
        if value is None:
            branch: Tree = {}
            _put(below, key, branch)
            open_at.append((indent, branch))
        else:
            _put(below, key, value)
    return trees


def _joined(printed: list[str]) -> Iterator[str]:
    """Yield the lines; a list in brackets that amd-smi wrapped is one line again."""
    held = ""
    for line in printed:
        held = f"{held} {line.strip()}" if held else line
        if held.count("[") > held.count("]"):
            continue
        yield held
        held = ""
    if held:
        refuse(TOOL, f"the list {shown(held.strip())} does not end")


def _put(below: Tree, key: str, value: object) -> None:
    """Set `key`; a key that comes again (PAGE_ADDRESS of every bad page) makes a list."""
    if key not in below:
        below[key] = value
    elif key == "gpu" or (not key.startswith("page_") and key != "status"):
        refuse(TOOL, f"{key} stands twice for one GPU")
    elif isinstance(below[key], list):
        below[key].append(value)
    else:
        below[key] = [below[key], value]


def rows_of_csv(printed: list[str]) -> list[Tree]:
    """Return the rows below the heading; a list in brackets is one cell, quoted or not."""
    heading, *rest = [_csv_cells(line) for line in printed]
    names = [name.lower() for name in heading]
    if len(set(names)) != len(names):
        names = [name if names.count(name) == 1 else f"{name}#{i}" for i, name in enumerate(names)]
    return [_row(names, cells) for cells in rest]


def _csv_cells(line: str) -> list[str]:
    cells, at = [], 0
    while at <= len(line):
        match = _CSV_CELL.match(line, at)
        held = match[0] if match else ""
        cells.append(held.strip().strip('"'))
        at += len(held) + 1
    return cells


def tables(printed: list[str]) -> dict[str, list[Tree]]:
    """Return the rows of the tables of _READ by title in lower case ("" where there is none)."""
    found: dict[str, list[Tree]] = {}
    title, heading = "", list[str]()
    for line in printed:
        match = _TITLE.fullmatch(line.strip())
        if match:
            title, heading = match[1].lower().replace(" ", "_"), []
        elif title not in _READ:
            continue
        elif not heading:
            heading = line.lower().split()
            if title in found or "gpu" not in heading[0]:
                refuse(TOOL, f"{shown(line)} is no heading of a table")
            found[title] = []
        else:
            found[title].append(_row(heading, _CELL.findall(line)))
    return found


def _row(names: list[str], cells: list[str]) -> Tree:
    if len(cells) != len(names):
        refuse(TOOL, f"a row has {len(cells)} cells below {len(names)} headings: {shown(cells)}")
    return dict(zip(names, cells, strict=True))
