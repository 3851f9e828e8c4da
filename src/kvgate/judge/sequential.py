"""When a comparison may be looked at, and how sure each look must be: group-sequential testing.

Looks are planned before the first block. Together they spend the error that one look would
have: K. K. G. Lan, D. L. DeMets, Biometrika 70 (1983) 659, with their spending function of
O'Brien-Fleming's kind; the bounds follow from it by the recursive integration of P. Armitage,
C. K. McPherson, B. C. Rowe, J. R. Stat. Soc. A 132 (1969) 235. For few blocks the bounds become
those of Student's t by their nominal levels: C. Jennison, B. W. Turnbull, Group Sequential
Methods (2000), section 4.4. How well that holds for few blocks is shown by simulation
(tests/unit/judge/test_simulated.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from kvgate.judge.student import normal_above, normal_tail
from kvgate.spec.ratio import LEAST_BLOCKS, MOST_LOOKS

ERROR = 0.025
"""The chance, at most, of a PASS at the limit itself: one side of a 95 % interval."""

_CELLS = 240  # of the integration: even, for Simpson's rule; bounds good to five digits
_FAR = 8.0  # standard deviations beyond which a normal has nothing left
_HALVINGS = 60


def spent(share: float, error: float = ERROR) -> float:
    """Return how much of `error` may be spent once `share` (0 to 1) of the blocks are there.

    Lan and DeMets' first function: 2 - 2 Φ(z / √share), where z lies above all but error / 2.
    """
    if share >= 1:
        return error
    return 2 * normal_tail(normal_above(error / 2) / math.sqrt(share))


def levels(looks: Sequence[int], error: float = ERROR) -> tuple[float, ...]:
    """Return the one-sided nominal level of each look: what its own test is made at.

    `looks` are the numbers of blocks at which is looked, rising; the last is all of them. One
    look alone has the whole `error`. Raises ValueError for looks that can't be planned.
    """
    places = tuple(looks)
    if not places or list(places) != sorted(set(places)) or places[0] < LEAST_BLOCKS:
        raise ValueError(f"looks {places}: whole numbers from {LEAST_BLOCKS} on, rising")
    if len(places) > MOST_LOOKS:
        raise ValueError(f"{len(places)} looks: at most {MOST_LOOKS}")
    return _levels(places, error)


@functools.lru_cache(maxsize=64)
def _levels(looks: tuple[int, ...], error: float) -> tuple[float, ...]:
    shares = [look / looks[-1] for look in looks]
    bounds = _bounds(shares, [spent(share, error) for share in shares])
    return tuple(round(normal_tail(bound), 9) for bound in bounds)


def _bounds(shares: Sequence[float], cumulative: Sequence[float]) -> list[float]:
    """Return z for each look, so that crossing any until then has the cumulative probability.

    S at information t is normal with variance t and independent increments; what has crossed is
    cut off, and the rest is carried to the next look by Simpson's rule.
    """
    found = [normal_above(cumulative[0])]
    grid, weight = _start(shares[0], found[0])
    for look in range(1, len(shares)):
        step = math.sqrt(shares[look] - shares[look - 1])
        wanted = cumulative[look] - cumulative[look - 1]
        found.append(_crossed(grid, weight, step, math.sqrt(shares[look]), wanted))
        grid, weight = _carried(grid, weight, step, shares[look], found[-1])
    return found


def _start(share: float, bound: float) -> tuple[list[float], list[float]]:
    grid, cell = _grid(share, bound)
    scale = math.sqrt(share)
    density = [math.exp(-((s / scale) ** 2) / 2) / scale / math.sqrt(2 * math.pi) for s in grid]
    return grid, _weighted(density, cell)


def _carried(
    grid: Sequence[float], weight: Sequence[float], step: float, share: float, bound: float
) -> tuple[list[float], list[float]]:
    """Return the density of S at the next look, below its bound, as weights on a new grid."""
    there, cell = _grid(share, bound)
    scale = 1 / (step * math.sqrt(2 * math.pi))
    density = [
        scale
        * math.fsum(
            w * math.exp(-(((s - a) / step) ** 2) / 2) for a, w in zip(grid, weight, strict=True)
        )
        for s in there
    ]
    return there, _weighted(density, cell)


def _grid(share: float, bound: float) -> tuple[list[float], float]:
    scale = math.sqrt(share)
    low, high = -_FAR * scale, bound * scale
    cell = (high - low) / _CELLS
    return [low + i * cell for i in range(_CELLS + 1)], cell


def _weighted(density: Sequence[float], cell: float) -> list[float]:
    last = len(density) - 1
    factors = (1 if i in (0, last) else 4 if i % 2 else 2 for i in range(len(density)))
    return [d * f * cell / 3 for d, f in zip(density, factors, strict=True)]


def _crossed(
    grid: Sequence[float], weight: Sequence[float], step: float, scale: float, wanted: float
) -> float:
    """Return the z above which the next look lies with probability `wanted`."""
    low, high = -_FAR, _FAR
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        edge = middle * scale
        above = math.fsum(
            w * normal_tail((edge - s) / step) for s, w in zip(grid, weight, strict=True)
        )
        low, high = (middle, high) if above > wanted else (low, middle)
    return high
