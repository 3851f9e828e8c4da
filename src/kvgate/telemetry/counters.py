"""Turns counters into what they moved by; one that wrapped or began again is said, not guessed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvgate.telemetry.wire import MISSING

Matrix = npt.NDArray[np.int64]

_32_BITS = 2**32
PLAUSIBLE = 8
"""A wrap is believed where it makes a step at most this many times the largest seen of late."""


MOST = 50
"""That fell in one block and are looked at one by one: a host may lie in every sample."""


@dataclasses.dataclass(frozen=True, slots=True)
class WentBack:
    """Counter `name` was lower in row `row` than in the one before."""

    row: int
    name: str
    before: int
    now: int
    step: int | None  # what it moved by if it wrapped at 32 bits; None where it began again

    @property
    def text(self) -> str:
        """Return what happened, in words."""
        if self.step is None:
            return f"went back from {self.before} to {self.now}: it began again, no rate"
        return f"went back from {self.before} to {self.now}: it wrapped at 32 bits, by {self.step}"


class Counters:
    """Follows the counters of one group of series; `names` in the order of the values."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._devices = [name.rpartition(".")[0] for name in names]
        self._before: Matrix | None = None
        self._largest = np.zeros(len(names), np.int64)

    def restart(self) -> None:
        """Forget what they were: the next values are the first ones."""
        self._before = None

    def follow(self, other: Counters) -> None:
        """Go on from what `other`, of the names before these, knows of those that are here too."""
        if other._before is not None:
            known = dict(zip(other._names, other._before.tolist(), strict=True))
            self._before = np.array([known.get(name, MISSING) for name in self._names], np.int64)

    def moved(self, rows: Matrix) -> tuple[Matrix, list[WentBack], int]:
        """Return what each counter moved by up to each of `rows` (time × series), and which fell.

        Of more than `MOST` that fell the others have no step either; how many is the last value.

        MISSING where there is nothing to compare with, or nothing that can be told. A wrap at 32
        bits is believed only where no other counter of the device went back at that moment, and
        the step is no more than `PLAUSIBLE` times the largest seen.
        """
        first = self._before if self._before is not None else np.full(rows.shape[1], MISSING)
        before = np.vstack([first[None, :], rows[:-1]])
        known = (before != MISSING) & (rows != MISSING)
        steps = np.where(known, rows - np.where(known, before, rows), MISSING)
        back = known & (rows < before)
        steps[back] = MISSING
        found: list[WentBack] = []
        places = np.argwhere(back)
        for row, series in places[:MOST].tolist():
            found.append(self._back(row, series, before, rows, back, steps))
            if (step := found[-1].step) is not None:
                steps[row, series] = step
        self._largest = np.maximum(self._largest // 2, np.where(known, steps, 0).max(axis=0))
        self._before = rows[-1].copy()
        return steps, found, max(0, len(places) - MOST)

    def _back(
        self, row: int, series: int, before: Matrix, rows: Matrix, back: Matrix, steps: Matrix
    ) -> WentBack:
        was, now = int(before[row, series]), int(rows[row, series])
        device = self._devices[series]
        alone = not any(
            self._devices[other] == device for other in np.flatnonzero(back[row]) if other != series
        )
        step = now + _32_BITS - was
        largest = max(int(self._largest[series]), int(steps[:, series].max()))
        fits = _32_BITS // 2 <= was < _32_BITS and 0 < step <= PLAUSIBLE * largest
        return WentBack(row, self._names[series], was, now, step if alone and fits else None)
