"""The workloads of a plan: how much load, how long, on how many rounds. Data, typed and strict."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import pydantic

from kvgate.spec.base import Duration, Size, Slug, Strict
from kvgate.spec.diagnostics import DiagnosticsWorkload
from kvgate.spec.ratio import AGAIN, checked_looks

Positive = Annotated[int, pydantic.Field(ge=1)]
ArmId = Literal["recompute", "local", "device"]


def arm_of(run: str) -> ArmId:
    """Return the arm that `run`, one of a plan's runs, is of: ``local`` for ``local-again``."""
    arms: dict[str, ArmId] = {arm: arm for arm in get_args(ArmId)}
    return arms[run.removesuffix(AGAIN)]


class FioWorkload(Strict):
    """G2's fio jobs on files: measured time and file size a job, and how many rounds."""

    rounds: Positive
    ramp: Duration
    runtime: Duration
    size: Size
    jobs: list[Slug]  # names known to `workloads.fio`


class KvWorkload(Strict):
    """G3's sessions: exact token counts, all from a recorded seed.

    ``looks`` are the rounds after which arms are compared (default: after all); ``again`` is
    run a second time in every round, as arm ``<again>-again``: the noise floor (A/A).
    """

    arms: list[ArmId]
    again: ArmId | None = None
    rounds: Positive
    looks: list[Positive] | None = None
    sessions: Positive
    prompt_tokens: Positive
    output_tokens: Positive
    concurrency: list[Positive]

    @pydantic.model_validator(mode="after")
    def _sound(self) -> KvWorkload:
        checked_looks(self.rounds, self.looks)
        if self.again is not None and self.again not in self.arms:
            raise ValueError(f"again: '{self.again}' is none of the arms")
        return self

    @property
    def runs(self) -> tuple[str, ...]:
        """Return what is run once a round at each concurrency: the arms, and one of them again."""
        return (*self.arms, *([self.again + AGAIN] if self.again else []))


class SoakFault(Strict):
    """A fault of the soak: what, when after its start, and within what time it must be back."""

    fault: Slug
    at: Duration
    back_within: Duration


class SoakWorkload(Strict):
    """G4's schedule: sustained fio and serving load in windows, with faults at set times."""

    duration: Duration
    window: Duration
    sample_every: Duration
    fio_job: Slug
    fio_size: Size
    kv_arm: ArmId
    concurrency: Positive
    prompt_tokens: Positive
    output_tokens: Positive
    faults: list[SoakFault]


class Workloads(Strict):
    """Everything a plan may set about load; a gate whose part is absent can't run its tests."""

    diagnostics: DiagnosticsWorkload | None = None
    fio: FioWorkload | None = None
    kv: KvWorkload | None = None
    soak: SoakWorkload | None = None

    def looks(self) -> dict[str, tuple[int, ...]]:
        """Return after which rounds arms are compared, by the first word of what is measured."""
        found: dict[str, tuple[int, ...]] = {}
        if self.fio:
            found["fio"] = (self.fio.rounds,)
        if self.kv:
            found["g3"] = checked_looks(self.kv.rounds, self.kv.looks)
        return found
