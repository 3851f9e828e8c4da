"""The verb `bom` and its own verbs: import, draft, diff, check."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]


def add_bom(parser: argparse.ArgumentParser, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add the verbs of `bom` to its `parser`; `add` makes one, `verb` names what it calls."""
    verbs = parser.add_subparsers(
        title="verbs", metavar="VERB", required=True, parser_class=type(parser)
    )
    _import(add, verbs).set_defaults(verb=verb("bom", "import_verb"))
    drafted = add(
        verbs,
        "draft",
        "make a bill of materials from what the hosts report, to be corrected by hand",
        "kvgate bom draft --inventory inventory/site-a.yaml --out inventory/bom-site-a.yaml",
    )
    drafted.add_argument(
        "--inventory", metavar="FILE", help="the hosts (default: the one drafted for this machine)"
    )
    _out(drafted)
    drafted.set_defaults(verb=verb("bom", "draft_verb"))
    differ = add(
        verbs,
        "diff",
        "name what was added, removed, moved or replaced (0: nothing, 1: something)",
        "kvgate bom diff inventory/bom-2026-11.yaml RUN",
    )
    differ.add_argument("before", metavar="BEFORE", help="a file, or a run that asked for parts")
    differ.add_argument("after", metavar="AFTER", help="a file, or a run that asked for parts")
    differ.set_defaults(verb=verb("bom", "diff_verb"))
    check = add(
        verbs,
        "check",
        "validate a bill of materials (1: refused)",
        "kvgate bom check inventory/bom-site-a.yaml --inventory inventory/site-a.yaml",
    )
    check.add_argument("file", metavar="FILE")
    check.add_argument("--inventory", metavar="FILE", help="whose hosts it names")
    check.set_defaults(verb=verb("bom", "check_verb"))


def _import(add: Add, verbs: Any) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "import",
        "make a bill of materials from a supplier's CSV or XLSX",
        "kvgate bom import list.xlsx --sheet Packing --map part_number=Artikel "
        "--map serials='S/N' --kind drive --out inventory/bom-site-a.yaml",
    )
    parser.add_argument("file", metavar="FILE", help="CSV (UTF-8, UTF-16 with mark, GB18030), XLSX")
    parser.add_argument(
        "--map",
        metavar="FIELD=COLUMN",
        action="append",
        default=[],
        help="position, part_number, description, kind, model, quantity, serials, host, slot or "
        "port stands in this column; usual headings are known",
    )
    parser.add_argument(
        "--kind",
        metavar="[WORD=]KIND",
        action="append",
        default=[],
        help="what a word of the kind column means, or what every line is",
    )
    parser.add_argument(
        "--ignore", metavar="COLUMN", action="append", default=[], help="leave a column out"
    )
    parser.add_argument("--sheet", metavar="NAME", help="the sheet of an XLSX with several")
    _out(parser)
    return parser


def _out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", metavar="NAME", help="its name (default: that of the file)")
    parser.add_argument(
        "--out", "-o", metavar="FILE", help="where to write it, never over a file (default: print)"
    )
