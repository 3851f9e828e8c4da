"""Takes the daily cycle out of a series, so that morning is not called a trend or a step.

A line and the first two harmonics of 24 h are fitted together by least squares, to values whose
outliers are cut at 4 scaled median deviations; only the harmonics are taken away. It takes at
least two days: less can't tell a cycle from a trend, and is left as it is.
"""

from __future__ import annotations

import functools
import math
import operator
import statistics
from collections.abc import Sequence

DAY = 86_400.0
LEAST_DAYS = 2
HARMONICS = 2
SCALED = 1.4826
"""Median deviation to standard deviation of a normal distribution."""
_CUT = 4 * SCALED

Row = tuple[float, ...]


def without_day(times: Sequence[float], values: Sequence[float]) -> list[float]:
    """Return `values` less what repeats every day; as they are for under two days of them."""
    if len(times) < 4 * (2 + 2 * HARMONICS) or times[-1] - times[0] < LEAST_DAYS * DAY * 0.95:
        return list(values)
    basis = _basis(tuple(times))
    if basis is None:
        return list(values)
    columns, inverse = basis
    middle = statistics.median(values)
    reach = _CUT * statistics.median([abs(value - middle) for value in values])
    cut = [min(max(value, middle - reach), middle + reach) - middle for value in values]
    products = [math.fsum(map(operator.mul, column, cut)) for column in columns]
    weights = [math.fsum(map(operator.mul, row, products)) for row in inverse[2:]]
    left = list(values)
    for weight, column in zip(weights, columns[2:], strict=True):
        left = [value - weight * part for value, part in zip(left, column, strict=True)]
    return left


@functools.lru_cache(maxsize=64)
def _basis(times: Row) -> tuple[list[Row], list[Row]] | None:
    """Return the columns 1, line, harmonics; and the inverse of their products with each other."""
    span = times[-1] - times[0]
    columns: list[Row] = [(1.0,) * len(times), tuple((at - times[0]) / span for at in times)]
    for k in range(1, HARMONICS + 1):
        for wave in (math.sin, math.cos):
            raw = [wave(2 * math.pi * k * at / DAY) for at in times]
            mean = math.fsum(raw) / len(raw)
            columns.append(tuple(each - mean for each in raw))
    squares = [[math.fsum(map(operator.mul, a, b)) for b in columns] for a in columns]
    inverse = _inverse(squares)
    return None if inverse is None else (columns, inverse)


def _inverse(square: list[list[float]]) -> list[Row] | None:
    """Return the inverse by Gauss and Jordan; None where it has none."""
    n = len(square)
    rows = [[*row, *(float(i == j) for j in range(n))] for i, row in enumerate(square)]
    for at in range(n):
        best = max(range(at, n), key=lambda row: abs(rows[row][at]))
        if abs(rows[best][at]) < 1e-9:
            return None
        rows[at], rows[best] = rows[best], rows[at]
        rows[at] = [each / rows[at][at] for each in rows[at]]
        for other in range(n):
            if other != at:
                factor = rows[other][at]
                pairs = zip(rows[other], rows[at], strict=True)
                rows[other] = [each - factor * pivot for each, pivot in pairs]
    return [tuple(row[n:]) for row in rows]
