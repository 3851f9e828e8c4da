"""Dedup apart from tiering: two factors, each on and off, and whether their gains add up.

Each block has all four cells; a gain is a ratio within a block, and the interaction is the ratio
of gains: how many times more parallel reads gain on data that can be deduplicated than on data
that can't. At 1 the gains multiply (add up as logs), whatever each of them is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from kvgate.judge.ratio import Interval, interval_of


@dataclasses.dataclass(frozen=True, slots=True)
class Cells:
    """One block's rates (B/s): data deduplicable or not, reads serial or parallel."""

    unique_serial: float
    unique_parallel: float
    dedup_serial: float
    dedup_parallel: float

    def __post_init__(self) -> None:
        """Refuse what has no logarithm."""
        if not all(each > 0 and math.isfinite(each) for each in dataclasses.astuple(self)):
            raise ValueError(f"{self}: a rate is a number above 0")

    @property
    def parallel(self) -> float:
        """Return the log of what parallel reads gain, over both kinds of data."""
        unique = math.log(self.unique_parallel / self.unique_serial)
        return (unique + math.log(self.dedup_parallel / self.dedup_serial)) / 2

    @property
    def dedup(self) -> float:
        """Return the log of what deduplicable data gains, over both ways to read."""
        serial = math.log(self.dedup_serial / self.unique_serial)
        return (serial + math.log(self.dedup_parallel / self.unique_parallel)) / 2

    @property
    def interaction(self) -> float:
        """Return the log of the gain of parallel on dedup data over that on unique data."""
        dedup = math.log(self.dedup_parallel / self.dedup_serial)
        return dedup - math.log(self.unique_parallel / self.unique_serial)


@dataclasses.dataclass(frozen=True, slots=True)
class TwoByTwo:
    """Both gains and their interaction, each a ratio with its 95 % interval."""

    parallel: Interval
    dedup: Interval
    interaction: Interval
    blocks: int

    @property
    def told(self) -> str:
        """Return in a sentence whether the gains add up."""
        found = self.interaction
        if found.low <= 1 <= found.high:
            return (
                "no interaction is seen: the gains may add up (the interval holds 1, and leaves "
                f"room for {found.low:.3g} to {found.high:.3g} times)"
            )
        word = "more" if found.ratio > 1 else "less"
        return f"the gains don't add up: parallel reads gain {word} on data that is deduplicated"


def two_by_two(blocks: Sequence[Cells]) -> TwoByTwo:
    """Return gains and interaction over `blocks`; raises ValueError for fewer than five."""
    return TwoByTwo(
        interval_of([each.parallel for each in blocks]),
        interval_of([each.dedup for each in blocks]),
        interval_of([each.interaction for each in blocks]),
        len(blocks),
    )
