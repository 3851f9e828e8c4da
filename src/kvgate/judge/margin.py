"""The margin to propose between a claim and its limit, from the noise of an earlier A/A run."""

from __future__ import annotations

import math

from kvgate.model.quantity import Quantity
from kvgate.spec.gate import MOST_MARGIN

LEAST_MARGIN = Quantity.of(3, "%")
"""What is proposed at least: two honest benches of the same kind differ by as much."""


def proposed(noise: float) -> Quantity:
    """Return the larger of `noise` (a share, 0.04 is 4 %) and 3 %, at most 5 %, in tenths of 1 %.

    A noisier bench gets no larger margin: its comparisons end inconclusive instead.
    """
    tenths = math.ceil(round(1000 * noise, 6))
    return min(max(Quantity.of(f"{tenths / 10:g}", "%"), LEAST_MARGIN), MOST_MARGIN)
