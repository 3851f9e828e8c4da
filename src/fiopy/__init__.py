"""fio through a subprocess, typed: jobs in, measurements out. Standard library only; no kvgate.

>>> from fiopy import Job, LocalRunner, Pattern, run
>>> job = Job(name="read", pattern=Pattern.READ, filename="/scratch/f", size_bytes=2**28)
>>> done = run([job], LocalRunner(), folder="/scratch", deadline_s=60, on_progress=print)
>>> done.output.jobs[0].read.bytes_per_s
"""

from fiopy.driver import Run, engines, parse_engines, run, version
from fiopy.errors import (
    FioCancelled,
    FioError,
    FioFailed,
    FioJobError,
    FioMissing,
    FioOutputError,
    FioTimeout,
)
from fiopy.job import Job, Pattern
from fiopy.jobfile import parse as parse_jobs
from fiopy.jobfile import to_text as jobs_text
from fiopy.local import LocalRunner
from fiopy.output import parse as parse_output
from fiopy.progress import Progress
from fiopy.result import (
    Complaint,
    DiskUse,
    JobResult,
    Latency,
    Output,
    Total,
    Transfer,
    VerifyFailure,
)
from fiopy.runner import Finished, Runner, Running
from fiopy.version import Version

__all__ = [
    "Complaint",
    "DiskUse",
    "Finished",
    "FioCancelled",
    "FioError",
    "FioFailed",
    "FioJobError",
    "FioMissing",
    "FioOutputError",
    "FioTimeout",
    "Job",
    "JobResult",
    "Latency",
    "LocalRunner",
    "Output",
    "Pattern",
    "Progress",
    "Run",
    "Runner",
    "Running",
    "Total",
    "Transfer",
    "VerifyFailure",
    "Version",
    "engines",
    "jobs_text",
    "parse_engines",
    "parse_jobs",
    "parse_output",
    "run",
    "version",
]
