"""Jobs, typed: one frozen dataclass whose every field is one validated option of fio.

Field names carry their unit (``block_bytes``, ``runtime_s``); each field's metadata says which fio
option it is and what values it takes, so that the job file's writer and reader need no table of
their own. Meanings: fio's HOWTO, "Job file parameters".
"""

from __future__ import annotations

import dataclasses
import enum

from fiopy import sense
from fiopy.options import Option, check, check_name, option


class Pattern(enum.StrEnum):
    """fio's ``rw``; trims are left out: they destroy, and no job of ours wants them."""

    READ = "read"
    WRITE = "write"
    RANDREAD = "randread"
    RANDWRITE = "randwrite"
    READWRITE = "readwrite"
    RANDRW = "randrw"

    @property
    def reads(self) -> bool:
        """Tell whether the pattern reads."""
        return self not in (Pattern.WRITE, Pattern.RANDWRITE)

    @property
    def writes(self) -> bool:
        """Tell whether the pattern writes."""
        return self not in (Pattern.READ, Pattern.RANDREAD)

    @property
    def random(self) -> bool:
        """Tell whether the pattern goes in no order."""
        return self.value.startswith("rand")


VERIFY_METHODS = ("crc32c", "crc32", "crc64", "md5", "sha1", "sha256", "sha512", "xxhash", "meta")
FALLOCATE = ("none", "native", "posix", "keep", "truncate")
CONTINUE_ON_ERROR = ("none", "read", "write", "io", "verify", "all")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One fio job. A field that is None is left to fio's default.

    Raises FioJobError, naming job, field, value and what is allowed, for a value that fio would
    not take as meant, and for values that contradict each other.
    """

    name: str
    pattern: Pattern = dataclasses.field(
        metadata={"option": Option("rw", "choice", choices=tuple(Pattern))}
    )
    filename: str | None = option("filename", "path")
    directory: str | None = option("directory", "path")
    block_bytes: int | None = option("bs", "bytes", least=1, most=2**32 - 1)
    size_bytes: int | None = option("size", "bytes", least=1)
    io_size_bytes: int | None = option("io_size", "bytes", least=1)
    offset_bytes: int | None = option("offset", "bytes")
    offset_increment_bytes: int | None = option("offset_increment", "bytes")
    read_pct: int | None = option("rwmixread", "int", most=100)
    random_pct: int | None = option("percentage_random", "int", most=100)
    queue_depth: int | None = option("iodepth", "int", least=1, most=65536)
    jobs: int | None = option("numjobs", "int", least=1, most=4096)
    engine: str | None = option("ioengine", "text")
    rocm_io: str | None = option(
        "rocm_io", "choice", choices=("hipfile", "posix"), engine="libhipfile"
    )
    cuda_io: str | None = option(
        "cuda_io", "choice", choices=("cufile", "posix"), engine="libcufile"
    )
    gpus: str | None = option("gpu_dev_ids", "gpus", engine="libhipfile libcufile")
    direct: bool | None = option("direct", "flag")
    runtime_s: float | None = option("runtime", "seconds")
    ramp_s: float | None = option("ramp_time", "seconds")
    start_delay_s: float | None = option("startdelay", "seconds")
    time_based: bool | None = option("time_based", "flag")
    loops: int | None = option("loops", "int", least=1, most=2**31 - 1)
    threads: bool | None = option("thread", "flag")
    wait_for_earlier: bool | None = option("stonewall", "flag")
    group_reporting: bool | None = option("group_reporting", "flag")
    cpus: str | None = option("cpus_allowed", "cpus")
    end_fsync: bool | None = option("end_fsync", "flag")
    fsync_every: int | None = option("fsync", "int", most=2**31 - 1)
    fallocate: str | None = option("fallocate", "choice", choices=FALLOCATE)
    overwrite: bool | None = option("overwrite", "flag")
    allow_file_create: bool | None = option("allow_file_create", "flag")
    create_serialize: bool | None = option("create_serialize", "flag")
    invalidate: bool | None = option("invalidate", "flag")
    unlink: bool | None = option("unlink", "flag")
    refill_buffers: bool | None = option("refill_buffers", "flag")
    zero_buffers: bool | None = option("zero_buffers", "flag")
    dedupe_pct: int | None = option("dedupe_percentage", "int", most=100)
    compress_pct: int | None = option("buffer_compress_percentage", "int", most=100)
    compress_chunk_bytes: int | None = option(
        "buffer_compress_chunk", "bytes", least=1, most=2**31 - 1
    )
    seed: int | None = option("randseed", "int")
    no_random_map: bool | None = option("norandommap", "flag")
    rate_bytes_per_s: int | None = option("rate", "bytes", least=1, most=2**32 - 1)
    rate_iops: int | None = option("rate_iops", "int", least=1, most=2**32 - 1)
    verify: str | None = option("verify", "choice", choices=VERIFY_METHODS)
    do_verify: bool | None = option("do_verify", "flag")
    save_verify_state: bool | None = option("verify_state_save", "flag")
    verify_backlog: int | None = option("verify_backlog", "int", least=1, most=2**31 - 1)
    verify_fatal: bool | None = option("verify_fatal", "flag")
    continue_on_error: str | None = option("continue_on_error", "choice", choices=CONTINUE_ON_ERROR)
    exit_all_on_error: bool | None = option("exitall_on_error", "flag")
    percentiles: tuple[float, ...] | None = option("percentile_list", "percentiles")
    latency_log: str | None = option("write_lat_log", "prefix")
    bandwidth_log: str | None = option("write_bw_log", "prefix")
    iops_log: str | None = option("write_iops_log", "prefix")
    histogram_log: str | None = option("write_hist_log", "prefix")
    log_every_ms: int | None = option("log_avg_msec", "int", most=2**31 - 1)
    log_maximum: bool | None = option("log_max_value", "flag")
    log_offset: bool | None = option("log_offset", "flag")
    log_since_1970: bool | None = option("log_unix_epoch", "flag")
    log_each_job: bool | None = option("per_job_logs", "flag")
    histogram_every_ms: int | None = option("log_hist_msec", "int", least=1, most=2**31 - 1)
    histogram_coarseness: int | None = option("log_hist_coarseness", "int", most=6)

    def __post_init__(self) -> None:
        """Check every value, then what values mean together."""
        check_name(self.name)
        for field, taken in OPTIONS.items():
            value = getattr(self, field)
            if field == "pattern":
                value = value if isinstance(value, Pattern) else repr(value)
            if value is not None:
                check(self.name, field, taken, value)
        sense.check(self)


def _options() -> dict[str, Option]:
    return {
        field.name: field.metadata["option"]
        for field in dataclasses.fields(Job)
        if "option" in field.metadata
    }


OPTIONS: dict[str, Option] = _options()
"""Field of Job → the fio option that it is."""
