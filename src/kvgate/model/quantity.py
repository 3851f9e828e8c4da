"""Quantities: exact numbers that never travel without their unit.

Decimal and binary prefixes are kept apart (GB is 10**9 bytes, GiB is 2**30; IEC 80000-13), and
numbers are decimals, so that a limit and a measured value compare exactly on every machine.
"""

from __future__ import annotations

import dataclasses
import decimal
import functools
import re
from fractions import Fraction

from kvgate.errors import UnitError

_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}


def _table() -> dict[str, tuple[str, Fraction]]:
    """Return unit → (dimension, factor to the dimension's base unit)."""
    units = {
        "": ("count", Fraction(1)),
        "count": ("count", Fraction(1)),
        "%": ("ratio", Fraction(1, 100)),
        "x": ("ratio", Fraction(1)),
        "ns": ("time", Fraction(1, 10**9)),
        "us": ("time", Fraction(1, 10**6)),
        "ms": ("time", Fraction(1, 10**3)),
        "s": ("time", Fraction(1)),
        "min": ("time", Fraction(60)),
        "h": ("time", Fraction(3600)),
        "B": ("bytes", Fraction(1)),
        "B/s": ("bytes/s", Fraction(1)),
        "bit/s": ("bit/s", Fraction(1)),
        "IOPS": ("IOPS", Fraction(1)),
        "req/s": ("req/s", Fraction(1)),
        "tok/s": ("tok/s", Fraction(1)),
        "GT/s": ("GT/s", Fraction(1)),
        "Hz": ("Hz", Fraction(1)),
        "degC": ("degC", Fraction(1)),
        "dBm": ("dBm", Fraction(1)),
        "W": ("W", Fraction(1)),
    }
    for prefix, factor in _DECIMAL.items():
        for unit in ("B", "B/s", "bit/s", "IOPS", "Hz"):
            units[prefix + unit] = (units[unit][0], Fraction(factor))
        units[f"{prefix}b/s"] = ("bit/s", Fraction(factor))
    for prefix, factor in _BINARY.items():
        for unit in ("B", "B/s"):
            units[prefix + unit] = (units[unit][0], Fraction(factor))
    return units


UNITS = _table()
DIGITS = 1000
"""Digits of a number, and places before or after its point, at most: exact sums stay quick."""

_TEXT = re.compile(
    r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)(?:\s+(\S+))?\s*", re.ASCII
)


def _too_long(number: decimal.Decimal) -> bool:
    return len(str(number)) > DIGITS and len(number.as_tuple().digits) > DIGITS


@functools.total_ordering
@dataclasses.dataclass(frozen=True, slots=True)
class Quantity:
    """An exact decimal number and its unit, as written (``1.5 ms`` stays ``1.5 ms``).

    Ordering and equality compare values, not spellings: ``1 GiB == 1073741824 B``. Quantities
    of different dimensions are unequal, and ordering them raises UnitError.
    """

    number: decimal.Decimal
    unit: str

    def __post_init__(self) -> None:
        """Refuse unknown units, infinities and NaN."""
        if self.unit not in UNITS:
            raise UnitError(f"'{self.unit}' is not a unit", hint=f"one of: {', '.join(UNITS)}")
        if not self.number.is_finite():
            raise UnitError(f"'{self.number}' is not a number that can be judged")
        if _too_long(self.number) or abs(self.number.adjusted()) > DIGITS:
            raise UnitError(f"a number of over {DIGITS} digits can't be judged")

    @classmethod
    def of(cls, number: float | decimal.Decimal | str, unit: str) -> Quantity:
        """Return the quantity of `number`; a float counts as its shortest decimal spelling."""
        if type(number) is int:
            return _of_int(number, unit)
        try:
            exact = decimal.Decimal(repr(number) if isinstance(number, float) else number)
        except decimal.InvalidOperation as err:
            raise UnitError(f"{number!r} is not a number") from err
        return cls(exact, unit)

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read ``1.5 ms``, ``64 GiB``, ``92 %`` or a plain count; raises UnitError otherwise."""
        match = _TEXT.fullmatch(text)
        if not match or (match[2] or "") not in UNITS:
            raise UnitError(
                f"'{text}' is not a quantity",
                hint="write e.g. '1.5 ms', '64 GiB', '12.5 GB/s', '92 %' or a plain count",
            )
        return cls(decimal.Decimal(match[1]), match[2] or "")

    @property
    def dimension(self) -> str:
        """Return the dimension's name, e.g. ``bytes/s``."""
        return UNITS[self.unit][0]

    @property
    def base(self) -> Fraction:
        """Return the exact value in the dimension's base unit (s, B, B/s, bit/s, …)."""
        return Fraction(self.number) * UNITS[self.unit][1]

    def to(self, unit: str) -> float:
        """Return the value in `unit` as a float, for drawing and showing only."""
        other = Quantity(decimal.Decimal(1), unit)
        self._same(other)
        return float(self.base / other.base)

    def _same(self, other: Quantity) -> None:
        if self.dimension != other.dimension:
            raise UnitError(
                f"{self} and {other} can't be compared: {self.dimension} against {other.dimension}"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.dimension == other.dimension and self.base == other.base

    def __lt__(self, other: Quantity) -> bool:
        self._same(other)
        return self.base < other.base

    def __hash__(self) -> int:
        return hash((self.dimension, self.base))

    def __str__(self) -> str:
        return (
            f"{self.number:f} {self.unit}".rstrip()
            if -30 < self.number.adjusted() < 30
            else (f"{self.number} {self.unit}".rstrip())
        )


@functools.lru_cache(maxsize=4096)  # hosts tell the same counts over and over, 0 first of all
def _of_int(number: int, unit: str) -> Quantity:
    return Quantity(decimal.Decimal(number), unit)


def counted(number: int | None) -> Quantity | None:
    """Return a count as a quantity; None where there is none: not known is never 0."""
    return None if number is None else Quantity.of(number, "")
