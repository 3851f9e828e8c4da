from __future__ import annotations

import decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import UnitError
from kvgate.model.quantity import UNITS, Quantity

units = st.sampled_from(sorted(UNITS))
numbers = st.decimals(
    min_value=-(10**12), max_value=10**12, allow_nan=False, allow_infinity=False, places=6
)
quantities = st.builds(Quantity, numbers, units)


@pytest.mark.parametrize("text", ["1e99999", "-1e999999999", "1e-99999", "9" * 1001])
def test_a_number_without_end_is_refused(text: str) -> None:
    with pytest.raises(UnitError, match="over 1000 digits"):
        Quantity.of(text, "B")


@pytest.mark.parametrize(
    ("text", "base", "dimension"),
    [
        ("1.5 ms", Fraction(3, 2000), "time"),
        ("1 GiB", Fraction(2**30), "bytes"),
        ("1 GB", Fraction(10**9), "bytes"),
        ("12.5 GB/s", Fraction(125 * 10**8), "bytes/s"),
        ("100 Gb/s", Fraction(10**11), "bit/s"),
        ("100 Gbit/s", Fraction(10**11), "bit/s"),
        ("92 %", Fraction(92, 100), "ratio"),
        ("8.6 x", Fraction(86, 10), "ratio"),
        ("7", Fraction(7), "count"),
        ("-3 degC", Fraction(-3), "degC"),
        ("1e3 IOPS", Fraction(1000), "IOPS"),
        (".5 s", Fraction(1, 2), "time"),
    ],
)
def test_read(text: str, base: Fraction, dimension: str) -> None:
    found = Quantity.parse(text)
    assert (found.base, found.dimension) == (base, dimension)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ms",
        "1.5 m s",
        "1,5 ms",
        "1 Gib",
        "1 gb",
        "NaN ms",
        "inf s",
        "1e9999 s",
        "1us",
        "0x10",
        "١ ms",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(UnitError):
        Quantity.parse(text)


def test_gb_is_not_gib() -> None:
    assert Quantity.parse("1 GB") < Quantity.parse("1 GiB")
    assert Quantity.parse("1 GiB") == Quantity.parse("1073741824 B")


def test_bytes_are_not_bits() -> None:
    assert Quantity.parse("8 Gb/s") != Quantity.parse("1 GB/s")
    with pytest.raises(UnitError, match="can't be compared"):
        assert Quantity.parse("8 Gb/s") < Quantity.parse("1 GB/s")


def test_a_float_counts_as_it_is_spelt() -> None:
    assert Quantity.of(0.1, "s") == Quantity.parse("0.1 s")
    with pytest.raises(UnitError):
        Quantity.of(float("nan"), "s")
    with pytest.raises(UnitError):
        Quantity.of("many", "s")
    with pytest.raises(UnitError, match="'furlong' is not a unit"):
        Quantity.of(1, "furlong")


@given(quantities)
def test_what_is_written_is_read_back(quantity: Quantity) -> None:
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert (again.unit, str(again)) == (quantity.unit, str(quantity))


@given(quantities, quantities)
def test_order_is_the_order_of_exact_values(left: Quantity, right: Quantity) -> None:
    if left.dimension != right.dimension:
        assert left != right
        with pytest.raises(UnitError):
            assert left < right
        return
    assert (left < right) is (left.base < right.base)
    assert (left == right) is (left.base == right.base)
    assert (left <= right) is (left.base <= right.base)
    assert left != right or hash(left) == hash(right)


@given(quantities, units)
def test_conversion_keeps_the_value(quantity: Quantity, unit: str) -> None:
    if UNITS[unit][0] != quantity.dimension:
        with pytest.raises(UnitError):
            quantity.to(unit)
    else:
        exact = quantity.base / Quantity(decimal.Decimal(1), unit).base
        assert quantity.to(unit) == float(exact)
