"""What a plan asks of a workload's trace: which file, for whose KV, on tiers of what size."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from kvgate.spec.base import Size, Slug, Strict, Text, exactly_one_of, within
from kvgate.spec.inventory import fingerprint

Many = Annotated[int, pydantic.Field(ge=1, le=1_000_000)]
Tier = Annotated[Size, within("1 B", "1000 PB")]
Digest = Annotated[str, pydantic.AfterValidator(fingerprint)]


class GeneratedTrace(Strict):
    """A trace made from the plan's seed: conversations that go on, for rehearsals."""

    requests: Many
    conversations: Many


class AssessmentWorkload(Strict):
    """The agreed trace (a file, from the workspace's folder), its digest, and the sizes of tiers.

    ``claims`` is a supplier's claims (`kvgate claims`), from the workspace's folder too.
    """

    model_config = exactly_one_of("trace", "generated")

    trace: Text | None = None
    generated: GeneratedTrace | None = None
    sha256: Digest
    model: Slug = "qwen3-coder-480b-a35b"
    dtype: Literal["bf16", "fp16", "fp8"] = "bf16"
    hbm: Tier
    dram: Tier
    tier: Tier
    claims: Text | None = None

    @pydantic.model_validator(mode="after")
    def _sound(self) -> AssessmentWorkload:
        if (self.trace is None) == (self.generated is None):
            raise ValueError("exactly one of 'trace' and 'generated'")
        return self
