"""Makes text from hosts harmless: visible instead of active, whatever the format it goes to.

What a host answers may hold terminal escapes, characters that reverse the direction of writing
(CVE-2021-42574), characters that are no XML, and markup. `harmless` turns every text of a
finished view into one in which all of that shows as what it is; the formats then escape markup.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, TypeVar

from markupsafe import Markup

LONGEST = 4000
"""Characters shown of one text; a longer one says how many more it has."""

T = TypeVar("T")

_PLAIN = re.compile(r"[\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff\u4e00-\u9fff]*")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_LOOKS_EMPTY = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def visible(text: str, *, longest: int = LONGEST) -> str:
    r"""Return `text` on one line with every control and invisible character shown, e.g. ``⟨1B⟩``.

    Covers C0 and C1 controls, bidirectional and other format characters, lone surrogates,
    private use and unassigned code points, and line separators.
    """
    more = len(text) - longest
    if more > 0:
        text = text[:longest]
    if not _PLAIN.fullmatch(text):
        text = "".join(_shown(character) for character in text)
    return f"{text}… ({more} more characters)" if more > 0 else text


def _shown(character: str) -> str:
    if unicodedata.category(character) in _HIDDEN or character in _LOOKS_EMPTY:
        return f"⟨{ord(character):02X}⟩"
    return character


def harmless(view: T) -> T:
    """Return `view` (dataclasses, tuples, texts) with every text made visible.

    `Markup` is left as it is: only `report.svg` makes it, from texts it treated itself.
    """
    treated: Any = view
    if isinstance(view, Markup):
        return view
    if isinstance(view, str):
        treated = visible(view) if type(view) is str else view
    elif isinstance(view, tuple):
        treated = tuple(harmless(each) for each in view)
    elif dataclasses.is_dataclass(view) and not isinstance(view, type):
        treated = dataclasses.replace(
            view,
            **{
                field.name: harmless(getattr(view, field.name))
                for field in dataclasses.fields(view)
            },
        )
    return treated  # type: ignore[no-any-return]


def excerpt(data: bytes, *, lines: int, width: int = 200) -> tuple[tuple[str, ...], bool]:
    """Return the first `lines` lines of `data` as text, and whether anything was left out.

    Bytes that are no UTF-8 show as U+FFFD. Reads no more of `data` than it shows.
    """
    head = data[: lines * width * 4]
    rows = head.decode("utf-8", "replace").removesuffix("\n").split("\n") if head else []
    cut = len(head) < len(data) or len(rows) > lines
    cut = cut or any(len(row) > width for row in rows[:lines])
    return tuple(row if len(row) <= width else row[:width] + "…" for row in rows[:lines]), cut


_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~#!$&])")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "|": "\\|"}
_STARTS_BLOCK = re.compile(r"^(\s*)([-+=]|\d{1,9}[.)])")


def markdown(text: object) -> str:
    """Return `text` with everything that Markdown (with tables and HTML) would read escaped."""
    escaped = _MARKDOWN.sub(lambda m: _ENTITIES.get(m[1], "\\" + m[1]), str(text))
    escaped = escaped.replace("\r", " ").replace("\n", " ")
    escaped = escaped.replace("://", ":\\/\\/").replace("www.", "www\\.")
    return _STARTS_BLOCK.sub(lambda m: f"{m[1]}{m[2][:-1]}\\{m[2][-1]}", escaped)


def css_string(text: str) -> str:
    """Return `text` for the inside of a CSS string: all but plain characters as hex escapes."""
    return "".join(
        each if each.isascii() and (each.isalnum() or each in " ._:-/,") else f"\\{ord(each):x} "
        for each in text
    )


def sentence(parts: Iterable[str]) -> str:
    """Return the non-empty `parts` joined by '; '."""
    return "; ".join(part for part in parts if part)
