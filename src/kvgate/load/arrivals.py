"""When users come: at a steady pace, or at random as independent users do, from a seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from kvgate.load.prompts import stream_of

Pattern = Literal["poisson", "constant"]
_AT_ONCE = 256


def arrivals(seed: int, rate: float, pattern: Pattern = "poisson") -> Iterator[float]:
    """Yield without end when requests are due, in s after the start: `rate` a second.

    ``poisson``: the gaps are exponential, −ln(1 − u) ÷ rate, so that arrivals are independent;
    ``constant``: all gaps are 1 ÷ rate. Raises ValueError for a rate of 0 or less.
    """
    if not 0 < rate < math.inf:
        raise ValueError(f"{rate:g} requests a second")
    if pattern == "constant":
        number = 0
        while True:
            yield number / rate
            number += 1
    generator = np.random.Philox(key=(seed % 2**64) << 64 | stream_of("arrivals"))
    at = 0.0
    while True:
        for raw in generator.random_raw(_AT_ONCE).tolist():
            at -= math.log1p(-(raw >> 11) / 2**53) / rate
            yield at
