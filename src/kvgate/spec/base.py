"""The strict model base and the field types that gate, plan and inventory files share."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic

from kvgate.errors import UnitError
from kvgate.model.quantity import Quantity


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


AnyQuantity = Annotated[Quantity, pydantic.BeforeValidator(_quantity)]
Duration = Annotated[AnyQuantity, _of("time")]
Size = Annotated[AnyQuantity, _of("bytes")]
BitRate = Annotated[AnyQuantity, _of("bit/s")]
Ratio = Annotated[AnyQuantity, _of("ratio")]
LinkSpeed = Annotated[AnyQuantity, _of("GT/s")]

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
