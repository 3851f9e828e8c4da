"""Of many tests at once, the ones that are sure: the share of false ones among them is bounded.

Y. Benjamini, Y. Hochberg, J. R. Stat. Soc. B 57 (1995) 289, for tests that are independent or
depend on each other positively (hosts under one load do); Y. Benjamini, D. Yekutieli, Ann. Stat.
29 (2001) 1165, whatever the dependence, at the price of a factor of about ln(tests).
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def adjusted(ps: Sequence[float], *, any_dependence: bool = False) -> tuple[float, ...]:
    """Return each p as the least rate of false discoveries at which its test is one.

    Hochberg's procedure at rate q takes those that are at most q. `any_dependence` takes
    Yekutieli's. Raises ValueError for what is no probability.
    """
    if not all(0 <= p <= 1 for p in ps):
        raise ValueError("a p is a probability from 0 to 1")
    n = len(ps)
    factor = math.fsum(1 / k for k in range(1, n + 1)) if any_dependence else 1.0
    found, least = [1.0] * n, 1.0
    falling = sorted(range(n), key=ps.__getitem__, reverse=True)
    for rank, place in zip(range(n, 0, -1), falling, strict=True):
        least = min(least, ps[place] * factor * n / rank)
        found[place] = least
    return tuple(found)
