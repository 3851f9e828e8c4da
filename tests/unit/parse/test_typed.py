import decimal
from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.parse import typed


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (7, 7),
        ("7", 7),
        (" 7 ", 7),
        ("0x1f", 31),
        (decimal.Decimal("39.0"), 39),
        ({"Value": 4}, 4),
        (2**128 - 1, 2**128 - 1),
        (None, None),
        ("N/A", None),
        ("", None),
        ("-", None),
        (0, 0),
    ],
)
def test_a_counter_in_every_spelling(value: Any, number: int | None) -> None:
    assert typed.count(value, "tool", "name") == number


@pytest.mark.parametrize(
    "value",
    [
        -1,
        "-1",
        True,
        1.5,
        decimal.Decimal("1.5"),
        decimal.Decimal("1e99"),
        "1,5",
        "0xg",
        "0x",
        [1],
        {"value": {}},
        {"lo": 1},
        2**128,
        "9" * 40,
        "٣",
    ],
)
def test_what_is_no_counter_is_refused(value: Any) -> None:
    with pytest.raises(ParseError, match="tool: name"):
        typed.count(value, "tool", "name")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.024", 1024),
        ("1,024", 1024),
        ("1 024", 1024),
        ("1\u202f024\u202f000", 1_024_000),
        ("1’024", 1024),
        ("1600321314816", 1_600_321_314_816),
        ("1.600.321.314.816", 1600321314816),
        ("0", 0),
    ],
)
def test_thousands_grouped_as_locales_do(text: str, number: int) -> None:
    assert typed.grouped(text, "tool", "name") == number


@pytest.mark.parametrize("text", ["1,02", "1.5", "1,024.000", "1,0244", "", "N/A", "-1", ",024"])
def test_groups_that_are_not_of_three_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match="not a whole number"):
        typed.grouped(text, "tool", "name")


def test_texts_flags_objects_and_lists() -> None:
    assert typed.words("  a ", "tool", "name") == "a"
    assert typed.words("Unknown", "tool", "name") is None
    assert typed.flag(None, "tool", "name") is None
    assert typed.flag(False, "tool", "name") is False
    assert typed.member(None, "tool", "name") == {}
    assert typed.rows([{}], "tool", "name") == [{}]


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (typed.words, 1),
        (typed.words, []),
        (typed.flag, 0),
        (typed.flag, "true"),
        (typed.member, []),
        (typed.rows, None),
        (typed.rows, {}),
        (typed.rows, [1]),
    ],
)
def test_a_value_of_another_type_is_refused(read: Any, value: Any) -> None:
    with pytest.raises(ParseError, match="tool: name"):
        read(value, "tool", "name")
