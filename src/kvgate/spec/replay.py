"""What a plan asks of KV replay: whose KV, how much of it, read how, how often, and how full."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from kvgate.spec.base import Size, Slug, Strict, at_least_one, within
from kvgate.spec.inventory import StorageArm
from kvgate.spec.ratio import LEAST_BLOCKS, checked_again, checked_looks, runs_of

Many = Annotated[int, pydantic.Field(ge=1, le=4096)]
Sessions = Annotated[int, pydantic.Field(ge=2, le=1_000_000)]
Rounds = Annotated[int, pydantic.Field(ge=1, le=1000)]
Capacity = Annotated[Size, within("1 MiB", "1 PB")]


class ReplayTier(Strict):
    """A tier of ``capacity``, used at so many ``percent`` while it evicts the oldest to stay there.

    With ``to_the_end`` sessions are stored until the file system has no space left, which it must
    have before ``capacity`` is: then the tier has to heal by evicting.
    """

    capacity: Capacity
    percent: list[Annotated[int, pydantic.Field(ge=1, le=99)]] = pydantic.Field(
        default_factory=list
    )
    to_the_end: bool = False


class ReplayWorkload(Strict):
    """Sessions of a model's KV, stored and restored on each arm, once a round in random order.

    ``ranks`` of the ``tp`` are on each host (default: all). Each round restores every session at
    each ``concurrency``, serially and by ``readers`` chunks at once a rank. ``looks`` and
    ``again`` are as in workloads.kv. ``dedup_rounds`` are rounds of the two factors, data that can
    be deduplicated or can't and reads serial or parallel, on the last arm. ``plant`` has the
    checks checked, by faults planted in what was stored.
    """

    arms: Annotated[list[StorageArm], pydantic.AfterValidator(at_least_one)]
    again: StorageArm | None = None
    rounds: Rounds
    looks: list[Many] | None = None
    model: Slug = "qwen3-coder-480b-a35b"
    dtype: Literal["bf16", "fp16", "fp8"] = "bf16"
    tp: Many = 8
    ranks: Many | None = None
    tokens: Annotated[int, pydantic.Field(ge=1, le=10**8)]
    chunk_tokens: Annotated[int, pydantic.Field(ge=1, le=10**6)] = 256
    sessions: Sessions
    concurrency: Annotated[list[Many], pydantic.AfterValidator(at_least_one)]
    readers: Annotated[int, pydantic.Field(ge=2, le=256)] = 8
    compressible: Literal[0, 50, 80] = 0
    drop_caches: bool = False
    dedup_rounds: Annotated[int, pydantic.Field(ge=LEAST_BLOCKS, le=1000)] | None = None
    plant: bool = False
    tier: ReplayTier | None = None

    @pydantic.model_validator(mode="after")
    def _sound(self) -> ReplayWorkload:
        checked_looks(self.rounds, self.looks)
        checked_again(self.arms, self.again)
        if len(set(self.arms)) != len(self.arms):
            raise ValueError("arms: each once; 'again' runs one of them a second time")
        if self.ranks is not None and self.ranks > self.tp:
            raise ValueError(f"ranks: {self.ranks} of {self.tp}")
        return self

    @property
    def runs(self) -> tuple[str, ...]:
        """Return what is run once a round: the arms, and one of them again."""
        return runs_of(self.arms, self.again)

    @property
    def last_arm(self) -> str:
        """Return the arm that the tier and the two factors are measured on."""
        return str(self.arms[-1])
