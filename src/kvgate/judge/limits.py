"""Holds one value against one limit: does it hold, by how much, and how close was it."""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Iterable
from fractions import Fraction

from kvgate.judge import versions
from kvgate.model.quantity import Quantity
from kvgate.model.record import Value
from kvgate.model.verdict import Verdict
from kvgate.spec.expect import Requirement
from kvgate.spec.gate import Limit

TEXT_SHOWN = 120
"""Characters of a measured text that a finding shows; the evidence has it whole."""

_SHORT = decimal.Context(prec=6, rounding=decimal.ROUND_HALF_EVEN)


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One value against one limit.

    ``off`` orders values of one criterion, the worst highest: how far beyond the limit (below 0:
    how far within), relative to the limit where that is not 0.
    """

    verdict: Verdict  # PASS, FAIL or INCONCLUSIVE
    shown: str  # the value as text
    because: str = ""  # "40 % over", "not 6.8"; empty for a PASS
    off: Fraction = Fraction(0)
    marginal: bool = False


def check(value: Value, limit: Limit, needed: Requirement | None, marginal: Quantity) -> Check:
    """Return how `value` stands against `limit`.

    `needed` is what the inventory declares, for ``matches_inventory`` only. `marginal` is the
    share of the limit within which a PASS counts as close to it; 0 turns that off, and a limit
    of 0 has no such share.
    """
    if limit.at_least is not None:
        return _between(value, limit.at_least, None, marginal.base)
    if limit.at_most is not None:
        return _between(value, None, limit.at_most, marginal.base)
    if limit.within is not None:
        return _between(value, *limit.within, marginal.base)
    if limit.equals is not None:
        return _one_of(value, (limit.equals,))
    if limit.one_of is not None:
        return _one_of(value, limit.one_of)
    return _as_declared(value, needed, limit.tolerance)


def show(value: Value) -> str:
    """Return `value` as a reader wants it: six digits of a number, yes or no, a bounded text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Quantity):
        return str(Quantity(_SHORT.plus(value.number), value.unit))
    return value if len(value) <= TEXT_SHOWN else value[: TEXT_SHOWN - 1] + "…"


def percent(share: Fraction) -> str:
    """Return a share as text in percent: ``40 %``, ``2.5 %``, ``under 0.1 %``."""
    tenths = round(share * 1000)
    if tenths == 0:
        return "under 0.1 %" if share else "0 %"
    whole, tenth = divmod(tenths, 10)
    return f"{whole}.{tenth} %" if whole < 10 and tenth else f"{round(share * 100)} %"


def _between(
    value: Value, low: Quantity | None, high: Quantity | None, marginal: Fraction
) -> Check:
    """Hold a quantity against inclusive bounds, of which one may be absent."""
    bounds = [
        (bound, sign, word)
        for bound, sign, word in ((low, -1, "under"), (high, 1, "over"))
        if bound is not None
    ]
    wrong = _incomparable(value, [bound for bound, _, _ in bounds])
    if wrong or not isinstance(value, Quantity):
        return Check(Verdict.INCONCLUSIVE, show(value), wrong)
    mine = value.base
    beyond = [_relative((mine - (edge := bound.base)) * sign, edge) for bound, sign, _ in bounds]
    off = max(beyond)
    bound, _, word = bounds[beyond.index(off)]
    if off > 0:
        named = f" {bound}" if len(bounds) > 1 else ""
        by = f"{percent(off)} {word}{named}" if bound.number else f"{word} the limit of {bound}"
        return Check(Verdict.FAIL, _shown_beside(value, bound), by, off)
    close = marginal > 0 and any(
        each.number and -share <= marginal
        for share, (each, _, _) in zip(beyond, bounds, strict=True)
    )
    return Check(Verdict.PASS, _shown_beside(value, bound), "", off, close)


def _relative(distance: Fraction, edge: Fraction) -> Fraction:
    return distance / abs(edge) if edge else distance


def _shown_beside(value: Quantity, bound: Quantity) -> str:
    """Return the value shortened, but never so that it seems to lie on or across the bound."""
    short = Quantity(_SHORT.plus(value.number), value.unit)
    if short.number == value.number:
        return str(short)
    side, shown_side = (_sign(each.base - bound.base) for each in (value, short))
    return str(short if side == shown_side else value)


def _sign(number: Fraction) -> int:
    return (number > 0) - (number < 0)


def _one_of(value: Value, allowed: Iterable[Value]) -> Check:
    """Hold a value against the ones that are allowed."""
    allowed = tuple(allowed)
    if any(_kind(value) == _kind(each) and value == each for each in allowed):
        return Check(Verdict.PASS, show(value))
    comparable = [each for each in allowed if _kind(each) == _kind(value)]
    if not comparable:
        return Check(Verdict.INCONCLUSIVE, show(value), _incomparable(value, allowed))
    off = Fraction(0)
    if isinstance(value, Quantity):
        off = min(
            _relative(abs(value.base - each.base), each.base)
            for each in comparable
            if isinstance(each, Quantity)
        )
    named = ", ".join(show(each) for each in allowed)
    return Check(
        Verdict.FAIL,
        show(value) if show(value) != named else str(value),
        f"not {named}" if len(allowed) == 1 else f"none of {named}",
        off,
    )


def _as_declared(value: Value, needed: Requirement | None, tolerance: Quantity | None) -> Check:
    """Hold a value against what the inventory or its baseline declares."""
    if needed is None:
        return Check(Verdict.INCONCLUSIVE, show(value), "the inventory declares nothing for it")
    if needed.how in ("same", "unlike"):  # told by all of them together, see alike.py, unlike.py
        return Check(Verdict.PASS, show(value))
    if needed.how.startswith("version_"):
        return _version(value, needed)
    want = needed.values[0] if needed.values else None
    if needed.how == "equals" and tolerance and isinstance(want, Quantity):
        return _near(value, want, tolerance)
    if needed.how not in ("equals", "one_of") or want is None:
        return Check(Verdict.INCONCLUSIVE, show(value), f"the judge knows no rule '{needed.how}'")
    found = _one_of(value, needed.values)
    if found.verdict is not Verdict.FAIL:
        return found
    return dataclasses.replace(found, because=f"declared: {needed}")


def _near(value: Value, want: Quantity, tolerance: Quantity) -> Check:
    wrong = _incomparable(value, [want])
    if wrong or not isinstance(value, Quantity):
        return Check(Verdict.INCONCLUSIVE, show(value), wrong)
    distance = value.base - want.base
    off = _relative(abs(distance), want.base) - (tolerance.base if want.base else 0)
    if off <= 0:
        return Check(Verdict.PASS, show(value), "", off)
    by = percent(_relative(abs(distance), want.base)) + " " if want.base else ""
    side = "over" if distance > 0 else "under"
    return Check(Verdict.FAIL, show(value), f"{by}{side} the declared {want} (± {tolerance})", off)


_COMPARED = {
    "version_at_least": versions.at_least,
    "version_equals": versions.equal,
    "version_one_of": versions.equal,
}


def _version(value: Value, needed: Requirement) -> Check:
    """Hold a text against versions, of which it has to satisfy one."""
    wanted = [each for each in needed.values if isinstance(each, str)]
    compared = _COMPARED.get(needed.how)
    if compared is None:
        return Check(Verdict.INCONCLUSIVE, show(value), f"the judge knows no rule '{needed.how}'")
    if not isinstance(value, str) or not wanted or len(wanted) != len(needed.values):
        return Check(Verdict.INCONCLUSIVE, show(value), "not a text that could be a version")
    unclear = ""
    for each in wanted:
        try:
            if compared(value, each):
                return Check(Verdict.PASS, show(value))
        except versions.NoOrderError as err:
            unclear = str(err)
    if unclear:
        return Check(Verdict.INCONCLUSIVE, show(value), unclear)
    plain = dataclasses.replace(needed, same="")
    return Check(Verdict.FAIL, show(value), f"declared: {plain}")


def _kind(value: Value) -> str:
    """Return what a value may be compared with: its dimension, or text, or yes/no."""
    if isinstance(value, bool):
        return "yes/no"
    return value.dimension if isinstance(value, Quantity) else "text"


def _incomparable(value: Value, others: Iterable[Value]) -> str:
    """Return why `value` can't be held against `others`, or an empty text."""
    kinds = sorted({_kind(each) for each in others})
    if _kind(value) in kinds:
        return ""
    return f"not comparable: {_kind(value)} against a limit of {' or '.join(kinds)}"
