"""Percentiles by one definition, and only those that the sample can carry.

The definition is the nearest rank (Hyndman and Fan, Am. Stat. 50 (1996) 361, type 1): the
smallest value that at least p % of the sample do not exceed. It is always a value that was
measured, never one between two.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from fractions import Fraction

from kvgate.errors import KvgateError

DEFINITION = "nearest rank (Hyndman and Fan type 1)"


class SampleTooSmallError(KvgateError):
    """A sample has too few values for the percentile asked for."""


def least_sample(p: float) -> int:
    """Return how many values the percentile `p` (0 < p < 100) takes: 2 for 50, 100 for 99.

    Below that, fewer than one value is expected beyond it, and it would only be the maximum
    under another name (or, below 50, the minimum).
    """
    exact = _exact(p)
    return math.ceil(100 / min(exact, 100 - exact))


def least_for_interval(p: float, confidence: float = 0.95) -> int:
    """Return how many values an interval of percentile `p` takes: 6 for 50, 29 for 90, 299 for 99.

    The widest interval free of assumptions goes from the smallest value to the largest; it misses
    the percentile with probability q^n + (1 - q)^n (H. A. David, H. N. Nagaraja, Order Statistics
    (2003), section 7.1), which must be 1 - `confidence` at most.
    """
    q = float(_exact(p)) / 100
    n = least_sample(p)
    while q**n + (1 - q) ** n > 1 - confidence:
        n += 1
    return n


def percentile(values: Sequence[float], p: float) -> float:
    """Return the nearest-rank percentile `p` (0 < p < 100) of `values`.

    Raises SampleTooSmallError for fewer than `least_sample(p)` values, and where one of them is
    not a number.
    """
    least = least_sample(p)
    if len(values) < least:
        raise SampleTooSmallError(f"p{p:g} takes {least} values; there are {len(values)}")
    if any(math.isnan(value) for value in values):
        raise SampleTooSmallError(f"p{p:g}: one of {len(values)} values is not a number")
    return sorted(values)[rank(len(values), p) - 1]


def rank(count: int, p: float) -> int:
    """Return which of `count` values, from 1 in rising order, is their percentile `p`."""
    return math.ceil(_exact(p) * count / 100)


def _exact(p: float) -> Fraction:
    """Return `p` as written: 99.9 is 999/10, not the nearest binary fraction."""
    exact = Fraction(decimal.Decimal(repr(p)))
    if not 0 < exact < 100:
        raise ValueError(f"p{p:g} is not a percentile between 0 and 100")
    return exact
