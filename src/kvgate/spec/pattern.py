"""Patterns of adapters, held to a form that can't take long whatever it is matched against.

Every repetition is made possessive (``a+`` becomes ``a++``): what it took it never gives back, so
that nothing is tried twice. Repeated groups, back references, look-arounds and lazy repetitions
are refused. What is left takes time linear in the text for each way through its alternatives,
and those are bounded by `MOST_CHOICES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_CHARACTERS = 300
MOST_CHOICES = 8
"""Bars (``|``) and optional groups in one pattern, at most: 2⁸ ways through it."""

_COUNTED = re.compile(r"\{[0-9]{1,3}(?:,[0-9]{0,3})?\}", re.ASCII)
_GROUP = re.compile(r"\((?:\?:|\?P<[A-Za-z_][A-Za-z0-9_]*>|(?!\?))")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")


def bounded(pattern: str) -> str:
    """Return `pattern` with every repetition possessive; raises ValueError that says why not."""
    if len(pattern) > MOST_CHARACTERS:
        raise ValueError(f"a pattern has at most {MOST_CHARACTERS} characters")
    parts, choices = [], 0
    before = ""
    for part in _parts(pattern):
        repeated = part[0] in "*+{" or part == "?"
        if repeated and (before == "" or before in ("|", "(") or before[0] in "*+{?"):
            raise ValueError(f"'{before}{part}' repeats nothing, or a repetition")
        if repeated and before == ")":
            if part != "?":
                raise ValueError("a group is not repeated: repeat what is in it")
            choices += 1
        choices += part == "|"
        parts.append(part + "+" if repeated else part)
        before = "(" if part.startswith("(") else part
    if choices > MOST_CHOICES:
        raise ValueError(f"a pattern has at most {MOST_CHOICES} bars and optional groups")
    made = "".join(parts)
    try:
        if not re.compile(made, re.ASCII).groupindex:
            raise ValueError("a pattern names at least one group: (?P<name>…)")
    except re.error as err:
        raise ValueError(f"is no pattern: {err}") from err
    return made


def _parts(pattern: str) -> Iterator[str]:
    """Yield the pattern's parts: a character, escape, class, bracket or repetition each."""
    at = 0
    while at < len(pattern):
        found = _part(pattern, at)
        at += len(found)
        if found[0] in "*+?{" and pattern[at : at + 1] in ("?", "+"):
            raise ValueError("repetitions never give back here: write no '?' or '+' after them")
        yield found


def _part(pattern: str, at: int) -> str:
    """Return the part that begins at `at`."""
    here = pattern[at]
    if here == "\\":
        escape = pattern[at : at + 2]
        if len(escape) < 2 or escape[1].isdigit() or escape[1] in "gkxuUN":
            raise ValueError(f"'{escape}' is not used in these patterns")
        return escape
    rule = {"[": _CLASS, "(": _GROUP, "{": _COUNTED}.get(here)
    if rule is None:
        return here
    match = rule.match(pattern, at)
    if match is None:
        raise ValueError(f"'{pattern[at : at + 4]}' is not used in these patterns")
    return match[0]
