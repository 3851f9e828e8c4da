"""What a plan asks of a service: the level that is to be kept, and up to what it is searched."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec.base import Duration, Ratio, Strict, at_least_one, within

Positive = Annotated[int, pydantic.Field(ge=1)]
Limit = Annotated[Duration, within("0.1 ms", "1 h")]
Arms = Annotated[
    list[Literal["recompute", "local", "device"]], pydantic.AfterValidator(at_least_one)
]


class ServiceLevel(Strict):
    """Limits of TTFT and TPOT that ``percent`` of all requests keep; one of them at least."""

    ttft: Limit | None = None
    tpot: Limit | None = None
    percent: Annotated[int, pydantic.Field(ge=50, le=99)] = 90

    @pydantic.model_validator(mode="after")
    def _limits(self) -> ServiceLevel:
        if self.ttft is None and self.tpot is None:
            raise ValueError("a service level has 'ttft', 'tpot', or both")
        return self


class LoadWorkload(Strict):
    """G3's search for the highest concurrency that keeps a service level, on each arm.

    ``sessions`` of exact lengths are stored, then restored in turn again and again. The search
    doubles up to ``most``, then halves until both ends are apart by ``tolerance`` of the lower
    one; each end is measured ``repeats`` times.
    """

    arms: Arms
    sessions: Positive
    prompt_tokens: Positive
    output_tokens: Positive
    level: ServiceLevel
    most: Annotated[int, pydantic.Field(ge=1, le=65_536)]
    tolerance: Annotated[Ratio, within("1 %", "100 %")] = Quantity.of(10, "%")
    repeats: Annotated[int, pydantic.Field(ge=1, le=99)] = 3

    @pydantic.model_validator(mode="after")
    def _sound(self) -> LoadWorkload:
        if len(set(self.arms)) != len(self.arms):
            raise ValueError("arms: each once")
        return self
