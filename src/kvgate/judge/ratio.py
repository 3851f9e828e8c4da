"""The ratio of two arms over blocks: its interval, and what planned looks at it decide.

A block is one round with each arm in it once, in random order, so that what moves slowly meets
both and cancels in the block's log-ratio; random order keeps what is left from adding up. The
interval of the mean log-ratio is Student's (W. S. Gosset, Biometrika 6 (1908) 1), or a
studentized bootstrap's (B. Efron, R. J. Tibshirani, An Introduction to the Bootstrap (1993),
section 12.5). PASS and FAIL take the whole interval on one side of the limit. Criteria are not
corrected for each other: a gate passes only if all of them do, which errs on the safe side.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from kvgate.judge.drift import Trend, trend
from kvgate.judge.sequential import ERROR, levels
from kvgate.judge.student import t_above
from kvgate.model.quantity import Quantity
from kvgate.model.verdict import Verdict
from kvgate.spec.gate import Limit
from kvgate.spec.ratio import LEAST_BLOCKS, LEAST_FOR_BOOTSTRAP

RESAMPLES = 4999
"""Bootstrap resamples: the 2.5 % quantile is the 125th of them, that of 0.1 % the 5th."""

LEAST_RANK = 5
"""The lowest rank of a resample that may be an end of an interval."""

DRIFT_LEVEL = 0.02
"""A trend over blocks counts below this p: five blocks in strict order have 2/5! = 0.0167."""

DIGITS = 6
"""Significant digits of ratios and their bounds, the same on every machine."""


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """A ratio and the interval that holds it with probability 1 - 2 × `tail`."""

    ratio: float
    low: float
    high: float
    tail: float

    @property
    def level(self) -> str:
        """Return its probability as text: ``95 %``, ``99.695 %``."""
        return f"{100 * (1 - 2 * self.tail):.5g} %"

    @property
    def noise(self) -> float:
        """Return how far from 1 its farther end is: the noise floor, of an A/A ratio."""
        return max(abs(self.low - 1), abs(self.high - 1))


@dataclasses.dataclass(frozen=True, slots=True)
class BlockRatio:
    """One block: which, and the log of its ratio, or why it has none."""

    block: str
    log: float | None
    problem: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What the planned looks came to: the deciding look, else the last that was possible.

    ``interval`` is None where no look was possible; ``ratio`` is of the blocks it used, None
    for none.
    """

    verdict: Verdict
    because: str
    ratio: float | None
    interval: Interval | None
    used: int  # blocks
    look: int  # 1 for the first; 0: none was possible
    drift: str = ""  # of what was decided all the same


def interval_of(
    logs: Sequence[float], method: str = "t", *, tail: float = ERROR, seed: str = ""
) -> Interval:
    """Return the interval of the ratio whose blocks' logs are `logs`; ends as ratios.

    `method` is ``t`` (LEAST_BLOCKS blocks or more) or ``bootstrap`` (LEAST_FOR_BOOTSTRAP), which
    takes at each end the farther one of the bootstrap's and Student's: alone, of 12 blocks with
    heavy tails, the bootstrap's held the ratio in only 91.6 % of 500 simulations. Raises
    ValueError for fewer blocks, and for a tail that RESAMPLES resamples can't carry.
    """
    least = LEAST_FOR_BOOTSTRAP if method == "bootstrap" else LEAST_BLOCKS
    if len(logs) < least:
        raise ValueError(f"{blocks_told(len(logs))} can't carry an interval; it takes {least}")
    mean, error = _mean_and_error(logs)
    reach = t_above(tail, len(logs) - 1) * error
    low, high = mean - reach, mean + reach
    if method == "bootstrap":
        ends = _bootstrap_ends(logs, tail, seed)
        low, high = min(low, ends[0]), max(high, ends[1])
    ratio, below, above = (_rounded(math.exp(each)) for each in (mean, low, high))
    return Interval(ratio, below, above, tail)


def _mean_and_error(logs: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(logs) / len(logs)
    variance = math.fsum((each - mean) ** 2 for each in logs) / (len(logs) - 1)
    return mean, math.sqrt(variance / len(logs))


def _bootstrap_ends(logs: Sequence[float], tail: float, seed: str) -> tuple[float, float]:
    """Return both ends of the bootstrap-t interval of the mean (Efron and Tibshirani (12.22))."""
    rank = round(tail * (RESAMPLES + 1))
    if rank < LEAST_RANK:
        raise ValueError(f"{RESAMPLES} resamples can't carry a tail of {100 * tail:.3g} %")
    mean, error = _mean_and_error(logs)
    draws = _draws(f"{seed}/{len(logs)}", len(logs))
    found = []
    for _ in range(RESAMPLES):
        again, spread = _mean_and_error([logs[next(draws)] for _ in logs])
        away = again - mean
        found.append(away / spread if spread else math.copysign(math.inf, away) if away else 0.0)
    found.sort()
    high, low = found[rank - 1], found[RESAMPLES - rank]
    if not (math.isfinite(high) and math.isfinite(low)):
        raise ValueError("too many resamples have no spread")
    return mean - low * error, mean - high * error


def _draws(seed: str, below: int) -> Iterator[int]:
    """Yield whole numbers from 0 to `below` - 1, each as likely: SHA-256 of seed and counter."""
    most = 2**16 // below * below
    for counter in itertools.count():
        digest = hashlib.sha256(f"{seed}/{counter}".encode()).digest()
        for at in range(0, len(digest), 2):
            number = digest[at] * 256 + digest[at + 1]
            if number < most:
                yield number % below


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def compare(
    blocks: Sequence[BlockRatio],
    limit: Limit,
    *,
    looks: Sequence[int],
    method: str = "t",
    seed: str = "",
) -> Compared:
    """Return what the planned `looks` at `blocks` (in the order of their rounds) decide.

    The first look whose whole interval lies on one side of `limit` decides, and nothing after
    it is looked at. A block without a ratio leaves its look and all later ones undecided: what
    could not be measured is not dropped from a comparison.
    """
    able = tuple(looks)
    if not able or able[0] < LEAST_BLOCKS:
        few = f"{blocks_told(able[0] if able else 0)} planned" if able else "no look is planned"
        return _undecided(blocks, f"{few}; an interval takes {LEAST_BLOCKS}")
    last: Compared | None = None
    for number, (place, tail) in enumerate(zip(able, levels(able), strict=True), 1):
        part = blocks[:place]
        if method == "bootstrap" and place < LEAST_FOR_BOOTSTRAP and place != able[-1]:
            continue  # its share of the error is not spent
        if bad := next((each for each in part if each.log is None), None):
            return _undecided(blocks, f"block {bad.block} has no ratio: {bad.problem}", last)
        if len(part) < place:
            short = f"{len(part)} of {blocks_told(place)} that the next look takes"
            return _undecided(blocks, short, last)
        logs = [each.log for each in part if each.log is not None]
        try:
            last = _looked(interval_of(logs, method, tail=tail, seed=seed), logs, limit, number)
        except ValueError as err:
            return _undecided(blocks, str(err), last)
        if last.verdict is not Verdict.INCONCLUSIVE:
            return last
    return last or _undecided(blocks, "no look is planned")


def _undecided(
    blocks: Sequence[BlockRatio], because: str, last: Compared | None = None
) -> Compared:
    """Return that nothing is decided; the ratio of what there is, or the last look's."""
    if last is not None:
        return dataclasses.replace(last, because=f"{last.because}; {because}")
    logs = [each.log for each in blocks if each.log is not None]
    ratio = _rounded(math.exp(math.fsum(logs) / len(logs))) if logs else None
    return Compared(
        verdict=Verdict.INCONCLUSIVE,
        because=because,
        ratio=ratio,
        interval=None,
        used=len(logs),
        look=0,
    )


def _looked(found: Interval, logs: Sequence[float], limit: Limit, look: int) -> Compared:
    """Return what one look decides: by its interval, and by that as a trend would move it."""
    side, word = side_of(found.low, found.high, limit)
    because = f"its interval ({found.level}) {word}" if side is not Verdict.PASS else ""
    drifts = ""
    decisive = side is not Verdict.INCONCLUSIVE
    moved = trend(range(len(logs)), [math.exp(each) for each in logs]) if decisive else None
    if moved is not None and moved.significant(DRIFT_LEVEL):
        drifts = _told(moved)
        half = 1 + abs(moved.rise) / 2
        if side_of(found.low / half, found.high * half, limit)[0] is not side:
            side, because = Verdict.INCONCLUSIVE, f"the ratio {drifts}: it is not one ratio"
    return Compared(
        verdict=side,
        because=because,
        ratio=found.ratio,
        interval=found,
        used=len(logs),
        look=look,
        drift=drifts,
    )


def _told(moved: Trend) -> str:
    return f"drifts by {100 * moved.rise:+.2g} % from the first block to the last (p {moved.p:g})"


def side_of(low: float, high: float, limit: Limit) -> tuple[Verdict, str]:
    """Return on which side of `limit` the interval lies as a whole, and that in words."""
    ends = [Fraction(repr(each)) for each in (low, high)]
    floor = limit.at_least or (limit.within[0] if limit.within else None)
    roof = limit.at_most or (limit.within[1] if limit.within else None)
    holds = (floor is None or ends[0] >= floor.base) and (roof is None or ends[1] <= roof.base)
    if holds:
        return Verdict.PASS, "holds the limit"
    for bound, beyond, word in _beyond(floor, roof):
        if beyond(ends, bound.base):
            return Verdict.FAIL, f"lies wholly {word} {bound}"
    return Verdict.INCONCLUSIVE, "reaches over the limit on both sides"


def _beyond(
    floor: Quantity | None, roof: Quantity | None
) -> Iterator[tuple[Quantity, Callable[[Sequence[Fraction], Fraction], bool], str]]:
    if floor is not None:
        yield floor, lambda ends, edge: ends[1] < edge, "under"
    if roof is not None:
        yield roof, lambda ends, edge: ends[0] > edge, "over"


def blocks_told(number: int) -> str:
    """Return ``1 block``, ``5 blocks``."""
    return f"{number} block{'' if number == 1 else 's'}"
