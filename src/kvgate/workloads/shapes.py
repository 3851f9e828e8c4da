"""The shapes of KV-cache traffic on files, as data: what each fio job does, and why so."""

from __future__ import annotations

import dataclasses
import difflib

from fiopy import Job, Pattern
from fiopy.sense import SYNCHRONOUS
from kvgate.errors import NotRunError, SpecError

TOKEN_BYTES = 31_744
"""KV bytes a token and rank: Qwen3-Coder-480B, bf16, TP8 (62 layers × 2 × 1 head × 128 × 2 B)."""

CHUNK_BYTES = 256 * TOKEN_BYTES
"""One chunk file of LMCache at 256 tokens a chunk, as the published joint test R2 stored it."""

PAGE_BYTES = 16 * TOKEN_BYTES
"""One block of vLLM (16 tokens) of the same rank: the smallest piece a tier moves."""

RANKS = 8
"""Tensor-parallel ranks (TP8), one a GPU, each with its own region of the file, all at once."""

STORE_PASSES = 8
"""How often a store may write its file over; bounds the bytes written, whatever the speed."""

MIXED_PASSES = 16
"""How often the mix may go through its file; a tenth of it is written."""

CHUNK_TOKENS = 256
"""LMCache's chunk."""

PAGE_TOKENS = 16
"""vLLM's block."""

GPU_ENGINES = ("libhipfile", "libcufile")
"""fio's engines that read into GPU memory.

libhipfile is in AMD's fork ROCm/fio and in newer fio (rocm.docs.amd.com, hipFile, "Benchmark
hipFile with fio"); libcufile is NVIDIA's GPUDirect Storage. Both refuse buffered I/O.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kv:
    """The KV whose traffic is imitated: bytes a token and rank, ranks (GPUs), chunks under way."""

    token_bytes: int = TOKEN_BYTES
    ranks: int = RANKS
    queue_depth: int | None = None  # of each rank in whole chunks; None: as the shape has it

    @property
    def chunk_bytes(self) -> int:
        """Return the bytes of one chunk of one rank."""
        return CHUNK_TOKENS * self.token_bytes


AS_PUBLISHED = Kv()
"""Of the published joint test: Qwen3-Coder-480B, bf16, TP8."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One kind of load. ``passes`` (None: none) bounds it by bytes instead of time alone.

    Its block is of so many ``tokens`` of KV, or of ``block_bytes``. ``ranks`` None: one a GPU.
    ``buffered`` goes through the page cache; ``gpu`` into GPU memory where fio can. The two
    percentages say of what kind the data is; None leaves it to fio.
    """

    name: str
    why: str
    pattern: Pattern
    tokens: int = 0
    block_bytes: int = 0
    read_pct: int | None = None
    queue_depth: int = 1
    ranks: int | None = None
    buffered: bool = False
    gpu: bool = False
    dedupe_pct: int | None = None
    compress_pct: int | None = None
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

    def block_of(self, kv: Kv) -> int:
        """Return its block in bytes for the KV of `kv`."""
        return self.tokens * kv.token_bytes if self.tokens else self.block_bytes

    def depth_of(self, kv: Kv) -> int:
        """Return its queue depth: the KV's own for whole chunks, where that is set."""
        if self.tokens == CHUNK_TOKENS and not self.verify and kv.queue_depth is not None:
            return kv.queue_depth
        return self.queue_depth

    @property
    def write_share(self) -> float:
        """Return the part of what it moves that it writes."""
        if not self.pattern.writes:
            return 0.0
        return 1.0 if self.read_pct is None else 1 - self.read_pct / 100


_RESTORE = Shape(
    name="kv-restore",
    why="a cold restore: every rank reads whole chunks, which lie where they were stored, "
    "in no order (R2: 118 chunk files a session and rank)",
    pattern=Pattern.RANDREAD,
    tokens=CHUNK_TOKENS,
    on_data=True,
)
_STORE = Shape(
    name="kv-store",
    why="sessions being stored: every rank writes whole chunks into space not yet "
    "allocated, and they count once they are on the medium (fsync at the end)",
    pattern=Pattern.WRITE,
    tokens=CHUNK_TOKENS,
    passes=STORE_PASSES,
)
_MIXED = Shape(
    name="kv-mixed",
    why="serving: nine restored blocks for one stored, in vLLM's block size, in no order",
    pattern=Pattern.RANDRW,
    tokens=PAGE_TOKENS,
    read_pct=90,
    queue_depth=4,
    on_data=True,
    passes=MIXED_PASSES,
)


def _kinds_of_data() -> tuple[Shape, ...]:
    """Return the store with data of every kind: an array that dedups or compresses shows it."""
    told = {"dedupe": "already there (dedup)", "compress": "saved by compression"}
    kinds = [("dedupe", 0), ("dedupe", 50), ("dedupe", 80), ("compress", 50), ("compress", 80)]
    return tuple(
        dataclasses.replace(
            _STORE,
            name=f"kv-store-{kind}-{pct}",
            why=f"a store of which {pct} % is {told[kind]}: what an array reduces it moves "
            "faster, and no figure of such data stands for KV, which reduces hardly at all",
            dedupe_pct=pct if kind == "dedupe" else None,
            compress_pct=pct if kind == "compress" else None,
        )
        for kind, pct in kinds
    )


SHAPES = {
    shape.name: shape
    for shape in (
        _RESTORE,
        dataclasses.replace(
            _RESTORE,
            name="kv-restore-seq",
            why="the same with the chunks of a session one behind the other: the best layout",
            pattern=Pattern.READ,
        ),
        dataclasses.replace(
            _RESTORE,
            name="kv-restore-buffered",
            why="restores through the page cache, dropped before: what an engine without "
            "O_DIRECT gets, and what the copy costs",
            buffered=True,
        ),
        dataclasses.replace(
            _RESTORE,
            name="kv-restore-gpu",
            why="restores into GPU memory without a copy in the host (hipFile, GPUDirect Storage)",
            gpu=True,
        ),
        _STORE,
        dataclasses.replace(
            _STORE,
            name="kv-store-buffered",
            why="stores through the page cache, on the medium at the end (fsync): what an engine "
            "without O_DIRECT does",
            buffered=True,
        ),
        *_kinds_of_data(),
        _MIXED,
        dataclasses.replace(
            _MIXED,
            name="kv-mixed-70",
            why="serving with little reuse: seven restored blocks for three stored",
            read_pct=70,
        ),
        Shape(
            name="verify",
            why="what was stored is what is restored: chunks with checksums in their headers are "
            "written, then all read back and compared",
            pattern=Pattern.READ,
            tokens=CHUNK_TOKENS,
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
    kv: Kv = AS_PUBLISHED
    gpu_engine: str | None = None
    layout_block_bytes: int | None = None  # None: a chunk
    logs: bool = True  # of latencies over time, where it isn't sustained
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


def file_bytes(size_bytes: int, kv: Kv = AS_PUBLISHED) -> int:
    """Return the most whole chunks for every rank in `size_bytes`; raises NotRunError for none."""
    unit = kv.ranks * kv.chunk_bytes
    if size_bytes < unit:
        raise NotRunError(
            (
                f"workloads.fio.size: {size_bytes} B is less than a chunk for each of "
                f"{kv.ranks} ranks",
            ),
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
            block_bytes=setting.layout_block_bytes or setting.kv.chunk_bytes,
            size_bytes=setting.total_bytes,
            queue_depth=1 if setting.engine in SYNCHRONOUS else 4,
            engine=setting.engine,
            direct=setting.direct,
            threads=True,
            fallocate="none",
            end_fsync=True,
            seed=setting.seed,
        )
    ]


def jobs(shape: Shape, path: str, setting: Setting) -> list[Job]:
    """Return the fio jobs of `shape` on the file `path`; raises NotRunError where fio can't."""
    if shape.verify:
        return _verifying(shape, path, setting)
    ranks = shape.ranks or setting.kv.ranks
    each = setting.total_bytes // ranks
    bounded = shape.passes is not None and not setting.sustained
    rate = setting.rate_bytes_per_s
    job = Job(
        name=shape.name,
        pattern=shape.pattern,
        filename=path,
        block_bytes=shape.block_of(setting.kv),
        size_bytes=each,
        offset_increment_bytes=each,
        jobs=ranks,
        io_size_bytes=(shape.passes or 1) * each if bounded else None,
        read_pct=shape.read_pct,
        queue_depth=_depth(shape, setting),
        engine=setting.engine,
        direct=setting.direct and not shape.buffered,
        runtime_s=setting.runtime_s,
        time_based=None if bounded else True,
        ramp_s=None if bounded or not setting.ramp_s else setting.ramp_s,
        rate_bytes_per_s=None if rate is None else max(1, rate // ranks),
        threads=True,
        group_reporting=True,
        seed=setting.seed,
        fallocate=None if shape.on_data else "none",
        end_fsync=True if shape.pattern.writes else None,
        dedupe_pct=shape.dedupe_pct,
        compress_pct=shape.compress_pct,
    )
    return [_into_gpus(job, setting) if shape.gpu else job]


def _depth(shape: Shape, setting: Setting) -> int:
    depth = 1 if shape.gpu else shape.depth_of(setting.kv)
    return depth_by(setting.engine, depth, shape.name)


def depth_by(engine: str, depth: int, who: str) -> int:
    """Return `depth`; raises NotRunError where fio's `engine` can't have so many under way."""
    if depth > 1 and engine in SYNCHRONOUS:
        raise NotRunError(
            (
                f"{who} has {depth} I/Os under way, and this fio has no engine for more "
                f"than one (libaio, io_uring), only {engine}",
            ),
            hint="install a fio that was built with libaio",
        )
    return depth


def _into_gpus(job: Job, setting: Setting) -> Job:
    """Return `job` by the engine that reads into GPU memory; raises NotRunError if fio has none."""
    if setting.gpu_engine is None:
        raise NotRunError(
            (f"{job.name}: this fio has no engine for GPU-direct I/O: {', '.join(GPU_ENGINES)}",),
            hint="build ROCm/fio with --enable-libhipfile (AMD) or fio with --enable-libcufile, "
            "and set it under 'tools'; hipFile needs P2PDMA and a file system on the device",
        )
    if not setting.direct:
        raise NotRunError((f"{job.name}: the file system refuses O_DIRECT, which it needs",))
    gpus = ":".join(str(number) for number in range(job.jobs or 1))
    if setting.gpu_engine == "libhipfile":
        return dataclasses.replace(job, engine="libhipfile", gpus=gpus, rocm_io="hipfile")
    return dataclasses.replace(job, engine="libcufile", gpus=gpus, cuda_io="cufile")


def _verifying(shape: Shape, path: str, setting: Setting) -> list[Job]:
    """Return two jobs, one after the other: write with checksums, then read back and compare."""
    write = Job(
        name="verify-write",
        pattern=Pattern.WRITE,
        filename=path,
        block_bytes=shape.block_of(setting.kv),
        size_bytes=setting.total_bytes,
        queue_depth=1 if setting.engine in SYNCHRONOUS else shape.queue_depth,
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
