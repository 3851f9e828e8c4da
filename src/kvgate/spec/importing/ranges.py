"""Ranges in names: ``node[01:16]`` as Ansible writes them, ``node[01-16]`` as people do."""

from __future__ import annotations

import itertools
import re
import string

MOST_NAMES = 10_000
"""Names that one pattern may stand for."""

_PART = re.compile(r"\[([^\[\]]*)\]")
_BOUNDS = re.compile(
    r"(?:(\d{1,9})[:-](\d{1,9})|([a-zA-Z])[:-]([a-zA-Z]))(?::(\d{1,6}))?", re.ASCII
)


def expand(pattern: str) -> tuple[str, ...]:
    """Return the names that `pattern` stands for, in order; itself where it holds no range.

    ``[01:16]`` and ``[01-16]`` count with leading zeros, ``[a:f]`` letters, ``[1:9:2]`` in steps;
    several ranges vary the last one fastest. Raises ValueError saying what is wrong.
    """
    pieces = _PART.split(pattern)  # text, bounds, text, bounds, text
    if any(bracket in text for text in pieces[::2] for bracket in "[]"):
        raise ValueError(f"'{pattern}' has a bracket without its other half")
    choices = [_counted(bounds) for bounds in pieces[1::2]]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > MOST_NAMES:
        raise ValueError(f"'{pattern}' stands for {total} names; at most {MOST_NAMES} are read")
    return tuple(
        pieces[0] + "".join(map("".join, zip(picked, pieces[2::2], strict=True)))
        for picked in itertools.product(*choices)
    )


def _counted(bounds: str) -> list[str]:
    match = _BOUNDS.fullmatch(bounds)
    if not match:
        raise ValueError(f"[{bounds}] is no range; write e.g. [01:16], [01-16], [a:f] or [1:9:2]")
    step = int(match[5] or 1)
    if step == 0:
        raise ValueError(f"[{bounds}]: a step of 0 never ends")
    if match[1] is None:
        return _letters(bounds, match[3], match[4], step)
    first, last = match[1], match[2]
    if first.startswith("0") and len(first) > 1 and len(first) != len(last):
        raise ValueError(f"[{bounds}]: {first} and {last} have different numbers of digits")
    if int(first) > int(last):
        raise ValueError(f"[{bounds}] counts down: {first} is above {last}")
    numbers = range(int(first), int(last) + 1, step)
    if len(numbers) > MOST_NAMES:
        raise ValueError(f"[{bounds}] has {len(numbers)} numbers; at most {MOST_NAMES} are read")
    width = len(first) if first.startswith("0") else 0
    return [f"{number:0{width}d}" for number in numbers]


def _letters(bounds: str, first: str, last: str, step: int) -> list[str]:
    letters = string.ascii_letters
    begin, end = letters.index(first), letters.index(last)
    if first.islower() != last.islower() or begin > end:
        raise ValueError(f"[{bounds}] is no range of letters that counts up")
    return list(letters[begin : end + 1 : step])
