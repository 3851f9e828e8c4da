"""Jobs, typed: one frozen dataclass whose every field is one validated option of fio.

Field names carry their unit (``block_bytes``, ``runtime_s``); each field's metadata says which fio
option it is and what values it takes, so that the job file's writer and reader need no table of
their own. Meanings: fio's HOWTO, "Job file parameters".
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from typing import Any

from fiopy.errors import FioJobError


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


VERIFY_METHODS = ("crc32c", "crc32", "crc64", "md5", "sha1", "sha256", "sha512", "xxhash", "meta")
FALLOCATE = ("none", "native", "posix", "keep", "truncate")
CONTINUE_ON_ERROR = ("none", "read", "write", "io", "verify", "all")

# In a job file '#' and ';' begin a comment wherever they stand, '$' is expanded, '[' opens a
# section and '\' escapes (fio init.c, parse_jobs_ini; options.c, fio_keyword_replace).
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f#;$\\\[\]\"'`\u2028\u2029\x85]")
_NAME_LENGTH = 254  # fio reads a section's name into 256 bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """What a field is in fio: the option's name, its kind, and the bounds of its value."""

    name: str
    kind: str  # int, bytes, seconds, flag, text, path, choice, percentiles
    least: float = 0
    most: float = 2**63 - 1
    choices: tuple[str, ...] = ()


def _option(
    name: str,
    kind: str,
    *,
    least: float = 0,
    most: float = 2**63 - 1,
    choices: tuple[str, ...] = (),
) -> Any:
    """Return an optional dataclass field that carries its Option; None leaves it to fio."""
    return dataclasses.field(
        default=None, metadata={"option": Option(name, kind, least, most, choices)}
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One fio job. A field that is None is left to fio's default.

    Raises FioJobError, naming the field, for a value that fio would not take as meant.
    """

    name: str
    pattern: Pattern = dataclasses.field(metadata={"option": Option("rw", "choice")})
    filename: str | None = _option("filename", "path")
    directory: str | None = _option("directory", "path")
    block_bytes: int | None = _option("bs", "bytes", least=1, most=2**32 - 1)
    size_bytes: int | None = _option("size", "bytes", least=1)
    io_size_bytes: int | None = _option("io_size", "bytes", least=1)
    offset_bytes: int | None = _option("offset", "bytes")
    offset_increment_bytes: int | None = _option("offset_increment", "bytes")
    read_pct: int | None = _option("rwmixread", "int", most=100)
    random_pct: int | None = _option("percentage_random", "int", most=100)
    queue_depth: int | None = _option("iodepth", "int", least=1, most=65536)
    jobs: int | None = _option("numjobs", "int", least=1, most=4096)
    engine: str | None = _option("ioengine", "text")
    direct: bool | None = _option("direct", "flag")
    runtime_s: float | None = _option("runtime", "seconds")
    ramp_s: float | None = _option("ramp_time", "seconds")
    start_delay_s: float | None = _option("startdelay", "seconds")
    time_based: bool | None = _option("time_based", "flag")
    threads: bool | None = _option("thread", "flag")
    wait_for_earlier: bool | None = _option("stonewall", "flag")
    group_reporting: bool | None = _option("group_reporting", "flag")
    end_fsync: bool | None = _option("end_fsync", "flag")
    fsync_every: int | None = _option("fsync", "int")
    fallocate: str | None = _option("fallocate", "choice", choices=FALLOCATE)
    create_serialize: bool | None = _option("create_serialize", "flag")
    invalidate: bool | None = _option("invalidate", "flag")
    unlink: bool | None = _option("unlink", "flag")
    refill_buffers: bool | None = _option("refill_buffers", "flag")
    dedupe_pct: int | None = _option("dedupe_percentage", "int", most=100)
    compress_pct: int | None = _option("buffer_compress_percentage", "int", most=100)
    seed: int | None = _option("randseed", "int")
    no_random_map: bool | None = _option("norandommap", "flag")
    rate_bytes_per_s: int | None = _option("rate", "bytes", least=1, most=2**32 - 1)
    verify: str | None = _option("verify", "choice", choices=VERIFY_METHODS)
    do_verify: bool | None = _option("do_verify", "flag")
    save_verify_state: bool | None = _option("verify_state_save", "flag")
    verify_fatal: bool | None = _option("verify_fatal", "flag")
    continue_on_error: str | None = _option(
        "continue_on_error", "choice", choices=CONTINUE_ON_ERROR
    )
    percentiles: tuple[float, ...] | None = _option("percentile_list", "percentiles")

    def __post_init__(self) -> None:
        """Check every value, then what values mean together."""
        _check_name(self.name)
        for field, option in OPTIONS.items():
            value = getattr(self, field)
            if value is not None:
                _check(f"job '{self.name}': {field}", option, value)
        self._check_sense()

    def _check_sense(self) -> None:
        """Refuse combinations that fio takes silently and that measure something else."""

        def refuse(because: str) -> None:
            raise FioJobError(f"job '{self.name}': {because}")

        if self.filename is None and self.directory is None:
            refuse("neither filename nor directory: fio would write into its working folder")
        if self.time_based and not self.runtime_s:
            refuse("time_based needs runtime_s")
        if self.size_bytes and self.block_bytes and self.size_bytes < self.block_bytes:
            refuse(f"size_bytes {self.size_bytes} is less than one block of {self.block_bytes}")
        if self.read_pct is not None and not (self.pattern.reads and self.pattern.writes):
            refuse(f"read_pct means nothing for rw={self.pattern}")
        if self.runtime_s is None and self.size_bytes is None:
            refuse("neither size_bytes nor runtime_s: the job has no end")


def _options() -> dict[str, Option]:
    return {
        field.name: field.metadata["option"]
        for field in dataclasses.fields(Job)
        if "option" in field.metadata
    }


OPTIONS: dict[str, Option] = _options()
"""Field of Job → the fio option that it is."""


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.strip() or name != name.strip():
        raise FioJobError(f"job name {name!r} is empty or has spaces around it")
    if name == "global":
        raise FioJobError("a job can't be called 'global': that section holds defaults")
    if _FORBIDDEN.search(name) or len(name.encode("utf-8", "replace")) > _NAME_LENGTH:
        raise FioJobError(f"job name {name!r} would break the job file")


def _check(where: str, option: Option, value: object) -> None:
    """Raise FioJobError if `value` is not one that `option` takes."""
    if option.kind == "flag":
        good = isinstance(value, bool)
    elif option.kind in ("int", "bytes"):
        good = (
            isinstance(value, int)
            and not isinstance(value, bool)
            and option.least <= value <= option.most
        )
    elif option.kind == "seconds":
        good = _good_seconds(value)
    elif option.kind == "percentiles":
        good = (
            isinstance(value, tuple)
            and 0 < len(value) <= 20
            and all(isinstance(p, float) and 0 < p <= 100 for p in value)
        )
    elif option.name == "rw":
        good = isinstance(value, Pattern)
    else:
        good = _good_text(where, option, value)
    if not good:
        known = f"; one of: {', '.join(option.choices)}" if option.choices else ""
        raise FioJobError(f"{where}: {value!r} is refused{known or f' ({option.kind})'}")


def _good_seconds(value: object) -> bool:
    """Tell whether `value` is a time that fio's whole milliseconds can say exactly."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value <= 10**7
        and math.isclose(value * 1000, round(value * 1000), abs_tol=1e-6)
    )


def _good_text(where: str, option: Option, value: object) -> bool:
    if not isinstance(value, str) or not value or value != value.strip():
        return False
    if option.choices:
        return value in option.choices
    if _FORBIDDEN.search(value):
        raise FioJobError(
            f"{where}: {value!r} holds a character that would break out of its line",
            hint="line breaks and # ; $ \\ [ ] \" ' ` can't stand in a job file's value",
        )
    if option.kind == "path":
        return value != "-" and len(value.encode("utf-8", "replace")) < 4096
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}", value) is not None
