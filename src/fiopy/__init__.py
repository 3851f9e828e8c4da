"""fio through a subprocess, typed: jobs in, measurements out. Standard library only; no kvgate.

>>> from fiopy import Job, LocalRunner, Pattern, run
>>> job = Job(name="read", pattern=Pattern.READ, filename="/scratch/f", size_bytes=2**28)
>>> done = run([job], LocalRunner(), folder="/scratch", deadline_s=60, on_progress=print)
>>> done.output.jobs[0].read.bytes_per_s
"""

from fiopy.bins import Percentile
from fiopy.courses import Course, Figures, Window, course
from fiopy.driver import run
from fiopy.errors import (
    FioApart,
    FioCancelled,
    FioEngineMissing,
    FioError,
    FioFailed,
    FioJobError,
    FioKilled,
    FioMissing,
    FioNoSpace,
    FioOutputError,
    FioTimeout,
    FioUnfit,
    FioVerifyFailed,
)
from fiopy.found import Found, engines, find, parse_engines, version
from fiopy.gaps import Gap
from fiopy.histlog import Histograms, Spread, histograms
from fiopy.job import Job, Pattern
from fiopy.jobfile import parse as parse_jobs
from fiopy.jobfile import to_text as jobs_text
from fiopy.local import LocalRunner
from fiopy.logfiles import log_files, remove_logs
from fiopy.logform import from_file
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
from fiopy.together import Initiator, Together, run_together
from fiopy.verdict import Run
from fiopy.version import Version

__all__ = [
    "Complaint",
    "Course",
    "DiskUse",
    "Figures",
    "Finished",
    "FioApart",
    "FioCancelled",
    "FioEngineMissing",
    "FioError",
    "FioFailed",
    "FioJobError",
    "FioKilled",
    "FioMissing",
    "FioNoSpace",
    "FioOutputError",
    "FioTimeout",
    "FioUnfit",
    "FioVerifyFailed",
    "Found",
    "Gap",
    "Histograms",
    "Initiator",
    "Job",
    "JobResult",
    "Latency",
    "LocalRunner",
    "Output",
    "Pattern",
    "Percentile",
    "Progress",
    "Run",
    "Runner",
    "Running",
    "Spread",
    "Together",
    "Total",
    "Transfer",
    "VerifyFailure",
    "Version",
    "Window",
    "course",
    "engines",
    "find",
    "from_file",
    "histograms",
    "jobs_text",
    "log_files",
    "parse_engines",
    "parse_jobs",
    "parse_output",
    "remove_logs",
    "run",
    "run_together",
    "version",
]
