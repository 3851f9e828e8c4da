from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.judge.limits import TEXT_SHOWN, check, percent, show
from kvgate.model.quantity import Quantity
from kvgate.model.record import Value
from kvgate.model.verdict import Verdict
from kvgate.spec.expect import Requirement
from kvgate.spec.gate import Limit

FIVE = Quantity.of(5, "%")
PASS, FAIL, UNCLEAR = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def q(text: str) -> Quantity:
    return Quantity.parse(text)


@pytest.mark.parametrize(
    ("form", "value", "verdict", "because"),
    [
        ({"at_most": "1.5 ms"}, q("1.5 ms"), PASS, ""),
        ({"at_most": "1.5 ms"}, q("1500 us"), PASS, ""),
        ({"at_most": "1.5 ms"}, q("1.500000001 ms"), FAIL, "under 0.1 % over"),
        ({"at_most": "1.5 ms"}, q("2.1 ms"), FAIL, "40 % over"),
        ({"at_most": "0"}, q("0"), PASS, ""),
        ({"at_most": "0"}, q("3"), FAIL, "over the limit of 0"),
        ({"at_least": "10 GB/s"}, q("10 GB/s"), PASS, ""),
        ({"at_least": "10 GB/s"}, q("9.75 GB/s"), FAIL, "2.5 % under"),
        ({"at_least": "1 GiB"}, q("1 GB"), FAIL, "6.9 % under"),
        ({"within": ["2 ms", "4 ms"]}, q("2 ms"), PASS, ""),
        ({"within": ["2 ms", "4 ms"]}, q("4 ms"), PASS, ""),
        ({"within": ["2 ms", "4 ms"]}, q("5 ms"), FAIL, "25 % over 4 ms"),
        ({"within": ["2 ms", "4 ms"]}, q("1 ms"), FAIL, "50 % under 2 ms"),
        ({"within": ["-1 degC", "0 degC"]}, q("1 degC"), FAIL, "over the limit of 0 degC"),
        ({"equals": True}, True, PASS, ""),
        ({"equals": True}, False, FAIL, "not yes"),
        ({"equals": "nvme"}, "nvme", PASS, ""),
        ({"equals": "nvme"}, "NVMe", FAIL, "not nvme"),
        ({"equals": 0}, q("0"), PASS, ""),
        ({"equals": 0}, q("1"), FAIL, "not 0"),
        ({"equals": "1 KiB"}, q("1024 B"), PASS, ""),
        ({"one_of": ["a", "b"]}, "b", PASS, ""),
        ({"one_of": ["a", "b"]}, "c", FAIL, "none of a, b"),
        ({"one_of": [1, 2]}, q("2"), PASS, ""),
        ({"one_of": [1, 2]}, q("3"), FAIL, "none of 1, 2"),
    ],
)
def test_each_kind_of_limit(
    form: dict[str, object], value: Value, verdict: Verdict, because: str
) -> None:
    found = check(value, Limit.model_validate(form), None, FIVE)
    assert (found.verdict, found.because) == (verdict, because)
    assert (found.off > 0) is (verdict is FAIL and isinstance(value, Quantity))


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ({"at_most": "1.5 ms"}, q("1 B")),
        ({"at_most": "1.5 ms"}, "1 ms"),
        ({"at_most": "1"}, True),
        ({"at_most": "1 GB/s"}, q("1 Gb/s")),
        ({"at_least": "1"}, q("2 ms")),
        ({"within": ["1 ms", "2 ms"]}, q("1")),
        ({"equals": True}, q("1")),
        ({"equals": 1}, True),
        ({"equals": "1 ms"}, "1 ms"),
        ({"equals": "yes"}, True),
        ({"one_of": ["a", "b"]}, q("1")),
        ({"one_of": ["a", 1]}, True),
        ({"matches_inventory": True}, "a"),
    ],
)
def test_what_cannot_be_compared_is_inconclusive(form: dict[str, object], value: Value) -> None:
    found = check(value, Limit.model_validate(form), None, FIVE)
    assert found.verdict is UNCLEAR
    assert found.because


@pytest.mark.parametrize(
    ("needed", "tolerance", "value", "verdict", "because"),
    [
        (Requirement("equals", (q("64 GiB"),)), None, q("64 GiB"), PASS, ""),
        (Requirement("equals", (q("64 GiB"),)), None, q("62 GiB"), FAIL, "declared: 64 GiB"),
        (Requirement("equals", (q("64 GiB"),)), "5 %", q("62 GiB"), PASS, ""),
        (Requirement("equals", (q("100 B"),)), "5 %", q("95 B"), PASS, ""),
        (Requirement("equals", (q("100 B"),)), "5 %", q("105 B"), PASS, ""),
        (
            Requirement("equals", (q("100 B"),)),
            "5 %",
            q("94 B"),
            FAIL,
            "6 % under the declared 100 B (± 5 %)",
        ),
        (
            Requirement("equals", (q("100 B"),)),
            "5 %",
            q("150 B"),
            FAIL,
            "50 % over the declared 100 B (± 5 %)",
        ),
        (Requirement("equals", (q("0"),)), "5 %", q("0"), PASS, ""),
        (Requirement("equals", (q("0"),)), "5 %", q("1"), FAIL, "over the declared 0 (± 5 %)"),
        (
            Requirement("equals", (q("100 B"),)),
            "5 %",
            "100 B",
            UNCLEAR,
            "not comparable: text against a limit of bytes",
        ),
        (
            Requirement("equals", (q("100 B"),)),
            "5 %",
            q("100 ms"),
            UNCLEAR,
            "not comparable: time against a limit of bytes",
        ),
        (Requirement("equals", ("MI308X",)), "5 %", "MI308X", PASS, ""),
        (Requirement("equals", (True,)), None, False, FAIL, "declared: yes"),
        (Requirement("one_of", ("a", "b")), None, "a", PASS, ""),
        (Requirement("one_of", ("a", "b")), None, "c", FAIL, "declared: one of a, b"),
        (Requirement("version_at_least", ("4.18",)), None, "6.18.44-fc-v782", PASS, ""),
        (
            Requirement("version_at_least", ("11.25",)),
            None,
            "1.2",
            FAIL,
            "declared: version ≥ 11.25",
        ),
        (
            Requirement("version_at_least", ("1",)),
            None,
            "none",
            UNCLEAR,
            "'none' is not a version that has an order",
        ),
        (
            Requirement("version_at_least", ("1",)),
            None,
            q("2"),
            UNCLEAR,
            "not a text that could be a version",
        ),
        (Requirement("is_like", ("1",)), None, "1", UNCLEAR, "the judge knows no rule 'is_like'"),
        (Requirement("one_of", ()), None, "1", UNCLEAR, "the judge knows no rule 'one_of'"),
        (None, None, "1", UNCLEAR, "the inventory declares nothing for it"),
    ],
)
def test_matches_inventory(
    needed: Requirement | None, tolerance: str | None, value: Value, verdict: Verdict, because: str
) -> None:
    limit = Limit.model_validate({"matches_inventory": True, "tolerance": tolerance})
    found = check(value, limit, needed, FIVE)
    assert (found.verdict, found.because) == (verdict, because)


@pytest.mark.parametrize(
    ("form", "value", "close"),
    [
        ({"at_most": "100 ms"}, "95 ms", True),
        ({"at_most": "100 ms"}, "94.999 ms", False),
        ({"at_most": "100 ms"}, "100 ms", True),
        ({"at_most": "100 ms"}, "101 ms", False),
        ({"at_least": "100 B/s"}, "105 B/s", True),
        ({"at_least": "100 B/s"}, "105.001 B/s", False),
        ({"within": ["100 B", "200 B"]}, "104 B", True),
        ({"within": ["100 B", "200 B"]}, "191 B", True),
        ({"within": ["100 B", "200 B"]}, "150 B", False),
        ({"within": ["0 B", "200 B"]}, "0 B", False),
        ({"at_most": "0"}, "0", False),
        ({"at_most": "-10 degC"}, "-10.4 degC", True),
        ({"equals": 0}, "0", False),
    ],
)
def test_marginal_is_a_pass_near_its_limit(
    form: dict[str, object], value: str, close: bool
) -> None:
    assert check(q(value), Limit.model_validate(form), None, FIVE).marginal is close


def test_a_margin_of_zero_turns_marginal_off() -> None:
    limit = Limit.model_validate({"at_most": "1 ms"})
    assert not check(q("1 ms"), limit, None, Quantity.of(0, "%")).marginal


def test_values_are_shown_short_but_never_across_their_limit() -> None:
    limit = Limit.model_validate({"at_most": "1.5 ms"})
    assert check(Quantity.of(1.23456789, "ms"), limit, None, FIVE).shown == "1.23457 ms"
    assert check(Quantity.of("1.500000001", "ms"), limit, None, FIVE).shown == "1.500000001 ms"
    assert check(Quantity.of("1.499999999", "ms"), limit, None, FIVE).shown == "1.499999999 ms"
    fine = Limit.model_validate({"at_most": "1.2345648 ms"})
    assert check(q("1.2345649 ms"), fine, None, FIVE).shown == "1.2345649 ms"
    assert show("x" * TEXT_SHOWN) == "x" * TEXT_SHOWN
    assert show("x" * 500) == "x" * (TEXT_SHOWN - 1) + "…"
    assert (show(True), show(False)) == ("yes", "no")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (Fraction(2, 5), "40 %"),
        (Fraction(1, 40), "2.5 %"),
        (Fraction(1, 50), "2 %"),
        (Fraction(1, 10**6), "under 0.1 %"),
        (Fraction(0), "0 %"),
        (Fraction(12), "1200 %"),
        (Fraction(996, 10000), "10 %"),
        (Fraction(994, 10000), "9.9 %"),
        (Fraction(345, 1000), "34 %"),
    ],
)
def test_percent(share: Fraction, text: str) -> None:
    assert percent(share) == text


sizes = st.integers(-(10**9), 10**9)


@given(sizes, sizes, sizes)
def test_bounds_agree_with_plain_numbers(value: int, left: int, right: int) -> None:
    low, high = sorted((left, right))
    kinds: dict[str, tuple[object, bool]] = {
        "at_least": (low, value >= low),
        "at_most": (high, value <= high),
        "within": ([low, high], low <= value <= high),
        "equals": (low, value == low),
    }
    for kind, (bound, holds) in kinds.items():
        found = check(Quantity.of(value, ""), Limit.model_validate({kind: bound}), None, FIVE)
        assert found.verdict is (PASS if holds else FAIL), kind
        assert (found.off > 0) is (not holds)


def test_no_kind_of_limit_is_forgotten(limit: Callable[..., Limit]) -> None:
    """Planted: one value that violates each kind is seen as a FAIL by each."""
    planted: list[tuple[dict[str, object], Value, Requirement | None]] = [
        ({"at_least": 2}, q("1"), None),
        ({"at_most": 2}, q("3"), None),
        ({"within": [2, 3]}, q("4"), None),
        ({"equals": "a"}, "b", None),
        ({"one_of": ["a"]}, "b", None),
        ({"matches_inventory": True}, "b", Requirement("equals", ("a",))),
    ]
    assert {next(iter(form)) for form, _, _ in planted} == {
        "at_least",
        "at_most",
        "within",
        "equals",
        "one_of",
        "matches_inventory",
    }
    for form, value, needed in planted:
        assert check(value, limit(**form), needed, FIVE).verdict is FAIL
