"""The workloads of a plan: how much load, how long, on how many rounds. Data, typed and strict."""

from __future__ import annotations

import math
from typing import Annotated, Literal, get_args

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec.assessment import AssessmentWorkload
from kvgate.spec.base import Duration, Size, Slug, Strict, at_least_one
from kvgate.spec.diagnostics import DiagnosticsWorkload
from kvgate.spec.fabric_load import PathsWorkload, PerftestWorkload
from kvgate.spec.failover import FailoverWorkload
from kvgate.spec.inventory import StorageArm
from kvgate.spec.pts import PtsWorkload
from kvgate.spec.ratio import AGAIN, checked_again, checked_looks, runs_of
from kvgate.spec.replay import ReplayWorkload
from kvgate.spec.service_level import LoadWorkload

Positive = Annotated[int, pydantic.Field(ge=1)]
Rounds = Annotated[int, pydantic.Field(ge=1, le=1000)]
Depth = Annotated[int, pydantic.Field(ge=1, le=32768)]  # io_uring's ring holds no more
Many = Annotated[int, pydantic.Field(ge=1, le=1024)]


def _measured(value: Quantity) -> Quantity:
    if not 0 < value.base <= _LONGEST_S:
        raise ValueError(f"{value} is no time to measure for: over 0 s, at most 30 days")
    return value


def _ramped(value: Quantity) -> Quantity:
    if not 0 <= value.base <= _LONGEST_RAMP_S:
        raise ValueError(f"{value} is no ramp: 0 s to 24 h")
    return value


def _filled(value: Quantity) -> Quantity:
    if not 512 <= value.base <= _LARGEST_B:
        raise ValueError(f"{value} is no size of a test's file: 512 B to 1 PB")
    return value


_LONGEST_S, _LONGEST_RAMP_S, _LARGEST_B = 30 * 86400, 86400, 10**15
Runtime = Annotated[Duration, pydantic.AfterValidator(_measured)]
Ramp = Annotated[Duration, pydantic.AfterValidator(_ramped)]
FileSize = Annotated[Size, pydantic.AfterValidator(_filled)]
ArmId = Literal["recompute", "local", "device"]


def arm_of(run: str) -> ArmId:
    """Return the arm that `run`, one of a plan's runs, is of: ``local`` for ``local-again``."""
    arms: dict[str, ArmId] = {arm: arm for arm in get_args(ArmId)}
    return arms[run.removesuffix(AGAIN)]


class FioWorkload(Strict):
    """G2's fio jobs on files: measured time and file size a job, and how many rounds.

    ``token`` is the KV of one token on one rank (`kvgate models`), ``ranks`` how many GPUs a host
    has at work, ``queue_depth`` how many chunks each has under way; without them the traffic is
    that of the published joint test (Qwen3-Coder-480B, bf16, TP8, one chunk).
    """

    rounds: Rounds
    ramp: Ramp
    runtime: Runtime
    size: FileSize
    jobs: list[Slug]  # names known to `workloads.fio`
    token: Size | None = None
    ranks: Many | None = None
    queue_depth: Depth | None = None


class FioArms(FioWorkload):
    """The same jobs on each storage arm of a host, once a round in random order: a comparison.

    ``looks`` are the rounds after which arms are compared (default: after all); ``again`` is
    run a second time in every round, as arm ``<again>-again``: the noise floor (A/A). Where the
    inventory says nothing of arm local, it is the host's scratch folder.
    """

    arms: Annotated[list[StorageArm], pydantic.AfterValidator(at_least_one)]
    again: StorageArm | None = None
    looks: list[Positive] | None = None

    @pydantic.model_validator(mode="after")
    def _compares(self) -> FioArms:
        checked_looks(self.rounds, self.looks)
        if len(set(self.arms)) != len(self.arms):
            raise ValueError("arms: each once; 'again' runs one of them a second time")
        checked_again(self.arms, self.again)
        return self

    @property
    def runs(self) -> tuple[str, ...]:
        """Return what each job is run on in a round: the arms, and one of them again."""
        return runs_of(self.arms, self.again)


class FioTogether(FioWorkload):
    """Jobs of all serving hosts at once on one storage arm, by fio's servers and client.

    Results count only where all began within ``most_apart``. A fio server listens on each host's
    address at ``port`` while a job runs; it takes jobs from anyone who reaches it.
    """

    arm: StorageArm = "device"
    most_apart: Duration = Quantity.of(1, "s")
    port: Annotated[int, pydantic.Field(ge=1, le=65535)] = 8765


Percent = Annotated[int, pydantic.Field(ge=0, le=100)]
MOST_CELLS = 400


class FioGrid(Strict):
    """A sweep: fio once a round for every combination of what is listed, on one file of ``size``.

    ``jobs`` work at once in a cell; ``dedupe`` and ``compress`` are percentages of the data that
    is written; ``buffered`` goes through the page cache.
    """

    rounds: Rounds
    ramp: Ramp
    runtime: Runtime
    size: FileSize
    patterns: Annotated[
        list[Literal["read", "write", "randread", "randwrite", "randrw"]],
        pydantic.AfterValidator(at_least_one),
    ]
    blocks: Annotated[list[Size], pydantic.AfterValidator(at_least_one)]
    queue_depths: Annotated[list[Depth], pydantic.AfterValidator(at_least_one)]
    jobs: Many = 1
    read_pct: Percent | None = None
    dedupe: list[Percent] | None = None
    compress: list[Percent] | None = None
    buffered: list[bool] | None = None

    @pydantic.model_validator(mode="after")
    def _sound(self) -> FioGrid:
        lists = (self.patterns, self.blocks, self.queue_depths)
        kinds = (self.dedupe or [0], self.compress or [0], self.buffered or [False])
        if math.prod(len(each) for each in (*lists, *kinds)) > MOST_CELLS:
            raise ValueError(f"more than {MOST_CELLS} combinations")
        if self.read_pct is not None and set(self.patterns) != {"randrw"}:
            raise ValueError("read_pct means something only for patterns: [randrw]")
        if (self.dedupe or self.compress) and set(self.patterns) & {"read", "randread"}:
            raise ValueError("dedupe and compress are of data that is written")
        for block in self.blocks:
            if block.base % 512 or block.base * self.jobs > self.size.base:
                raise ValueError(
                    f"blocks: {block} is no multiple of 512 B, or more than each of {self.jobs} "
                    f"jobs has of {self.size}"
                )
        return self


class KvWorkload(Strict):
    """G3's sessions: exact token counts, all from a recorded seed.

    ``looks`` are the rounds after which arms are compared (default: after all); ``again`` is
    run a second time in every round, as arm ``<again>-again``: the noise floor (A/A).
    """

    arms: list[ArmId]
    again: ArmId | None = None
    rounds: Rounds
    looks: list[Positive] | None = None
    sessions: Positive
    prompt_tokens: Positive
    output_tokens: Positive
    concurrency: list[Positive]

    @pydantic.model_validator(mode="after")
    def _sound(self) -> KvWorkload:
        checked_looks(self.rounds, self.looks)
        checked_again(self.arms, self.again)
        return self

    @property
    def runs(self) -> tuple[str, ...]:
        """Return what is run once a round at each concurrency: the arms, and one of them again."""
        return runs_of(self.arms, self.again)


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
    fio_arms: FioArms | None = None
    fio_together: FioTogether | None = None
    grids: dict[Slug, FioGrid] = pydantic.Field(default_factory=dict)
    pts: PtsWorkload | None = None
    paths: PathsWorkload | None = None
    perftest: PerftestWorkload | None = None
    failover: FailoverWorkload | None = None
    kv: KvWorkload | None = None
    load: LoadWorkload | None = None
    replay: ReplayWorkload | None = None
    assessment: AssessmentWorkload | None = None
    soak: SoakWorkload | None = None

    def looks(self) -> dict[str, tuple[int, ...]]:
        """Return after which rounds arms are compared, by the first word of what is measured."""
        found: dict[str, tuple[int, ...]] = {}
        if self.fio:
            found["fio"] = (self.fio.rounds,)
        if self.fio_arms:
            found["arms"] = checked_looks(self.fio_arms.rounds, self.fio_arms.looks)
        if self.kv:
            found["g3"] = checked_looks(self.kv.rounds, self.kv.looks)
        if self.replay:
            found["replay"] = checked_looks(self.replay.rounds, self.replay.looks)
            if self.replay.dedup_rounds:
                found["dedup"] = (self.replay.dedup_rounds,)
        return found
