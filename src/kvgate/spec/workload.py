"""The workloads of a plan: how much load, how long, on how many rounds. Data, typed and strict."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from kvgate.spec.base import Duration, Size, Slug, Strict

Positive = Annotated[int, pydantic.Field(ge=1)]
ArmId = Literal["recompute", "local", "device"]


class FioWorkload(Strict):
    """G2's fio jobs on files: measured time and file size a job, and how many rounds."""

    rounds: Positive
    ramp: Duration
    runtime: Duration
    size: Size
    jobs: list[Slug]  # names known to `workloads.fio`


class KvWorkload(Strict):
    """G3's sessions: exact token counts, all from a recorded seed."""

    arms: list[ArmId]
    rounds: Positive
    sessions: Positive
    prompt_tokens: Positive
    output_tokens: Positive
    concurrency: list[Positive]


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

    fio: FioWorkload | None = None
    kv: KvWorkload | None = None
    soak: SoakWorkload | None = None
