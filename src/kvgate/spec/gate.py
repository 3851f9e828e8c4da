"""Gate files: criteria as data. A criterion is a sentence and a limit that measuring settles."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from kvgate.errors import UnitError
from kvgate.model.quantity import Quantity
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
    """What the supplier said; never what is judged by."""

    value: Text
    by: Text


class Criterion(Strict):
    """One sentence of the agreed plan that a measurement can settle.

    ``limits`` stand by profile. ``each`` judges every item of that kind that the inventory
    declares. ``where`` names labels that a measurement must carry (arm, job, concurrency).
    """

    id: CriterionId
    text: Text
    measure: Text
    phase: Slug
    hosts: Literal["serving", "client", "all"]
    method: Literal["manual"] | None = None  # answered by people, not measured by a test
    scope: Literal["each host", "all hosts"] = "each host"
    each: Literal["disk", "nvme", "nic", "pcie", "part"] | None = None
    where: dict[str, str] = pydantic.Field(default_factory=dict)
    limits: dict[Slug, Limit]
    marginal: Ratio = Quantity.of("5", "%")
    basis: Text
    claim: Claim | None = None
    deployment: Text | None = None
    statistic: Text | None = None
    hint: str = ""

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
