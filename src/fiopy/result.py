"""What a fio run said, typed: one unit a figure whatever fio's version; None is "not said"."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from fiopy.version import Version

EILSEQ = 84
"""The errno that fio gives a failed verification ("Invalid or incomplete multibyte …")."""

ENOSPC = 28
"""The errno of a file system that is full."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One latency of one direction, in ns; whatever fio did not print is None or absent."""

    min_ns: float | None = None
    max_ns: float | None = None
    mean_ns: float | None = None
    stddev_ns: float | None = None
    percentiles_ns: Mapping[float, float] = dataclasses.field(default_factory=dict)
    bins: Mapping[int, int] | None = None  # json+: upper bound of the bin in ns → count

    def percentile_ns(self, percent: float) -> float | None:
        """Return that percentile, None if fio was not asked for it; never interpolated."""
        for known, value in self.percentiles_ns.items():
            if math.isclose(known, percent, rel_tol=0, abs_tol=5e-7):
                return value
        return None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What one direction of one job moved."""

    bytes_per_s: float
    iops: float
    runtime_ms: int
    total_bytes: int | None = None
    total_ios: int | None = None
    short_ios: int | None = None
    dropped_ios: int | None = None
    slat: Latency | None = None
    clat: Latency | None = None
    lat: Latency | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One job's result; a direction in which nothing moved is None.

    ``error`` is the job's errno (0: none); ``total_errors`` counts those it went on after
    (continue_on_error), None where fio did not count. ``processes`` is how many clones a text
    result sums up. ``client`` is the server it ran on (`fio --client`: address:port), and
    ``started_at_ms`` when it began, in ms since 1970 by that host's clock (fio 3.36 and newer).
    """

    name: str
    error: int
    client: str | None = None
    started_at_ms: int | None = None
    group: int | None = None
    elapsed_s: int | None = None
    total_errors: int | None = None
    processes: int | None = None
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    read: Transfer | None = None
    write: Transfer | None = None
    trim: Transfer | None = None

    def moved(self, direction: str) -> Transfer | None:
        """Return the transfer of ``read``, ``write`` or ``trim``; None where it was idle."""
        return {"read": self.read, "write": self.write, "trim": self.trim}[direction]


@dataclasses.dataclass(frozen=True, slots=True)
class DiskUse:
    """How busy a block device was during the run, 0 to 100 %."""

    name: str
    util_pct: float


@dataclasses.dataclass(frozen=True, slots=True)
class VerifyFailure:
    """A block whose content was not what had been written."""

    file: str
    offset: int
    text: str  # fio's line


@dataclasses.dataclass(frozen=True, slots=True)
class Complaint:
    """A line in which fio reports an error; ``errno`` and ``text`` where the line has them."""

    line: str
    errno: int | None = None
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Total:
    """The sum over jobs that ran side by side."""

    bytes_per_s: float
    iops: float
    total_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Everything that one fio run printed. ``documents`` counts complete JSON documents.

    ``rounded`` is True where the figures come from fio's text form, which has 3 to 4 digits.
    ``noise`` holds the lines that are neither result nor complaint.
    """

    version: Version | None = None
    exit_status: int | None = None
    jobs: tuple[JobResult, ...] = ()
    disks: tuple[DiskUse, ...] = ()
    verify_failures: tuple[VerifyFailure, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    signal: int | None = None  # "fio: terminating on signal N"
    killed: int | None = None  # "fio: pid=N, got signal=N": of a job's process; fio may exit 0
    processes: int | None = None  # "Starting 48 processes"
    noise: tuple[str, ...] = ()
    documents: int = 0
    rounded: bool = False

    @property
    def error(self) -> int | None:
        """Return the first errno of a job or complaint; 0 if jobs said none; None if unknown."""
        codes = [job.error for job in self.jobs]
        codes += [each.errno for each in self.complaints if each.errno is not None]
        return next((code for code in codes if code), 0 if codes else None)

    @property
    def failed(self) -> bool:
        """Tell whether this is no measurement, even if figures were printed.

        An exit status other than 0, a job's errno, a failed verification, an interruption (its
        JSON says ``error: 0``) and a complaint each suffice; and fio 3.33 exits 0 after failed
        verifications that it was told to go on after.
        """
        return bool(
            self.exit_status
            or self.error
            or self.verify_failures
            or self.complaints
            or self.signal is not None
            or self.killed is not None
        )

    @property
    def errors(self) -> int:
        """Return how many errors fio counted or named (at least 1 if a job has an errno)."""
        return sum(
            job.total_errors if job.total_errors is not None else int(job.error != 0)
            for job in self.jobs
        ) or sum(1 for each in self.complaints if each.errno)

    def total(self, direction: str) -> Total | None:
        """Return the sum over all jobs (names may repeat); None where the direction was idle."""
        moved = [each for job in self.jobs if (each := job.moved(direction)) is not None]
        if not moved:
            return None
        return Total(
            math.fsum(each.bytes_per_s for each in moved),
            math.fsum(each.iops for each in moved),
            sum(each.total_bytes or 0 for each in moved),
        )

    def why(self) -> str:
        """Return in a phrase why it failed; "" if it did not."""
        if not self.failed:
            return ""
        if self.verify_failures:
            first = self.verify_failures[0]
            return (
                f"verification failed on {len(self.verify_failures)} block(s), the first in "
                f"{first.file} at byte {first.offset}"
            )
        if self.signal is not None:
            return f"it was interrupted by signal {self.signal}"
        if self.killed is not None:
            return f"a job's process was killed by signal {self.killed}"
        if self.complaints:
            return self.complaints[0].line[:300]
        if self.error:
            return f"a job ended with errno {self.error}"
        return f"it exited {self.exit_status}"
