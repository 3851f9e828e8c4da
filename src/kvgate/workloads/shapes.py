"""The shapes of KV-cache traffic on files, as data: what each fio job does, and why so."""

from __future__ import annotations

import dataclasses
import difflib

from fiopy import Job, Pattern
from kvgate.errors import NotRunError, SpecError

TOKEN_BYTES = 31_744
"""KV bytes a token and rank: Qwen3-Coder-480B, bf16, TP8 (62 layers × 2 × 1 head × 128 × 2 B)."""

CHUNK_BYTES = 256 * TOKEN_BYTES
"""One chunk file of LMCache at 256 tokens a chunk, as the published joint test R2 stored it."""

PAGE_BYTES = 16 * TOKEN_BYTES
"""One block of vLLM (16 tokens) of the same rank: the smallest piece a tier moves."""

RANKS = 8
"""Tensor-parallel ranks (TP8), each with its own region of the file, all at once."""

STORE_PASSES = 8
"""How often a store may write its file over; bounds the bytes written, whatever the speed."""

MIXED_PASSES = 16
"""How often the mix may go through its file; a tenth of it is written."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One kind of load. ``passes`` (None: none) bounds it by bytes instead of time alone."""

    name: str
    why: str
    pattern: Pattern
    block_bytes: int
    read_pct: int | None = None
    queue_depth: int = 1
    ranks: int = RANKS
    on_data: bool = False  # works on the file that was laid out before, not on one of its own
    passes: int | None = None
    verify: str | None = None

    @property
    def directions(self) -> tuple[str, ...]:
        """Return the directions that its readings are of."""
        return (
            *(["read"] if self.pattern.reads else []),
            *(["write"] if self.pattern.writes or self.verify else []),
        )

    @property
    def write_share(self) -> float:
        """Return the part of what it moves that it writes."""
        if not self.pattern.writes:
            return 0.0
        return 1.0 if self.read_pct is None else 1 - self.read_pct / 100


SHAPES = {
    shape.name: shape
    for shape in (
        Shape(
            name="kv-restore",
            why="a cold restore: every rank reads whole chunks, which lie where they were stored, "
            "in no order (R2: 118 chunk files a session and rank)",
            pattern=Pattern.RANDREAD,
            block_bytes=CHUNK_BYTES,
            on_data=True,
        ),
        Shape(
            name="kv-restore-seq",
            why="the same with the chunks of a session one behind the other: the best layout",
            pattern=Pattern.READ,
            block_bytes=CHUNK_BYTES,
            on_data=True,
        ),
        Shape(
            name="kv-store",
            why="sessions being stored: every rank writes whole chunks into space not yet "
            "allocated, and they count once they are on the medium (fsync at the end)",
            pattern=Pattern.WRITE,
            block_bytes=CHUNK_BYTES,
            passes=STORE_PASSES,
        ),
        Shape(
            name="kv-mixed",
            why="serving: nine restored blocks for one stored, in vLLM's block size, in no order",
            pattern=Pattern.RANDRW,
            block_bytes=PAGE_BYTES,
            read_pct=90,
            queue_depth=4,
            on_data=True,
            passes=MIXED_PASSES,
        ),
        Shape(
            name="verify",
            why="what was stored is what is restored: chunks with checksums in their headers are "
            "written, then all read back and compared",
            pattern=Pattern.READ,
            block_bytes=CHUNK_BYTES,
            queue_depth=8,
            ranks=1,
            verify="crc32c",
        ),
    )
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a shape is run this time, whatever it is."""

    engine: str
    direct: bool
    ramp_s: float
    runtime_s: float
    total_bytes: int  # of the file, as `file_bytes` gives it
    seed: int
    sustained: bool = False  # for all of `runtime_s`, however much is moved
    rate_bytes_per_s: int | None = None  # at most, in each direction, all ranks together


def shape(name: str) -> Shape:
    """Return the shape called `name`; raises SpecError with the nearest one."""
    if name in SHAPES:
        return SHAPES[name]
    close = difflib.get_close_matches(name, SHAPES, n=1)
    raise SpecError(
        f"workloads.fio.jobs: there is no job '{name}'",
        hint=f"did you mean '{close[0]}'?" if close else f"one of: {', '.join(SHAPES)}",
    )


def file_bytes(size_bytes: int) -> int:
    """Return the most whole chunks for every rank in `size_bytes`; raises NotRunError for none."""
    unit = RANKS * CHUNK_BYTES
    if size_bytes < unit:
        raise NotRunError(
            (f"workloads.fio.size: {size_bytes} B is less than a chunk for each of {RANKS} ranks",),
            hint=f"make it at least {-(-unit // 10**6)} MB",
        )
    return size_bytes // unit * unit


def layout(path: str, setting: Setting) -> list[Job]:
    """Return the job that fills the file which restores read, before anything is measured."""
    return [
        Job(
            name="layout",
            pattern=Pattern.WRITE,
            filename=path,
            block_bytes=CHUNK_BYTES,
            size_bytes=setting.total_bytes,
            queue_depth=4,
            engine=setting.engine,
            direct=setting.direct,
            threads=True,
            fallocate="none",
            end_fsync=True,
            seed=setting.seed,
        )
    ]


def jobs(shape: Shape, path: str, setting: Setting) -> list[Job]:
    """Return the fio jobs of `shape` on the file `path`."""
    if shape.verify:
        return _verifying(shape, path, setting)
    each = setting.total_bytes // shape.ranks
    bounded = shape.passes is not None and not setting.sustained
    rate = setting.rate_bytes_per_s
    return [
        Job(
            name=shape.name,
            pattern=shape.pattern,
            filename=path,
            block_bytes=shape.block_bytes,
            size_bytes=each,
            offset_increment_bytes=each,
            jobs=shape.ranks,
            io_size_bytes=(shape.passes or 1) * each if bounded else None,
            read_pct=shape.read_pct,
            queue_depth=shape.queue_depth,
            engine=setting.engine,
            direct=setting.direct,
            runtime_s=setting.runtime_s,
            time_based=None if bounded else True,
            ramp_s=None if bounded or not setting.ramp_s else setting.ramp_s,
            rate_bytes_per_s=None if rate is None else max(1, rate // shape.ranks),
            threads=True,
            group_reporting=True,
            seed=setting.seed,
            fallocate=None if shape.on_data else "none",
            end_fsync=True if shape.pattern.writes else None,
        )
    ]


def _verifying(shape: Shape, path: str, setting: Setting) -> list[Job]:
    """Return two jobs, one after the other: write with checksums, then read back and compare."""
    write = Job(
        name="verify-write",
        pattern=Pattern.WRITE,
        filename=path,
        block_bytes=shape.block_bytes,
        size_bytes=setting.total_bytes,
        queue_depth=shape.queue_depth,
        engine=setting.engine,
        direct=setting.direct,
        threads=True,
        fallocate="none",
        end_fsync=True,
        verify=shape.verify,
        do_verify=False,
        seed=setting.seed,
        save_verify_state=False,  # else fio leaves a file in the login's working folder
    )
    read = dataclasses.replace(
        write,
        name="verify-read",
        pattern=Pattern.READ,
        wait_for_earlier=True,
        fallocate=None,
        end_fsync=None,
        do_verify=None,
        continue_on_error="verify",  # all bad blocks, not one
    )
    return [write, read]
