"""How values are written for people: scaled, rounded, with the right unit, the exact value kept.

Decimal prefixes are used for decimal units and binary ones for binary units (IEC 80000-13), and
rounding never moves a value to the other side of its limit.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import functools
import re
from collections.abc import Iterable
from fractions import Fraction

from kvgate.errors import UnitError
from kvgate.model.quantity import UNITS, Quantity
from kvgate.model.record import Value

_DECIMAL = ("P", "T", "G", "M", "k", "")
_BINARY = ("Pi", "Ti", "Gi", "Mi", "Ki", "")
_LADDERS: dict[str, tuple[str, ...]] = {
    "bytes": tuple(f"{prefix}B" for prefix in _DECIMAL),
    "bytes/s": tuple(f"{prefix}B/s" for prefix in _DECIMAL),
    "bit/s": (*(f"{prefix}b/s" for prefix in _DECIMAL if prefix), "bit/s"),
    "IOPS": ("MIOPS", "kIOPS", "IOPS"),
    "Hz": ("GHz", "MHz", "kHz", "Hz"),
    "time": ("h", "min", "s", "ms", "us", "ns"),
}
_BINARY_LADDERS = {
    "bytes": tuple(f"{prefix}B" for prefix in _BINARY),
    "bytes/s": tuple(f"{prefix}B/s" for prefix in _BINARY),
}
_WRITTEN = {"us": "µs", "x": "×", "degC": "°C", "count": ""}
_FLOORS = {"min": Fraction(120), "h": Fraction(7200)}  # 90 s stay 90 s
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?(?: \S+)?")


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """A value as people read it, and its exact spelling where that differs (else "")."""

    text: str
    exact: str = ""

    def __str__(self) -> str:
        return self.text


def ladder(unit: str) -> tuple[str, ...]:
    """Return the units of one dimension and kind of prefix, from the largest; `unit` is one."""
    dimension = UNITS[unit][0]
    if "i" in unit and dimension in _BINARY_LADDERS and unit != "bit/s":
        return _BINARY_LADDERS[dimension]
    return _LADDERS.get(dimension, (unit,))


def unit_for(quantity: Quantity) -> str:
    """Return the unit in which `quantity` reads best: the largest it is at least one of."""
    size = abs(quantity.base)
    units = ladder(quantity.unit)
    if size == 0:
        return quantity.unit
    for unit in units:
        if size >= _FLOORS.get(unit, UNITS[unit][1]):
            return unit
    return units[-1]


def written(unit: str) -> str:
    """Return the unit as it is printed (``us`` is µs)."""
    return _WRITTEN.get(unit, unit)


def quantity(value: Quantity, *, near: Iterable[Quantity] = ()) -> Shown:
    """Return `value` to three significant digits, or as many as keep it on its side of `near`."""
    if value.dimension == "count":
        return Shown(str(value))
    unit = unit_for(value)
    factor = UNITS[unit][1]
    limits = [limit for limit in near if limit.dimension == value.dimension]
    for digits in range(3, 16):
        number = _rounded(value.base / factor, digits)
        if all(
            _side(Fraction(number) * factor, limit.base) == _side(value.base, limit.base)
            for limit in limits
        ):
            text = f"{number:f} {written(unit)}".rstrip()
            return Shown(text, "" if text == str(value) else str(value))
    return Shown(str(value))  # a limit that this unit can't tell it from: as it was measured


def _side(value: Fraction, limit: Fraction) -> int:
    return (value > limit) - (value < limit)


def _rounded(value: Fraction, digits: int) -> decimal.Decimal:
    """Return `value` to `digits` significant digits, never dropping digits before the point."""
    context = decimal.Context(prec=40)
    exact = context.divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))
    if exact == 0:
        return decimal.Decimal(0)
    places = max(0, digits - 1 - exact.adjusted())
    rounded = exact.quantize(decimal.Decimal(1).scaleb(-places), context=context)
    return rounded.normalize(context) if rounded == exact else rounded


def value(measured: Value, *, near: Iterable[Quantity] = ()) -> Shown:
    """Return any measured value for people: quantities scaled, yes/no, texts as they are."""
    if isinstance(measured, bool):
        return Shown("yes" if measured else "no")
    if isinstance(measured, Quantity):
        return quantity(measured, near=near)
    return Shown(measured)


@functools.lru_cache(maxsize=4096)  # a finding of 1,000 hosts says the same few values
def text(measured: str, *, near: tuple[Quantity, ...] = ()) -> Shown:
    """Return a value that a finding holds as text; scaled if all of it is a quantity with unit."""
    found = _NUMBER.fullmatch(measured.strip())
    if not found or " " not in found[0]:
        return Shown(measured)
    try:
        return quantity(Quantity.parse(measured), near=near)
    except UnitError:
        return Shown(measured)


def quantities_in(sentence: str) -> tuple[Quantity, ...]:
    """Return the quantities with a unit that stand in a text such as 'at most 1.5 ms'."""
    found = []
    for match in _NUMBER.finditer(sentence):
        try:
            found.append(Quantity.parse(match[0].rstrip(",;")))
        except UnitError:
            continue
    return tuple(found)


def duration(seconds: float) -> str:
    """Return a length of time for people: '850 ms', '41.2 s', '3 min 05 s', '72 h 00 min'."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def moment(when: datetime.datetime | str) -> datetime.datetime:
    """Return an aware UTC moment from a record's datetime or its RFC 3339 text."""
    if isinstance(when, str):
        when = datetime.datetime.fromisoformat(when)
    return when.astimezone(datetime.UTC)


def clock(when: datetime.datetime | str) -> str:
    """Return a moment as '2026-05-12 08:15:30 UTC'."""
    return moment(when).strftime("%Y-%m-%d %H:%M:%S UTC")
