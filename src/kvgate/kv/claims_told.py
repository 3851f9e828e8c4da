"""What checks of claims share: how a finding is said, precision as written, and numbers as text."""

from __future__ import annotations

import dataclasses
import decimal
from fractions import Fraction
from typing import Literal, TypeVar

from kvgate.model.quantity import UNITS

T = TypeVar("T")

Word = Literal["holds", "can't be checked", "unit", "unsupported", "contradicts", "impossible"]


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """What a check says: its word (a `claims.Kind`) and the lines of its arithmetic."""

    kind: Word
    arithmetic: tuple[str, ...]


def there(part: T | None) -> T:
    """Return `part`, which the loader has seen to be there; raises ValueError otherwise."""
    if part is None:
        raise ValueError("a claim without its part was not checked when it was loaded")
    return part


def ulp(number: decimal.Decimal, *, zeros: bool = False) -> Fraction:
    """Return one unit of the last digit as written; with `zeros`, of the last that is none.

    ``7.15`` → 0.01; ``450`` → 1, with `zeros` 10: a rounded 450 doesn't tell its last digit.
    """
    exponent = number.as_tuple().exponent
    if zeros and number == number.to_integral_value():
        exponent = number.normalize().as_tuple().exponent
    return Fraction(10) ** int(exponent)


def factor(unit: str) -> Fraction:
    """Return how many base units a unit is: 10⁹ for GB."""
    return UNITS[unit][1]


def rate_told(rate: Fraction) -> str:
    """Return B/s as text in GB/s."""
    return f"{float(rate) / 10**9:.5g} GB/s"


def bytes_told(count: int) -> str:
    """Return bytes in both families: ``480 GB = 447 GiB``."""
    return f"{count:,} B = {count / 10**9:.4g} GB = {count / 2**30:.4g} GiB"
