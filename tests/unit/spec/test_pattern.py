"""Patterns of adapters: what is refused, and that what is left is matched in bounded time."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvgate.spec.pattern import bounded


@pytest.mark.parametrize(
    ("pattern", "made"),
    [
        (r"(?P<a>\d+)\s*x?", r"(?P<a>\d++)\s*+x?+"),
        (r"(?P<a>[^:]{1,20}):(?: .*)?", r"(?P<a>[^:]{1,20}+):(?: .*+)?+"),
        (r"(?P<a>[]*+?{]+)", r"(?P<a>[]*+?{]++)"),
        (r"(?P<a>up|down)", r"(?P<a>up|down)"),
    ],
)
def test_every_repetition_becomes_possessive(pattern: str, made: str) -> None:
    assert bounded(pattern) == made


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (r"(?P<a>x+)+", "a group is not repeated"),
        (r"(?P<a>(?:x*)*)", "a group is not repeated"),
        (r"(?P<a>x){2,9}", "a group is not repeated"),
        (r"(?P<a>.*?)x", "repetitions never give back"),
        (r"(?P<a>x++)", "repetitions never give back"),
        (r"(?P<a>x)\1", r"'\\1' is not used"),
        (r"(?P<a>x)(?P=a)", "is not used"),
        (r"(?=x)(?P<a>x)", "is not used"),
        (r"(?P<a>x){2", "is not used"),
        (r"x+", "names at least one group"),
        (r"*(?P<a>x)", "repeats nothing"),
        (r"(?P<a>x", "is no pattern"),
        (r"(?P<a>a|b|c|d|e|f|g|h|i|j)", "at most 8 bars"),
        (r"(?P<a>x)" + "y" * 300, "at most 300 characters"),
        ("(?P<a>x)\\", "is not used"),
    ],
)
def test_what_could_take_long_is_refused(pattern: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        bounded(pattern)


PIECES = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", "*", "+", "?", "{1,9}", "(?:", "(", ")", "|"]
)


@given(st.lists(PIECES, max_size=30).map("".join), st.sampled_from(["a", "ab", "1"]))
@example("a*a*a*a*a*a*a*a*a*a*a*a*", "a")
@example("(?:a|a)(?:a|a)(?:a|a)(?:a|a)", "a")
def test_what_is_taken_is_matched_soon(body: str, filling: str) -> None:
    pattern = f"(?P<all>{body})b"
    try:
        made = bounded(pattern)
    except ValueError:
        return
    # 2000 characters that nearly match: backtracking over them would take longer than any patience
    assert re.compile(made).fullmatch(filling * (2000 // len(filling)) + "c") is None
