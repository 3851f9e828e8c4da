"""The pyramid: series in bins of a width, each with its least, greatest, sum and count."""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
import numpy.typing as npt

from kvgate.telemetry.wire import MISSING

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LEVELS_S = (10, 60, 600, 3600)
"""Widths of the levels above the samples themselves."""

_MOST = np.int64(2**63 - 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Bins:
    """Some series (first axis) in bins (second axis) that begin at `t`, ms since 1970 UTC.

    Where no sample fell into a bin ``count`` is 0 and ``low`` and ``high`` are MISSING. Sums are
    exact up to 2⁵³.
    """

    width_ms: int
    t: Ints
    low: Ints
    high: Ints
    total: Floats
    count: Ints

    @classmethod
    def of(cls, width_ms: int, t: Ints, values: Ints, sized: Ints | None = None) -> Self:
        """Return the bins of `values` (series × time) at `t`, which never falls.

        Sums are those of `values`; least and greatest those of `sized`, where it is given.
        """
        known = values != MISSING
        seen = values if sized is None else sized
        starts, at = _edges(width_ms, t)
        return cls(
            width_ms,
            at,
            *_ends(
                np.minimum.reduceat(np.where(known, seen, _MOST), starts, axis=1),
                np.maximum.reduceat(np.where(known, seen, MISSING), starts, axis=1),
            ),
            np.add.reduceat(np.where(known, values, 0).astype(np.float64), starts, axis=1),
            np.add.reduceat(known.astype(np.int64), starts, axis=1),
        )

    def wider(self, width_ms: int) -> Bins:
        """Return them in bins of `width_ms`, a multiple of theirs; parts of one bin become one."""
        starts, at = _edges(width_ms, self.t)
        known = self.count > 0
        return Bins(
            width_ms,
            at,
            *_ends(
                np.minimum.reduceat(np.where(known, self.low, _MOST), starts, axis=1),
                np.maximum.reduceat(np.where(known, self.high, MISSING), starts, axis=1),
            ),
            np.add.reduceat(self.total, starts, axis=1),
            np.add.reduceat(self.count, starts, axis=1),
        )

    def series(self, number: int) -> Bins:
        """Return series `number` alone."""
        one = slice(number, number + 1)
        return Bins(
            self.width_ms, self.t, self.low[one], self.high[one], self.total[one], self.count[one]
        )


def joined(parts: list[Bins]) -> Bins:
    """Return `parts`, of the same series and width, one behind the other."""
    return Bins(
        parts[0].width_ms,
        np.concatenate([each.t for each in parts]),
        np.concatenate([each.low for each in parts], axis=1),
        np.concatenate([each.high for each in parts], axis=1),
        np.concatenate([each.total for each in parts], axis=1),
        np.concatenate([each.count for each in parts], axis=1),
    )


def _edges(width_ms: int, t: Ints) -> tuple[Ints, Ints]:
    """Return at which index each bin begins, and at what time."""
    slots = t // width_ms
    starts = np.flatnonzero(np.concatenate([[True], slots[1:] != slots[:-1]]))
    return starts, slots[starts] * width_ms


def _ends(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    return np.where(low == _MOST, MISSING, low), high


def sized(values: Ints, span_ms: Ints, every_ms: int, counter: npt.NDArray[np.bool_]) -> Ints:
    """Return `values` (series × time) with the steps of counters as if each took `every_ms`."""
    odd = (span_ms != every_ms) & (span_ms > 0)
    if not odd.any() or not counter.any():
        return values
    factor = np.where(odd, every_ms / np.maximum(span_ms, 1), 1.0)
    scaled = np.rint(np.where(values == MISSING, 0, values) * factor[None, :]).astype(np.int64)
    change = counter[:, None] & odd[None, :] & (values != MISSING)
    return np.where(change, scaled, values)
