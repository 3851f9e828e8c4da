"""Steady state by SNIA's rule, exactly: five rounds whose values neither spread nor drift.

SSS PTS 2.0.2 (1 October 2020), definition 2.1.24: a tracked variable is steady over a measurement
window of five rounds if its largest and smallest value lie at most 20 % of their average apart, and
the line fitted to them by least squares rises or falls by at most 10 % of that average from the
first round to the last. Both bounds belong to it ("no more than"), so all arithmetic is exact.
fio's own ``steadystate`` is another rule: each sample within a share of the mean, and a slope a
sample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction

WINDOW = 5
"""Rounds of a measurement window."""

MOST_ROUNDS = 25
"""Rounds after which it is steady or is reported as not having become so."""

MOST_SPREAD = Fraction(20, 100)
MOST_RISE = Fraction(10, 100)


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """Five rounds of one variable, the first of them numbered `first` (from 1)."""

    first: int
    values: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        """Refuse what is no window."""
        if len(self.values) != WINDOW or self.first < 1:
            raise ValueError(f"a window is {WINDOW} rounds from round 1 on, not {self.values!r}")

    @property
    def last(self) -> int:
        """Return the number of its last round."""
        return self.first + WINDOW - 1

    @property
    def average(self) -> Fraction:
        """Return the mean of the five values."""
        return sum(self.values, Fraction(0)) / WINDOW

    @property
    def spread(self) -> Fraction:
        """Return largest less smallest value."""
        return max(self.values) - min(self.values)

    @property
    def slope(self) -> Fraction:
        """Return what the fitted line rises a round (least squares)."""
        middle = Fraction(WINDOW - 1, 2)
        products = ((at - middle) * value for at, value in enumerate(self.values))
        return sum(products, Fraction(0)) / sum((at - middle) ** 2 for at in range(WINDOW))

    @property
    def intercept(self) -> Fraction:
        """Return the fitted line's value at round 0: the line is slope × round + intercept."""
        return self.average - self.slope * (self.first + Fraction(WINDOW - 1, 2))

    @property
    def rise(self) -> Fraction:
        """Return by how much the fitted line rises or falls between the first and last round."""
        return abs(self.slope) * (WINDOW - 1)

    @property
    def spread_share(self) -> Fraction | None:
        """Return the spread as part of the average; None where the average is not above 0."""
        return self.spread / self.average if self.average > 0 else None

    @property
    def rise_share(self) -> Fraction | None:
        """Return the rise as part of the average; None where the average is not above 0."""
        return self.rise / self.average if self.average > 0 else None

    @property
    def steady(self) -> bool:
        """Tell whether both bounds hold; where nothing was moved, nothing is steady."""
        spread, rise = self.spread_share, self.rise_share
        if spread is None or rise is None:
            return False
        return spread <= MOST_SPREAD and rise <= MOST_RISE


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What rounds come to: the window of each variable that decides, or the newest one.

    ``windows`` is empty before there are five rounds. ``ended``: no further round is wanted.
    """

    rounds: int
    windows: Mapping[str, Window]
    steady: bool

    @property
    def ended(self) -> bool:
        """Tell whether it is steady, or had all the rounds it may have."""
        return self.steady or self.rounds >= MOST_ROUNDS

    @property
    def last(self) -> int | None:
        """Return the last round of the windows."""
        return next((window.last for window in self.windows.values()), None)


def outcome(tracked: Mapping[str, Sequence[Fraction]]) -> Outcome:
    """Return what the rounds so far of every tracked variable come to.

    It is steady at the first window that satisfies both bounds for all variables at once; what
    was measured after that, or after 25 rounds, is not looked at. Raises ValueError for no
    variable, and for variables that have not the same rounds.
    """
    counts = {len(values) for values in tracked.values()}
    if len(counts) != 1:
        raise ValueError(f"tracked variables of {sorted(counts)} rounds; all need the same")
    rounds = min(counts.pop(), MOST_ROUNDS)
    newest: dict[str, Window] = {}
    for last in range(WINDOW, rounds + 1):
        first = last - WINDOW
        newest = {
            name: Window(first + 1, tuple(values[first:last])) for name, values in tracked.items()
        }
        if all(window.steady for window in newest.values()):
            return Outcome(last, newest, steady=True)
    return Outcome(rounds, newest, steady=False)
