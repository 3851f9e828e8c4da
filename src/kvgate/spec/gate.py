"""Gate files: criteria as data. A criterion is a sentence and a limit that measuring settles."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

import pydantic

from kvgate.errors import UnitError
from kvgate.model.quantity import UNITS, Quantity
from kvgate.spec.base import (
    AnyQuantity,
    CriterionId,
    GateId,
    Ratio,
    Slug,
    Strict,
    Text,
    exactly_one_of,
)
from kvgate.spec.ratio import RatioOf


def _as_scalar(value: Any) -> Any:
    """Return a bool or text as it is, a whole number as a count, '5 ms' as a quantity."""
    if isinstance(value, bool | Quantity):
        return value
    if isinstance(value, int):
        return Quantity.of(value, "")
    if isinstance(value, str):
        head = value.lstrip("+-")[:1]
        if head.isdigit() and " " in value.strip():
            try:
                return Quantity.parse(value)
            except UnitError:  # then it is a text such as '22.04 LTS'
                return value
        return value
    raise ValueError(f"{value!r} is neither a text, a whole number, a quantity nor true/false")


Scalar = Annotated[
    Quantity | str | bool,
    pydantic.BeforeValidator(_as_scalar),
    pydantic.WithJsonSchema({"type": ["boolean", "integer", "string"]}),
]

LIMIT_KINDS = ("at_least", "at_most", "within", "equals", "one_of", "matches_inventory")


class Limit(Strict):
    """The bound inside a criterion: exactly one of its six forms; bounds are inclusive."""

    model_config = exactly_one_of(*LIMIT_KINDS)

    at_least: AnyQuantity | None = None
    at_most: AnyQuantity | None = None
    within: tuple[AnyQuantity, AnyQuantity] | None = None
    equals: Scalar | None = None
    one_of: tuple[Scalar, ...] | None = None
    matches_inventory: Literal[True] | None = None
    tolerance: Ratio | None = None  # with matches_inventory: how far a quantity may be off

    @pydantic.field_validator("within", "one_of", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @pydantic.model_validator(mode="after")
    def _one_form(self) -> Limit:
        given = [kind for kind in LIMIT_KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(
                f"a limit has exactly one of {', '.join(LIMIT_KINDS)}; "
                f"here: {', '.join(given) or 'none'}"
            )
        if self.tolerance is not None and not self.matches_inventory:
            raise ValueError("tolerance goes with matches_inventory")
        if self.one_of == ():
            raise ValueError("one_of is empty: nothing could ever pass")
        if self.within and self.within[0] > self.within[1]:
            raise ValueError(f"within: {self.within[0]} is above {self.within[1]}")
        return self

    @property
    def kind(self) -> str:
        """Return which of the six forms this is."""
        return next(kind for kind in LIMIT_KINDS if getattr(self, kind) is not None)

    def __str__(self) -> str:
        if self.at_least is not None:
            return f"at least {self.at_least}"
        if self.at_most is not None:
            return f"at most {self.at_most}"
        if self.within is not None:
            return f"within {self.within[0]} and {self.within[1]}"
        if self.equals is not None:
            return f"equals {_show(self.equals)}"
        if self.one_of is not None:
            return "one of " + ", ".join(_show(each) for each in self.one_of)
        return "matches inventory" + (f" within {self.tolerance}" if self.tolerance else "")


def _show(value: Quantity | str | bool) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


class Claim(Strict):
    """What the supplier said; never what is judged by.

    ``number`` is the claim as a quantity, from which a limit is reckoned by the agreed margin.
    """

    value: Text
    by: Text
    number: AnyQuantity | None = None


MOST_MARGIN = Quantity.of(5, "%")
"""What a limit may lie below a claim at most: a noisy bench passes no more easily than that."""

LIMIT_ROUNDED = Fraction(1, 1000)
"""How far a limit may be off its claim less the margin, by being written in round figures."""


def less_margin(claim: Quantity, margin: Quantity, limit: Limit) -> Fraction | None:
    """Return the claim less `margin` in base units, on the side of `limit` (None: no one side)."""
    if limit.at_least is not None:
        return claim.base * (1 - margin.base)
    return claim.base * (1 + margin.base) if limit.at_most is not None else None


ItemKind = Literal[
    "disk",
    "nvme",
    "nic",
    "pcie",
    "gpu",
    "part",
    "controller",
    "pool",
    "port",
    "subsystem",
    "path",
    "link",
    "roce",
]
"""What a criterion may judge one by one, as far as the inventory declares it."""


class Criterion(Strict):
    """One sentence of the agreed plan that a measurement can settle.

    ``limits`` stand by profile. ``each`` judges every item of that kind that the inventory
    declares. ``where`` names labels that a measurement must carry (arm, job, concurrency).

    ``ratio`` compares two arms in ``measure``, block by block, instead of judging each value;
    ``margin`` is what the limit lies below the claim, agreed before the run; ``ceiling`` is the
    measure that tells what the path can carry at most: a value above it is inconclusive.
    ``severity`` is the class of a failure (acceptance practice, IEC 62381 punch lists): A blocks
    acceptance, B may stay open with an owner and a date, C is cosmetic and only listed.
    """

    id: CriterionId
    text: Text
    measure: Text
    phase: Slug
    hosts: Literal["serving", "client", "all", "array", "switch", "bmc"]
    method: Literal["manual"] | None = None  # answered by people, not measured by a test
    severity: Literal["A", "B", "C"] = "A"
    scope: Literal["each host", "all hosts"] = "each host"
    each: ItemKind | None = None
    where: dict[str, str] = pydantic.Field(default_factory=dict)
    limits: dict[Slug, Limit]
    marginal: Ratio = Quantity.of("5", "%")
    basis: Text
    claim: Claim | None = None
    deployment: Text | None = None
    statistic: Text | None = None
    ratio: RatioOf | None = None
    margin: Ratio | None = None
    ceiling: Text | None = None
    hint: str = ""

    @pydantic.model_validator(mode="after")
    def _compared(self) -> Criterion:
        if self.ratio is None:
            return self
        if self.ceiling:
            raise ValueError("a ratio has no physical ceiling")
        if taken := {"arm", "round"} & set(self.where):
            raise ValueError(f"where: '{min(taken)}' is what a ratio goes over")
        for profile, limit in self.limits.items():
            bounds = [limit.at_least, limit.at_most, *(limit.within or ())]
            if any(bound and bound.dimension != "ratio" for bound in bounds) or not any(bounds):
                raise ValueError(f"limits.{profile}: a ratio has bounds such as 'at_least: 1.2 x'")
        return self

    @pydantic.model_validator(mode="after")
    def _less_a_margin(self) -> Criterion:
        if self.margin is None:
            return self
        if not 0 < self.margin.base <= MOST_MARGIN.base:
            raise ValueError(f"margin: above 0 and at most {MOST_MARGIN}")
        if self.claim is None or self.claim.number is None:
            raise ValueError("margin: goes with a claim that has a 'number'")
        for profile, limit in self.limits.items():
            bound = limit.at_least or limit.at_most
            wanted = less_margin(self.claim.number, self.margin, limit)
            if profile == "rehearsal":  # shows that the path works; never the claim
                continue
            if bound is None or wanted is None or bound.dimension != self.claim.number.dimension:
                raise ValueError(f"limits.{profile}: a claim's limit is at_least or at_most of it")
            if abs(bound.base - wanted) > LIMIT_ROUNDED * wanted:
                number = Quantity.of(f"{float(wanted / UNITS[bound.unit][1]):.5g}", bound.unit)
                raise ValueError(
                    f"limits.{profile}: {bound} is not the claim less the margin: {number}"
                )
        return self

    @pydantic.model_validator(mode="after")
    def _sound(self) -> Criterion:
        if not self.limits:
            raise ValueError("limits is empty; name at least one profile")
        if self.scope == "all hosts" and self.each:
            raise ValueError("each goes with scope 'each host'")
        if self.claim and not (self.deployment and self.statistic):
            raise ValueError("a claim names its deployment and statistic")
        return self


class Gate(Strict):
    """One gate: what must be accepted before it, and what it decides."""

    gate: GateId
    title: Text
    question: Text
    entry: list[GateId]
    criteria: Annotated[list[Criterion], pydantic.Field(min_length=1)]

    @pydantic.model_validator(mode="after")
    def _ids(self) -> Gate:
        seen: set[str] = set()
        for criterion in self.criteria:
            if criterion.id in seen:
                raise ValueError(f"criterion {criterion.id} stands twice")
            if not criterion.id.startswith(self.gate + "."):
                raise ValueError(f"criterion {criterion.id} is not one of {self.gate}")
            seen.add(criterion.id)
        return self
