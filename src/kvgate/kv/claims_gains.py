"""Claims of gains: ratios recomputed, spans of them, and what they are attributed to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from kvgate.kv.claims_told import Said, factor, there, ulp
from kvgate.model.quantity import Quantity
from kvgate.spec.claims import Attribution, Claim, Ratio

_CONTENT = ("dedup", "compression")
"""Causes that work by what is stored, not by how it is read."""


def interval(value: Quantity) -> tuple[Fraction, Fraction]:
    """Return between what `value` lies, in base units, by the precision it is written with."""
    half = ulp(value.number) * factor(value.unit) / 2
    return value.base - half, value.base + half


def quotient(
    upper: Quantity, lower: Quantity, *, by: int = 1
) -> tuple[Fraction, Fraction, Fraction]:
    """Return `by` × upper ÷ lower, least, as written, and most by the precision of both.

    A divisor that could be 0 by its precision counts as half of what is written.
    """
    low_u, high_u = interval(upper)
    low_l, high_l = interval(lower)
    least = low_l if low_l > 0 else lower.base / 2
    return by * low_u / high_l, by * upper.base / lower.base, by * high_u / least


def gain(claimed: Ratio) -> tuple[Fraction, Fraction, Fraction]:
    """Return a ratio's gain recomputed, least, as written, and most; a share, not per cent."""
    shorter = claimed.form == "lower" or (
        claimed.form == "times" and claimed.before.dimension == "time"
    )
    if shorter and claimed.form == "times":
        return quotient(claimed.before, claimed.after)
    low, middle, high = quotient(claimed.after, claimed.before)
    if claimed.form == "higher":
        return low - 1, middle - 1, high - 1
    return (1 - high, 1 - middle, 1 - low) if claimed.form == "lower" else (low, middle, high)


def ratio(claim: Claim) -> Said:
    """Recompute a ratio from its two figures at their precision and its own."""
    claimed = there(claim.ratio)
    low, middle, high = gain(claimed)
    half = ulp(claimed.stated.number) * factor(claimed.stated.unit) / 2
    least, most = claimed.stated.base - half, claimed.stated.base + half
    told = [
        f"{claimed.before} to {claimed.after}: {_told(middle, claimed)} "
        f"({_told(low, claimed)} to {_told(high, claimed)} by rounding); stated: {claimed.stated}",
        f"statistic: {claimed.statistic or 'not told'}; "
        f"deployment: {claimed.deployment or 'not told'}",
    ]
    if not (low <= most and least <= high):
        return Said("contradicts", tuple(told))
    if claimed.statistic is None or claimed.deployment is None:
        return Said(
            "can't be checked", (*told, "the ratio is right, of what it is one is not told")
        )
    if middle < claimed.stated.base:
        told.append(f"rounded up: a limit at {claimed.stated} would reject what was published")
    return Said("holds", tuple(told))


def _told(value: Fraction, claimed: Ratio) -> str:
    if claimed.stated.unit == "%":
        return f"{100 * float(value):.5g} %"
    return f"{float(value):.5g} x"


def range_of(claim: Claim, by_id: Mapping[str, Claim]) -> Said:
    """See whether a span's ends are those of its ratios, and whether these can stand together."""
    span = there(claim.range)
    parts = {each: there(by_id[each].ratio) for each in span.of}
    gains = {each: gain(part) for each, part in parts.items()}
    told = [
        f"{each}: {_told(gains[each][1], part)}, {part.statistic or 'statistic not told'}, "
        f"{part.deployment or 'deployment not told'}"
        for each, part in parts.items()
    ]
    ends = ((span.low, min(gains.values())), (span.high, max(gains.values())))
    for stated, (low, _, high) in ends:
        half = ulp(stated.number) * factor(stated.unit) / 2
        if not (low <= stated.base + half and stated.base - half <= high):
            return Said("contradicts", (*told, f"{stated} is no end of these"))
    several = [
        f"{len(values)} {what}: {'; '.join(sorted(values))}"
        for what, values in (
            ("statistics", {str(part.statistic) for part in parts.values()}),
            ("deployments", {str(part.deployment) for part in parts.values()}),
            ("kinds of figure", {part.before.dimension for part in parts.values()}),
        )
        if len(values) > 1
    ]
    if several:
        return Said("contradicts", (*told, f"one span of {' and of '.join(several)}"))
    return Said("holds", tuple(told))


def attribution(claim: Claim) -> Said:
    """See whether what was run can show that gains come from what they are attributed to."""
    said = there(claim.attribution)
    unsupported = tuple(_unsupported(said))
    if unsupported:
        return Said("unsupported", unsupported)
    if said.arms is None:
        return Said("can't be checked", ("which arms were measured is not told",))
    return Said("holds", ("an arm with each cause alone, and one with none of them, was measured",))


def _unsupported(said: Attribution) -> Iterator[str]:
    """Yield each reason why the set-up can't show the causes."""
    content = [cause for cause in said.to if cause in _CONTENT]
    if "dedup" in content and said.distinct_sessions and said.reads_each == 1:
        yield (
            "distinct sessions, each read once: no byte is asked for twice, so that dedup saves no "
            "read; each arm reads the same bytes, and the gain is that of tiering and bandwidth"
        )
    if said.arms is None:
        return
    arms = [frozenset(arm) for arm in said.arms]
    for cause in said.to:
        if not any(arm - {cause} in arms for arm in arms if cause in arm):
            yield f"no two measured arms differ by {cause} alone"
    if len(said.to) > 1 and frozenset(said.to) not in {arm & frozenset(said.to) for arm in arms}:
        together = " and ".join(said.to)
        yield f"no measured arm has {together} at once: nothing shows that they add up"
