"""Holds the ratio of two arms in one place against its limit, and tells all that it rests on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from kvgate.judge import arms
from kvgate.judge.limits import Check
from kvgate.judge.ratio import Compared, blocks_told, compare
from kvgate.model.finding import Comparison
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.model.verdict import Verdict
from kvgate.spec.gate import Criterion, Limit
from kvgate.spec.ratio import AGAIN, RatioOf


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """What was fixed before the first round: after which rounds is looked, and the seed.

    ``looks`` is by the first word of a measure; ``seed`` starts the bootstrap's draws.
    """

    looks: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    seed: str = ""

    def of(self, measure: str) -> tuple[int, ...]:
        """Return after which rounds `measure` is looked at; empty where nothing was planned."""
        return self.looks.get(measure.partition(".")[0], ())


def held(
    criterion: Criterion, limit: Limit, planned: Planned, taken: Sequence[Measurement]
) -> tuple[Check, Comparison, tuple[Measurement, ...]] | None:
    """Return how the criterion's ratio stands in one place, with the measurements behind it.

    None where none of `taken` (of one host and item) is of either arm.
    """
    spec = criterion.ratio
    if spec is None or not (used := arms.of_arms(taken, spec)):
        return None
    looks = planned.of(criterion.measure)
    blocks = arms.paired(used, spec)
    if unlike := arms.mixed(used):
        told = f"blocks differ in {unlike}: the criterion must name it under 'where'"
        found = Compared(
            verdict=Verdict.INCONCLUSIVE, because=told, ratio=None, interval=None, used=0, look=0
        )
    else:
        found = compare(
            blocks, limit, looks=looks, method=spec.interval, seed=f"{planned.seed}/{criterion.id}"
        )
    beyond = len(blocks) - looks[-1] if looks else 0
    return _check(criterion, limit, found, beyond), _told(spec, found, looks, used), used


def _check(criterion: Criterion, limit: Limit, found: Compared, beyond: int) -> Check:
    because = found.because
    if beyond > 0:
        extra = f"{blocks_told(beyond)} beyond the plan not looked at"
        because = f"{because}; {extra}" if because else extra
    if found.verdict is Verdict.PASS and found.drift:
        because = "; ".join(filter(None, (because, f"it {found.drift}, which changes nothing")))
    because = "; ".join(filter(None, (because, _against_itself(criterion, found))))
    off, close = _distance(criterion, limit, found)
    return Check(found.verdict, _shown(found), because, off, close)


def _against_itself(criterion: Criterion, found: Compared) -> str:
    """Return what an A/A comparison shows: it has no winner; "" of two arms, or undecided."""
    spec, interval = criterion.ratio, found.interval
    if spec is None or interval is None or spec.of.removesuffix(AGAIN) != spec.to:
        return ""
    if interval.low <= 1 <= interval.high:
        return "no difference shown"
    return "an arm differs from itself by more than chance: its second run is not like its first"


def _shown(found: Compared) -> str:
    if found.ratio is None:
        return ""
    if found.interval is None:
        return f"{found.ratio:g} x over {blocks_told(found.used)}"
    low, high = found.interval.low, found.interval.high
    return f"{found.ratio:g} x ({low:g} to {high:g} x, {blocks_told(found.used)})"


def _distance(criterion: Criterion, limit: Limit, found: Compared) -> tuple[Fraction, bool]:
    """Return how far the ratio is beyond its limit, relative to it, and whether a PASS is close."""
    if found.ratio is None:
        return Fraction(0), False
    bound, sign = (limit.at_least, -1) if limit.at_least else (limit.at_most, 1)
    if bound is None or not bound.number:
        return Fraction(0), False
    off = (Fraction(repr(found.ratio)) - bound.base) * sign / abs(bound.base)
    return off, found.verdict is Verdict.PASS and -off <= criterion.marginal.base


def _told(
    spec: RatioOf, found: Compared, looks: Sequence[int], used: Sequence[Measurement]
) -> Comparison:
    noise = arms.noise_of(used, spec)
    interval = found.interval
    planned = f"{looks[-1]} planned" if looks else "none planned"
    look = f", look {found.look} of {len(looks)}" if found.look else ""
    return Comparison(
        of=spec.of,
        to=spec.to,
        ratio="" if found.ratio is None else f"{found.ratio:g} x",
        low=f"{interval.low:g} x" if interval else "",
        high=f"{interval.high:g} x" if interval else "",
        level=interval.level if interval else "",
        blocks=f"{blocks_told(found.used)} of {planned}{look}",
        noise=noise if isinstance(noise, str) else percent_told(noise.noise),
    )


def percent_told(share: float) -> str:
    """Return a share as text, with two digits: ``1.2 %``."""
    return str(Quantity.of(f"{100 * share:.2g}", "%"))
