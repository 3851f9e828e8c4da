"""Fits the model's parameters on a report's rows: least squares of the logarithms of the ratios.

Levenberg and Marquardt (D. W. Marquardt, SIAM J. Appl. Math. 11 (1963) 431) on the logarithms of
the parameters, so that none is below 0; from one start, without dice. What no row tells of, and
what the rows don't tell apart from another parameter, is named as unfitted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from kvgate.errors import UsageError
from kvgate.kv.predict import RECOMPUTE, Outcome, Parameters, Work, predict
from kvgate.kv.predict_data import Row

START = {
    "prefill": 2000.0,
    "overhead_s": 1.0,
    "decode_base_s": 0.02,
    "decode_each_s": 0.001,
    "interference": 0.01,
    "local": 7e9,
    "device": 10e9,
}
"""Where the search begins, and what a parameter is that changes no row: never a result."""

_RANGE = math.log(1e4)  # a parameter stays within so many times its start
_STEP, _ROUNDS, _SAME = 1e-4, 60, 1e-5  # the last: gain of a round, of what is left
_APART = 0.01  # sine of the angle between effects that are told apart
_STUCK = 1e6  # damping: no step is short enough to be better
_LEAST_EFFECT = 1e-7  # of a figure's logarithm by a parameter's


@dataclasses.dataclass(frozen=True, slots=True)
class Fitted:
    """Parameters by name (those of `START`); ``unfitted`` names those that no row settles."""

    values: Mapping[str, float]
    unfitted: tuple[str, ...]

    def bandwidth(self, row: Row) -> float | None:
        """Return the bandwidth of a row's arm: measured, fitted, or None for recompute."""
        if row.arm == RECOMPUTE:
            return None
        return float(row.bandwidth.base) if row.bandwidth else self.values[row.arm]

    @property
    def parameters(self) -> Parameters:
        """Return them as the model takes them; `lacks` tells which of them mean nothing."""
        names = [field.name for field in dataclasses.fields(Parameters)]
        return Parameters(**{name: self.values[name] for name in names})

    def lacks(self, work: Work, row: Row) -> tuple[str, ...]:
        """Return the parameters that `row` needs and no row settled."""
        needed = ["prefill"] if row.arm == RECOMPUTE else ["overhead_s"]
        if row.arm != RECOMPUTE and row.bandwidth is None:
            needed.append(row.arm)
        if work.output_tokens > 1 and (row.throughput or row.tpot_p50):
            needed += ["decode_base_s", "decode_each_s"]
        return tuple(name for name in needed if name in self.unfitted)

    def outcome(self, work: Work, row: Row) -> Outcome:
        """Return what the model says of `row`."""
        return predict(work, self.parameters, row.concurrency, self.bandwidth(row))


def fit(work: Work, rows: Sequence[Row]) -> Fitted:
    """Return the parameters that fit `rows` best; raises UsageError where there are none."""
    if not rows:
        raise UsageError("no rows to fit on", hint="mark some with 'use: fit'")
    names = list(START)

    def residuals(point: Sequence[float]) -> list[float]:
        values = {name: START[name] * math.exp(x) for name, x in zip(names, point, strict=True)}
        return _residuals(work, rows, Fitted(values, ()))

    free = _free(residuals, names)
    point = _least_squares(residuals, [0.0] * len(names), free)
    values = {name: START[name] * math.exp(x) for name, x in zip(names, point, strict=True)}
    settled = _settled({place: _slope(residuals, point, place) for place in free})
    unfitted = tuple(name for place, name in enumerate(names) if place not in settled)
    return Fitted(values, unfitted)


def implied_tpot_s(row: Row, output_tokens: int) -> float | None:
    """Return the TPOT that a restored row's own tok/s and TTFT imply; None for none.

    All requests of a restored batch decode together, so that (N × tokens ÷ tok/s − TTFT) is what
    decoding took.
    """
    if row.throughput is None or output_tokens < 2:
        return None
    batch_s = row.concurrency * output_tokens / float(row.throughput.base)
    left = batch_s - float(row.ttft_p50.base)
    return left / (output_tokens - 1) if left > 0 else None


def _residuals(work: Work, rows: Sequence[Row], fitted: Fitted) -> list[float]:
    """Return log(predicted ÷ told) of every figure that is fitted on."""
    found = []
    for row in rows:
        told = row.figures()
        if row.arm != RECOMPUTE:  # p90 and p99 of restores repeat the p50, tok/s the TPOT
            tpot_s = told.get("tpot_p50", implied_tpot_s(row, work.output_tokens))
            told = {"ttft_p50": told["ttft_p50"]} | ({"tpot_p50": tpot_s} if tpot_s else {})
        outcome = fitted.outcome(work, row)
        found += [math.log(outcome.value(name) / value) for name, value in told.items()]
    return found


def _free(residuals: Callable[[Sequence[float]], list[float]], names: Sequence[str]) -> list[int]:
    """Return the places of the parameters that change any figure."""
    start = [0.0] * len(names)
    before = residuals(start)
    free = []
    for place in range(len(names)):
        moved = residuals([0.5 if at == place else 0.0 for at in range(len(names))])
        if any(abs(a - b) > _LEAST_EFFECT for a, b in zip(before, moved, strict=True)):
            free.append(place)
    return free


def _least_squares(
    residuals: Callable[[Sequence[float]], list[float]], start: Sequence[float], free: Sequence[int]
) -> list[float]:
    """Return the point near `start` with the least sum of squares; only `free` places move."""
    point, damping = list(start), 1e-3
    now = residuals(point)
    for _ in range(_ROUNDS):
        slopes = {}
        for place in free:
            slope = _slope(residuals, point, place)
            if not _held(point[place], -_dot(slope, now)):
                slopes[place] = slope
        normal = [[_dot(a, b) for b in slopes.values()] for a in slopes.values()]
        for place, row in enumerate(normal):
            row[place] = row[place] * (1 + damping) + 1e-12
        step = solved(normal, [-_dot(slope, now) for slope in slopes.values()])
        tried = _at(point, dict(zip(slopes, step, strict=True)))
        then = residuals(tried)
        gain = _dot(now, now) - _dot(then, then)
        damping = damping / 5 if gain > 0 else damping * 5
        if 0 <= gain <= _SAME * _dot(now, now) or damping > _STUCK:
            break
        if gain > 0:
            point, now = tried, then
    return point


def _slope(
    residuals: Callable[[Sequence[float]], list[float]], point: Sequence[float], place: int
) -> list[float]:
    """Return how every residual changes with one parameter."""
    ends = (residuals(_at(point, {place: by})) for by in (_STEP, -_STEP))
    wide = _at(point, {place: _STEP})[place] - _at(point, {place: -_STEP})[place]
    return [(a - b) / wide for a, b in zip(*ends, strict=True)]


def _settled(slopes: Mapping[int, Sequence[float]]) -> list[int]:
    """Return the places whose effect is not (nearly) a sum of the others' effects."""
    found = []
    for place, slope in slopes.items():
        basis: list[list[float]] = []
        for other in (each for at, each in slopes.items() if at != place):
            left = _without(other, basis)
            if _dot(left, left) > _APART**2 * _dot(other, other):
                basis.append(left)
        rest = _without(slope, basis)
        if _dot(rest, rest) > _APART**2 * _dot(slope, slope):
            found.append(place)
    return found


def _without(vector: Sequence[float], basis: Sequence[Sequence[float]]) -> list[float]:
    """Return `vector` less its parts along `basis`, whose vectors stand at right angles."""
    left = list(vector)
    for each in basis:
        by = _dot(left, each) / _dot(each, each)
        left = [a - by * b for a, b in zip(left, each, strict=True)]
    return left


def _held(x: float, downhill: float) -> bool:
    """Tell whether a parameter is at an end of its range, and better values are beyond it."""
    return (x <= -_RANGE and downhill <= 0) or (x >= _RANGE and downhill >= 0)


def _at(point: Sequence[float], steps: Mapping[int, float]) -> list[float]:
    moved = [x + steps.get(place, 0.0) for place, x in enumerate(point)]
    return [min(max(x, -_RANGE), _RANGE) for x in moved]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def solved(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Return x of matrix · x = right, by elimination with pivots; raises ValueError for none."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place in range(len(rows)):
        best = max(range(place, len(rows)), key=lambda at: abs(rows[at][place]))
        rows[place], rows[best] = rows[best], rows[place]
        if not rows[place][place]:
            raise ValueError("the equations have no single solution")
        for below in rows[place + 1 :]:
            by = below[place] / rows[place][place]
            for at in range(place, len(below)):
                below[at] -= by * rows[place][at]
    found = [0.0] * len(rows)
    for place in reversed(range(len(rows))):
        known = math.fsum(rows[place][at] * found[at] for at in range(place + 1, len(rows)))
        found[place] = (rows[place][-1] - known) / rows[place][place]
    return found
