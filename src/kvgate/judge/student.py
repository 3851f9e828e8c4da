"""Student's t and the normal distribution, to at least nine digits, from the standard library.

The t distribution of whole degrees of freedom by its finite series: M. Abramowitz, I. A. Stegun,
Handbook of Mathematical Functions (1964), 26.7.3 (odd) and 26.7.4 (even).
"""

from __future__ import annotations

import functools
import math
import statistics

_NORMAL = statistics.NormalDist()
_HALVINGS = 200  # of an interval of floats: far more than their 53 bits


def normal_tail(z: float) -> float:
    """Return the probability that a standard normal lies above `z`."""
    return math.erfc(z / math.sqrt(2)) / 2


def normal_above(tail: float) -> float:
    """Return the z above which a standard normal lies with probability `tail` (0 < tail < 1)."""
    return -_NORMAL.inv_cdf(tail)


def t_tail(t: float, df: int) -> float:
    """Return the probability that Student's t with `df` (1 or more) lies above `t`."""
    if df < 1:
        raise ValueError(f"{df} degrees of freedom: there is at least one")
    half = (1 - _within(abs(t), df)) / 2
    return half if t >= 0 else 1 - half


@functools.lru_cache(maxsize=1024)
def t_above(tail: float, df: int) -> float:
    """Return the t above which Student's t with `df` lies with probability `tail` (0 to 0.5)."""
    if not 0 < tail <= 0.5:
        raise ValueError(f"{tail} is no probability of an upper tail")
    low, high = 0.0, 1.0
    while t_tail(high, df) > tail:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_tail(middle, df) > tail else (low, middle)
    return high


def _within(t: float, df: int) -> float:
    """Return A(t|df), the probability that t lies between -t and t (26.7.3, 26.7.4)."""
    theta = math.atan(t / math.sqrt(df))
    sine, cosine = math.sin(theta), math.cos(theta)
    term = cosine if df % 2 else 1.0
    terms = [term] if df > 1 else []
    for k in range(3 if df % 2 else 2, df - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        terms.append(term)
    series = sine * math.fsum(terms)
    return series if df % 2 == 0 else 2 / math.pi * (theta + series)
