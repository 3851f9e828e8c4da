"""Compares versions as versions: 1.2 is not 11.25, and what can't be ordered is not guessed.

A version is read as ``[v]RELEASE[PRE][BUILD][REST]``:

- RELEASE: numbers between dots, compared as numbers; absent ones count as 0 (``1.2 == 1.2.0``).
- PRE: ``dev``, ``alpha``/``a1``, ``beta``/``b1``, ``pre``/``rc``/``c1`` with a number, in this
  order below the release itself (``6.8-rc2 < 6.8``).
- BUILD: numbers right after a ``-`` or ``+`` (``5.15.0-91-generic``: 91), compared as numbers;
  absent counts as 0.
- REST: a flavour (``-generic``, `` LTS``, ``-fc-v782``, ``p1``). It has no order: it is ignored
  unless the version asked for has one too and everything before it is equal; then only the
  same rest is comparable.

Epochs (``1:2.3``), Debian's ``~`` before anything but a PRE word, and names in front
(``fio-3.33``) are refused: a parser takes them off where it knows them.
"""

from __future__ import annotations

import dataclasses
import re

_PRE_RANK = {
    "dev": 0,
    "alpha": 1,
    "a": 1,
    "beta": 2,
    "b": 2,
    "preview": 3,
    "pre": 3,
    "rc": 3,
    "c": 3,
}
_FINAL = (4, 0)
_VERSION = re.compile(
    r"""\s*v?(?P<release>\d{1,18}+(?:\.\d{1,18}+)*+)(?!\.\.)
    (?:[-._~+]?(?:(?P<word>dev|alpha|beta|preview|pre|rc)[-._]?(?P<of>\d{0,9})
       |(?P<letter>[abc])(?P<nth>\d{1,9}))(?![A-Za-z0-9]))?
    (?:[-+](?P<build>\d{1,18}(?:\.\d{1,18})*)(?![A-Za-z0-9]))?
    (?P<rest>(?:[-+_. (A-Za-z].*)?)""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


class NoOrderError(ValueError):
    """A text is no version that has an order, or two have none between them.

    No KvgateError: what those say depends on which secrets this process knows (they are masked),
    and a finding must not.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """A version in comparable parts (see the module's docstring)."""

    release: tuple[int, ...]
    pre: tuple[int, int]
    build: tuple[int, ...]
    rest: str


def parse(text: str) -> Version:
    """Return `text` as a version; raises NoOrderError where it is none that has an order."""
    match = _VERSION.fullmatch(text.strip())
    if not match:
        raise NoOrderError(f"'{text[:80]}' is not a version that has an order")
    word = match["word"] or match["letter"]
    return Version(
        release=_numbers(match["release"]),
        pre=(_PRE_RANK[word.lower()], int(match["of"] or match["nth"] or 0)) if word else _FINAL,
        build=_numbers(match["build"] or ""),
        rest=match["rest"].strip(),
    )


def _numbers(text: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text.split(".")] if text else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def order(left: str, right: str) -> int:
    """Return -1, 0 or 1: is version `left` older than, equal to or newer than `right`.

    The rest is left out of it. Raises NoOrderError where one of them is no version.
    """
    mine, other = ((each.release, each.pre, each.build) for each in (parse(left), parse(right)))
    return (mine > other) - (mine < other)


def at_least(have: str, want: str) -> bool:
    """Tell whether version `have` is `want` or newer; NoOrderError where that has no answer."""
    if found := order(have, want):
        return found > 0
    if _rest_differs(have, want):
        raise NoOrderError(f"'{have[:80]}' and '{want[:80]}' differ only where there is no order")
    return True


def equal(have: str, want: str) -> bool:
    """Tell whether `have` is version `want`: the same text, or equal as versions.

    A rest counts where `want` has one. Raises NoOrderError where the texts differ and one of them
    is no version.
    """
    if have.strip() == want.strip():
        return True
    return order(have, want) == 0 and not _rest_differs(have, want)


def _rest_differs(have: str, want: str) -> bool:
    asked = parse(want).rest
    return bool(asked) and asked != parse(have).rest
