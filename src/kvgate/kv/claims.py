"""Checks claims against physics and each other: every finding with its arithmetic.

Line rates and PCIe lanes as in `ceiling` (encodings); sizes and ratios recomputed exactly, and
compared at the precision they were published with.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from fractions import Fraction

from kvgate.errors import UsageError
from kvgate.kv import ceiling, claims_gains
from kvgate.kv.claims_told import Said, bytes_told, factor, rate_told, there, ulp
from kvgate.kv.geometry import Geometry
from kvgate.kv.models import named
from kvgate.model.quantity import Quantity
from kvgate.spec.claims import Claim, Claims, Kv, Link, Weights
from kvgate.spec.load import Loaded

USUAL_BLOCK = 4096
"""The block, in bytes, that IOPS are usually stated for: assumed where none is told, and said."""

LANES = (4, 8, 16)
"""The widths told for an interface whose lanes are not."""


class Kind(enum.StrEnum):
    """What a check came to; the first two are not wrong."""

    HOLDS = "holds"
    UNCHECKED = "can't be checked"
    UNIT = "unit"
    UNSUPPORTED = "unsupported"
    CONTRADICTS = "contradicts"
    IMPOSSIBLE = "impossible"

    @property
    def wrong(self) -> bool:
        """Tell whether the claim, as it is written, can't stand."""
        return self not in (Kind.HOLDS, Kind.UNCHECKED)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One claim's: what it came to, where it stands (file and line), and the arithmetic."""

    claim: Claim
    line: str  # "claims-fx100.yaml:23"
    kind: Kind
    arithmetic: tuple[str, ...]


def check(loaded: Loaded[Claims], models: Mapping[str, Geometry]) -> tuple[Finding, ...]:
    """Return a finding for every claim, in the file's order; raises UsageError: unknown model."""
    value, file = loaded.value, loaded.files[0]
    by_id = {each.claim: each for each in value.claims}
    checks: dict[str, Callable[[Claim], Said]] = {
        "link": _link,
        "operations": lambda claim: _operations(claim, by_id),
        "throughput": lambda claim: _throughput(claim, by_id),
        "size": lambda claim: _size(claim, models),
        "transfer": _transfer,
        "ratio": claims_gains.ratio,
        "range": lambda claim: claims_gains.range_of(claim, by_id),
        "attribution": claims_gains.attribution,
    }
    found = []
    for place, claim in enumerate(value.claims):
        said = checks[claim.kind](claim)
        line = f"{file.name}:{file.line(('claims', place))}"
        found.append(Finding(claim, line, Kind(said.kind), said.arithmetic))
    return tuple(found)


def wrong(findings: tuple[Finding, ...]) -> bool:
    """Tell whether any claim can't stand."""
    return any(each.kind.wrong for each in findings)


def _ports(link: Link) -> Fraction:
    """Return what the ports of a link carry, B/s."""
    return ceiling.port(link.speed).rate * link.ports


def _ports_told(link: Link) -> str:
    return f"{link.ports} x {link.speed} ÷ 8 = {rate_told(_ports(link))}"


def _lanes(link: Link, lanes: int) -> ceiling.Ceiling | None:
    return ceiling.pcie(link.pcie.speed, lanes) if link.pcie else None


def _carried(link: Link) -> tuple[Fraction, str]:
    """Return what a link carries at most, B/s, and what that follows from."""
    ports = _ports(link)
    lanes = _lanes(link, link.pcie.lanes) if link.pcie and link.pcie.lanes else None
    if lanes is not None and lanes.rate < ports:
        return lanes.rate, f"{lanes.why} after encoding = {rate_told(lanes.rate)}"
    return ports, _ports_told(link)


def _link(claim: Claim) -> Said:
    """Compare a link's ports with the lanes behind them."""
    link = there(claim.link)
    told = [_ports_told(link)]
    if link.pcie is None:
        return Said("can't be checked", (*told, "the interface behind the ports is not told"))
    widths = (link.pcie.lanes,) if link.pcie.lanes else LANES
    carried = [_lanes(link, lanes) for lanes in widths]
    for each in carried:
        if each is None:
            return Said(
                "impossible", (*told, f"{link.pcie.speed} is the rate of no PCIe generation")
            )
        fits = "carries it" if each.rate >= _ports(link) else "does not carry it"
        told.append(f"{each.why} after encoding = {rate_told(each.rate)}: {fits}")
    fitting = [each is not None and each.rate >= _ports(link) for each in carried]
    if all(fitting):
        return Said("holds", tuple(told))
    if any(fitting):
        return Said("can't be checked", (*told, "how many lanes there are is not told"))
    return Said("impossible", tuple(told))


def _operations(claim: Claim, by_id: Mapping[str, Claim]) -> Said:
    """Compare IOPS × block with what the link carries, and tell the block that would fit."""
    asked = there(claim.operations)
    most, why = _carried(there(by_id[asked.through].link))
    fits = most / asked.iops.base
    block = asked.block.base if asked.block else Fraction(USUAL_BLOCK)
    assumed = "" if asked.block else ", assumed: the usual one, as none is told"
    needs = asked.iops.base * block
    told = (
        f"{why}; ÷ {int(asked.iops.base):,} IOPS = blocks of at most {int(fits):,} B "
        f"({float(fits):,.2f})",
        f"{int(asked.iops.base):,} IOPS x {int(block):,} B{assumed} = {rate_told(needs)}, "
        f"{float(needs / most):.3g} times what the link carries",
    )
    if needs > most:
        return Said("impossible", told)
    return Said("holds", told) if asked.block else Said("can't be checked", told)


def _throughput(claim: Claim, by_id: Mapping[str, Claim]) -> Said:
    """Compare bytes a second with what the link carries."""
    asked = there(claim.throughput)
    most, why = _carried(there(by_id[asked.through].link))
    share = float(asked.rate.base / most)
    told = f"{why}; {asked.rate} is {share:.1%} of it"
    return Said("impossible" if asked.rate.base > most else "holds", (told,))


def _size(claim: Claim, models: Mapping[str, Geometry]) -> Said:
    """Recompute a size, and see which unit it is stated in."""
    size = there(claim.size)
    exact, how = _bytes_of(size.kv, size.weights, models)
    other = _other_unit(size.stated)
    told = (f"{how} = {bytes_told(exact)}; stated: {size.stated}",)
    if _close(size.stated, exact):
        return Said("holds", told)
    if other is not None and _close(other, exact):
        return Said(
            "unit", (*told, f"the number is right in {other.unit}, not in {size.stated.unit}")
        )
    return Said("contradicts", told)


def _bytes_of(
    kv: Kv | None, weights: Weights | None, models: Mapping[str, Geometry]
) -> tuple[int, str]:
    """Return the exact bytes of what a size is of, and how they were reckoned."""
    if kv is not None:
        geometry = named(kv.model, dict(models))
        each = geometry.context_bytes(kv.tokens, kv.dtype)
        sessions = f" x {kv.sessions:,} sessions" if kv.sessions > 1 else ""
        return each * kv.sessions, f"{kv.tokens:,} tokens of {kv.model} in {kv.dtype}{sessions}"
    if weights is None:
        raise UsageError("a size of nothing can't be reckoned")
    total = -(-weights.count * weights.bits // 8)
    return total, f"{weights.count:,} parameters x {weights.bits} bit"


def _other_unit(stated: Quantity) -> Quantity | None:
    """Return the same number in the other family: GB for GiB; None for a unit without one."""
    unit = stated.unit
    swapped = unit.replace("i", "") if "i" in unit else f"{unit[:-1]}iB"
    swapped = "kB" if swapped == "KB" else swapped.replace("ki", "Ki")
    return None if unit == "B" else Quantity(stated.number, swapped)


def _close(stated: Quantity, exact: int) -> bool:
    """Tell whether `stated` is `exact` within one unit of its last digit that is not a zero."""
    one = ulp(stated.number, zeros=True) * factor(stated.unit)
    return abs(stated.base - exact) <= one


def _transfer(claim: Claim) -> Said:
    """Recompute bytes over time at the precision of all three figures."""
    asked = there(claim.transfer)
    low, middle, high = claims_gains.quotient(asked.bytes, asked.time, by=asked.count)
    half = ulp(asked.stated.number) * factor(asked.stated.unit) / 2
    told = (
        f"{asked.count} x {asked.bytes} ÷ {asked.time} = {rate_told(middle)} "
        f"({rate_told(low)} to {rate_told(high)} by rounding); stated: {asked.stated}"
    )
    fits = low <= asked.stated.base + half and asked.stated.base - half <= high
    return Said("holds" if fits else "contradicts", (told,))
