"""SNIA's performance tests as data: their loops and points, what they cost, fio's jobs for them.

After SSS PTS 2.0.2 as its users quote it. Not certain are the tracked variable of the throughput
test (here both directions), and when write saturation ends (6 h or 24 h; the plan says).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from fiopy import Job, Pattern
from kvgate.errors import NotRunError
from kvgate.spec.pts import LEAST_ROUNDS, PtsWorkload
from kvgate.workloads.shapes import Setting, depth_by
from kvgate.workloads.target import Target

KIB = 1024
PRECONDITION_BLOCK = 128 * KIB
PRECONDITION_PASSES = 2
SATURATION_PASSES = 4
QUICK_SATURATION_S = 3600.0
FILE_PASSES = 2
"""How often a point may go through a file at most; bounds the bytes, whatever the speed."""

PERCENTILES = (50.0, 99.0, 99.9, 99.99, 99.999)

_MIXES = (100, 95, 65, 50, 35, 5, 0)
_BLOCKS_KIB = (1024, 128, 64, 32, 16, 8, 4)
_SECTOR = 512
_AROUND_S = 2.0  # to look at a device, to start fio and to remove its job file, over SSH
_SLOWEST_B_PER_S = 20e6
_SLACK_S = 120.0
ESTIMATED_B_PER_S = 500e6
LINE_RATE_B_PER_S = 12.5e9
"""100 Gb/s: the most that is written a second where no datasheet says less."""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One cell of a loop: so much of it reads, in that block size, in random order or not."""

    read_pct: int
    block_bytes: int
    random: bool = True

    @property
    def mix(self) -> str:
        """Return reads to writes, as the standard writes it: ``65/35``."""
        return f"{self.read_pct}/{100 - self.read_pct}"

    @property
    def block(self) -> str:
        """Return the block size: ``4 KiB``, ``0.5 KiB``."""
        return f"{self.block_bytes / KIB:g} KiB"

    @property
    def labels(self) -> dict[str, str]:
        """Return what its measurements are labelled with."""
        return {"mix": self.mix, "block_size": self.block}

    @property
    def name(self) -> str:
        """Return a name that a file may have."""
        return f"pts-{self.read_pct}-{self.block_bytes}"

    @property
    def pattern(self) -> Pattern:
        """Return fio's pattern."""
        if self.read_pct in (0, 100):
            pure = "write" if self.read_pct == 0 else "read"
            return Pattern(f"rand{pure}" if self.random else pure)
        return Pattern.RANDRW if self.random else Pattern.READWRITE


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One test: the points of a round, and which of them must become steady in what.

    ``precondition_block`` None: it starts on what a purge left. No ``tracked``: it ends by time.
    """

    name: str
    title: str
    measure: str
    points: tuple[Point, ...]
    tracked: tuple[Point, ...]
    threads: int
    queue_depth: int
    precondition_block: int | None = PRECONDITION_BLOCK

    @property
    def writes(self) -> float:
        """Return how many points' time of a round is spent writing."""
        return sum(1 - point.read_pct / 100 for point in self.points)


def loops(workload: PtsWorkload) -> tuple[Loop, ...]:
    """Return the tests of `workload` in their order; throughput is one a block size."""
    made = {
        "iops": _iops,
        "throughput": _throughput,
        "latency": _latency,
        "saturation": _saturation,
    }
    return tuple(loop for test in workload.tests for loop in made[test](workload))


def _iops(workload: PtsWorkload) -> Iterator[Loop]:
    """Yield the IOPS test: seven mixes by eight block sizes, three of them tracked."""
    tracked: tuple[Point, ...] = (
        Point(0, 4 * KIB),
        Point(65, 64 * KIB),
        Point(100, 1024 * KIB),
    )
    blocks = (*(each * KIB for each in _BLOCKS_KIB), _SECTOR)
    points = tuple(Point(mix, block) for mix in _MIXES for block in blocks)
    if workload.profile == "quick":
        points = tuple(Point(mix, block * KIB) for mix in (100, 65, 0) for block in (1024, 64, 4))
    if workload.points is not None:
        points = tuple(Point(each.read, int(each.block.base)) for each in workload.points)
        tracked = tuple(point for point in tracked if point in points) or points
    yield Loop(
        name="iops",
        title="IOPS",
        measure="pts.iops",
        points=points,
        tracked=tracked,
        threads=workload.threads,
        queue_depth=workload.queue_depth,
    )


def _throughput(workload: PtsWorkload) -> Iterator[Loop]:
    """Yield throughput at 128 and 1024 KiB; preconditioned in the block size that is tested."""
    for kib in (128,) if workload.profile == "quick" else (1024, 128):
        points = tuple(Point(mix, kib * KIB, random=False) for mix in (100, 0))
        yield Loop(
            name=f"throughput-{kib}k",
            title=f"Throughput, {kib} KiB",
            measure="pts.bw",
            points=points,
            tracked=points,
            threads=1,
            queue_depth=32,
            precondition_block=kib * KIB,
        )


def _latency(workload: PtsWorkload) -> Iterator[Loop]:
    blocks = (4 * KIB,) if workload.profile == "quick" else (8 * KIB, 4 * KIB, _SECTOR)
    yield Loop(
        name="latency",
        title="Latency",
        measure="pts.lat_mean",
        points=tuple(Point(mix, block) for mix in (100, 65, 0) for block in blocks),
        tracked=(Point(0, 4 * KIB),),
        threads=1,
        queue_depth=1,
    )


def _saturation(workload: PtsWorkload) -> Iterator[Loop]:
    yield Loop(
        name="saturation",
        title="Write saturation",
        measure="pts.iops",
        points=(Point(0, 4 * KIB),),
        tracked=(),
        threads=workload.threads,
        queue_depth=workload.queue_depth,
        precondition_block=None,
    )


def size_bytes(workload: PtsWorkload, capacity_bytes: int) -> int:
    """Return the active range of a target in bytes, in whole MiB; raises NotRunError for none."""
    size = int(capacity_bytes * workload.active_range.base) // 2**20 * 2**20
    if size < 2**20:
        raise NotRunError(
            (f"workloads.pts: an active range of {size} B holds no block of 1024 KiB",),
            hint="make it at least 1 MiB",
        )
    return size


def saturation_rounds(workload: PtsWorkload) -> int:
    """Return after how many rounds of one point write saturation ends by time."""
    limit = workload.saturation.to("s")
    if workload.profile == "quick":
        limit = min(limit, QUICK_SATURATION_S)
    return max(1, round(limit / workload.per_point.to("s")))


def job(loop: Loop, point: Point, target: Target, setting: Setting, *, round_: int) -> Job:
    """Return the fio job of a point in a round: all threads on all of the range, random data.

    Offsets differ from round to round. A file of ours is gone through `FILE_PASSES` times at most.
    Raises NotRunError where fio has no engine for the depth.
    """
    bounded = target.is_ours
    return Job(
        name=point.name,
        pattern=point.pattern,
        filename=target.path,
        block_bytes=point.block_bytes,
        size_bytes=target.size_bytes,
        io_size_bytes=FILE_PASSES * target.size_bytes // loop.threads if bounded else None,
        jobs=loop.threads,
        read_pct=None if point.read_pct in (0, 100) else point.read_pct,
        queue_depth=depth_by(setting.engine, loop.queue_depth, "PTS"),
        engine=setting.engine,
        direct=target.direct,
        runtime_s=setting.runtime_s,
        time_based=None if bounded else True,
        threads=True,
        group_reporting=True,
        no_random_map=True if point.random else None,
        refill_buffers=True,
        seed=(setting.seed + 1009 * round_ + loop.points.index(point)) % 2**31,
        percentiles=PERCENTILES,
    )


def precondition_job(loop: Loop, target: Target, setting: Setting) -> Job:
    """Return the job of workload-independent preconditioning: all of the range, twice over."""
    return Job(
        name="pts-precondition",
        pattern=Pattern.WRITE,
        filename=target.path,
        block_bytes=loop.precondition_block or PRECONDITION_BLOCK,
        size_bytes=target.size_bytes,
        io_size_bytes=PRECONDITION_PASSES * target.size_bytes,
        queue_depth=depth_by(setting.engine, 32, "PTS"),
        engine=setting.engine,
        direct=target.direct,
        threads=True,
        fallocate="none",
        end_fsync=True,
        refill_buffers=True,
        seed=setting.seed,
    )


def deadline_s(setting: Setting, *, precondition: bool = False) -> float:
    """Return when a job that should have ended hangs."""
    moved = PRECONDITION_PASSES * setting.total_bytes / _SLOWEST_B_PER_S
    return (moved if precondition else setting.runtime_s) + _SLACK_S


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """What a test takes, from the fewest rounds to the most; bytes are written at most."""

    title: str
    points: int
    rounds: tuple[int, int]
    least_s: float
    most_s: float
    bytes_written: int


def estimate(
    workload: PtsWorkload, capacity_bytes: int, *, write_b_per_s: float = LINE_RATE_B_PER_S
) -> tuple[Range, ...]:
    """Return what each test takes on one target, preconditioning included.

    `write_b_per_s` is what the target writes at most (its datasheet), which bounds the bytes.
    """
    size = size_bytes(workload, capacity_bytes)
    found = []
    preconditioned = False
    for loop in loops(workload):
        each_s = len(loop.points) * (workload.per_point.to("s") + _AROUND_S)
        least, most = LEAST_ROUNDS, workload.most_rounds
        if not loop.tracked:
            least = most = saturation_rounds(workload)
        before = 0
        if loop.precondition_block and not (workload.profile == "quick" and preconditioned):
            before = PRECONDITION_PASSES * size
        preconditioned = loop.precondition_block is not None
        rate = ESTIMATED_B_PER_S if workload.file is not None else write_b_per_s
        before_s = before / rate
        written = _written(workload, loop, size, most, write_b_per_s)
        found.append(
            Range(
                loop.title,
                len(loop.points),
                (least, most),
                before_s + least * each_s,
                before_s + most * each_s,
                round(before + written),
            )
        )
    return tuple(found)


def _written(
    workload: PtsWorkload, loop: Loop, size: int, rounds: int, write_b_per_s: float
) -> float:
    by_time = loop.writes * workload.per_point.to("s") * write_b_per_s
    if workload.file is not None:
        by_time = min(by_time, loop.writes * FILE_PASSES * size)
    written = rounds * by_time
    return written if loop.tracked else min(written, SATURATION_PASSES * size + by_time)
