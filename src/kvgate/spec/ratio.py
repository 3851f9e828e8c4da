"""How a criterion compares two arms, and what must be planned before the first round of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pydantic

from kvgate.spec.base import Slug, Strict

LEAST_BLOCKS = 5
"""Blocks that an interval by Student's t takes at least."""

LEAST_FOR_BOOTSTRAP = 10
"""Blocks that a studentized bootstrap takes at least: fewer have too few distinct resamples."""

MOST_LOOKS = 5
"""Looks at one comparison at most: more of them gain nothing."""

AGAIN = "-again"
"""What the second run of one arm in a round is called after it: ``local-again``, for A/A."""


class RatioOf(Strict):
    """How many times better arm ``of`` is than arm ``to``, block by block (above 1 is better).

    A block is one round with each arm in it once. ``statistic`` makes one number of several
    values that an arm has in a block (of one value it is that value); ``better`` says which
    way is better, lower for a time, higher for a rate. ``interval`` is Student's, which holds
    what it says while both arms are noisy alike (where only one stalls now and then, 89 to 92 % by
    simulation); ``bootstrap`` holds it then too, of LEAST_FOR_BOOTSTRAP blocks or more. No interval
    of a few blocks can know of a stall that none of them had: an arm that loses a quarter of its
    speed in one block of ten passes too easily at 5 blocks. More blocks, and a soak, find those.
    """

    of: Slug
    to: Slug
    statistic: Literal["median", "p50", "p90", "mean"] = "median"
    better: Literal["higher", "lower"]
    interval: Literal["t", "bootstrap"] = "t"

    @pydantic.model_validator(mode="after")
    def _two(self) -> RatioOf:
        if self.of == self.to:
            raise ValueError(f"'{self.of}' against itself; A/A is 'of: {self.of}{AGAIN}'")
        return self


def checked_looks(rounds: int, looks: list[int] | None) -> tuple[int, ...]:
    """Return after which rounds is looked (default: after all); raises ValueError where unsound."""
    if looks is None:
        return (rounds,)
    if not 1 <= len(looks) <= MOST_LOOKS or sorted(set(looks)) != looks:
        raise ValueError(f"looks: 1 to {MOST_LOOKS} numbers of rounds, rising")
    if looks[0] < LEAST_BLOCKS:
        raise ValueError(f"looks: the first is after {LEAST_BLOCKS} rounds or more")
    if looks[0] * 5 < rounds:  # it may spend less than 1e-7 of the error: nothing passes it
        raise ValueError(f"looks: the first is after a fifth of the {rounds} rounds or later")
    if looks[-1] != rounds:
        raise ValueError(f"looks: the last is after all {rounds} rounds")
    return tuple(looks)


def checked_again(arms: Sequence[str], again: str | None) -> None:
    """Raise ValueError where `again`, the arm with a second run (A/A), is none of `arms`."""
    if again is not None and again not in arms:
        raise ValueError(f"again: '{again}' is none of the arms")


def runs_of(arms: Sequence[str], again: str | None) -> tuple[str, ...]:
    """Return what is run once a round: the arms, and `again`, one of them, a second time."""
    return (*arms, *([again + AGAIN] if again else []))
