"""Long diagnostics of a plan: which tools load which parts of a host, how thoroughly, how long."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec.base import Duration, Size, Strict


def _some_time(value: Quantity) -> Quantity:
    if value.base < 1:
        raise ValueError(f"{value} is less than 1 s")
    return value


Time = Annotated[Duration, pydantic.AfterValidator(_some_time)]
SelfTestKind = Literal["short", "extended"]


class RvsLevel(Strict):
    """A level of ROCm Validation Suite (``rvs -r``), 1 quick to 5 thorough.

    ``duration`` is what it should take; given up after three times that and ten minutes.
    """

    level: Annotated[int, pydantic.Field(ge=1, le=5)]
    duration: Time

    @property
    def part(self) -> str:
        """Return which part of the diagnostic it is."""
        return f"level-{self.level}"


class AgfhcRecipe(Strict):
    """A recipe of AMD's GPU Field Health Check (``agfhc -r``), such as ``all_lvl1``."""

    recipe: Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z0-9_]{1,40}$")]
    duration: Time

    @property
    def part(self) -> str:
        """Return which part of the diagnostic it is."""
        return self.recipe


class MemoryTest(Strict):
    """stressapptest on ``size`` of a host's memory; it runs for ``duration``."""

    size: Size
    duration: Time

    @pydantic.model_validator(mode="after")
    def _sizeable(self) -> MemoryTest:
        if self.mebibytes < 1:
            raise ValueError(f"size: {self.size} is less than 1 MiB")
        return self

    @property
    def mebibytes(self) -> int:
        """Return the size in whole MiB, which the tool is told."""
        return int(self.size.base // 2**20)

    @property
    def part(self) -> str:
        """Return which part of the diagnostic it is."""
        return f"{self.mebibytes}-mib"


class DriveSelfTest(Strict):
    """The self-test of every declared NVMe drive, all at once; it writes to a drive's log only."""

    kind: SelfTestKind
    duration: Time

    @property
    def part(self) -> str:
        """Return which part of the diagnostic it is."""
        return self.kind


class DiagnosticsWorkload(Strict):
    """G1's long diagnostics, one list a tool, run in this order; what stands here is run."""

    rvs: list[RvsLevel] = pydantic.Field(default_factory=list)
    agfhc: list[AgfhcRecipe] = pydantic.Field(default_factory=list)
    memory: list[MemoryTest] = pydantic.Field(default_factory=list)
    nvme_self_test: list[DriveSelfTest] = pydantic.Field(default_factory=list)

    @pydantic.model_validator(mode="after")
    def _sound(self) -> DiagnosticsWorkload:
        for name in type(self).model_fields:
            parts = [each.part for each in getattr(self, name)]
            if twice := next((part for part in parts if parts.count(part) > 1), None):
                raise ValueError(f"{name}: {twice} stands twice")
        if not any(getattr(self, name) for name in type(self).model_fields):
            raise ValueError("asks for nothing; leave it out, or name a diagnostic")
        return self
