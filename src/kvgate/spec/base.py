"""The strict model base and the field types that gate, plan and inventory files share."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic

from kvgate.errors import UnitError
from kvgate.model.quantity import UNITS, Quantity


class Strict(pydantic.BaseModel):
    """Unknown keys are refused, nothing is coerced, nothing changes after loading."""

    model_config = pydantic.ConfigDict(
        extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True
    )


def _quantity(value: Any) -> Any:
    if isinstance(value, Quantity):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Quantity.of(value, "")
    if not isinstance(value, str):
        raise ValueError(  # noqa: TRY004  pydantic explains ValueError, not TypeError
            f"{value!r} is not a quantity; write a text such as '1.5 ms' or '64 GiB'"
        )
    try:
        return Quantity.parse(value)
    except UnitError as err:
        raise ValueError(f"{err.message}; {err.hint}") from err


def _of(dimension: str) -> Any:
    def check(value: Quantity) -> Quantity:
        if value.dimension != dimension:
            raise ValueError(f"'{value}' is no quantity of {dimension}")
        return value

    return pydantic.AfterValidator(check)


def within(least: str, most: str) -> Any:
    """Return a validator: quantities from `least` to `most`, of that dimension."""
    low, high = Quantity.parse(least), Quantity.parse(most)

    def check(value: Quantity) -> Quantity:
        if value.dimension != low.dimension:
            raise ValueError(f"'{value}' is no quantity of {low.dimension}")
        if not low <= value <= high:
            raise ValueError(f"'{value}' is not within {low} and {high}")
        return value

    return pydantic.AfterValidator(check)


def _like(dimension: str = "") -> pydantic.WithJsonSchema:
    """Return how a quantity (of one dimension, else of any) is described in a JSON schema."""
    units = "|".join(u for u, (of, _) in UNITS.items() if u and dimension in ("", of))
    number = r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?"
    text = {"type": "string", "pattern": rf"{number}\s+({units})\s*$"}
    if dimension:
        return pydantic.WithJsonSchema(text)
    count = {"type": "string", "pattern": rf"{number}\s*$"}
    return pydantic.WithJsonSchema({"anyOf": [{"type": "integer"}, count, text]})


def exactly_one_of(*keys: str) -> pydantic.ConfigDict:
    """Return a model's config that makes its JSON schema ask for exactly one of `keys`."""
    forms: list[Any] = [{"required": [key]} for key in keys]
    return pydantic.ConfigDict(json_schema_extra={"oneOf": forms})


AnyQuantity = Annotated[Quantity, pydantic.BeforeValidator(_quantity), _like()]
Duration = Annotated[AnyQuantity, _of("time"), _like("time")]
Size = Annotated[AnyQuantity, _of("bytes"), _like("bytes")]
Rate = Annotated[AnyQuantity, _of("bytes/s"), _like("bytes/s")]
BitRate = Annotated[AnyQuantity, _of("bit/s"), _like("bit/s")]
Ratio = Annotated[AnyQuantity, _of("ratio"), _like("ratio")]
LinkSpeed = Annotated[AnyQuantity, _of("GT/s"), _like("GT/s")]

Slug = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
"""A name people choose: small letters, digits, '.', '_' and '-'; safe in a file name."""

Text = Annotated[str, pydantic.StringConstraints(min_length=1, strip_whitespace=True)]
GateId = Annotated[str, pydantic.StringConstraints(pattern=r"^G\d+$")]
CriterionId = Annotated[str, pydantic.StringConstraints(pattern=r"^G\d+\.\d+$")]


def at_least_one(value: Any) -> Any:
    """Refuse an empty list or mapping: nothing proves nothing."""
    if not value:
        raise ValueError("is empty; name at least one")
    return value
