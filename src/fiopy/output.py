"""What fio printed (bytes) → Output, whatever the form: JSON, json+, text, or complaints alone."""

from __future__ import annotations

import re

from fiopy import jsonform, messages, textform
from fiopy.errors import FioOutputError
from fiopy.result import DiskUse, JobResult, Output
from fiopy.version import Version

_VERSION_LINE = re.compile(r"^(fio-\d\S{0,60})\s*$", re.MULTILINE)


def parse(stdout: bytes, stderr: bytes = b"", exit_status: int | None = None) -> Output:
    """Return what a fio run said; of several JSON documents the last is the result.

    ``Output.failed`` tells whether it is a measurement; an Output without jobs (a note, or
    complaints only) is none. Raises FioOutputError if a document is cut or damaged, or if
    nothing of fio is in it at all.
    """
    text = stdout.decode("utf-8", "replace").removeprefix("\ufeff")
    found, around = jsonform.documents(text)
    if found:
        last = found[-1]
        version: Version | None = jsonform.version_of(last)
        jobs, disks, rest = jsonform.jobs_of(last), jsonform.disks_of(last), around.splitlines()
    else:
        version, jobs, disks, rest = _text(around)
    said = messages.sort_lines([*stderr.decode("utf-8", "replace").splitlines(), *rest])
    output = Output(
        version=version,
        exit_status=exit_status,
        jobs=jobs,
        disks=disks,
        verify_failures=said.verify_failures,
        complaints=said.complaints,
        signal=said.signal,
        killed=said.killed,
        processes=said.processes,
        noise=said.notes + said.noise,
        documents=len(found),
        rounded=not found and bool(jobs),
    )
    if not (jobs or version or said.notes or output.failed):
        raise FioOutputError(
            f"nothing that fio prints is in its output ({len(stdout)} bytes of stdout)",
            hint="was this command fio, and was its output kept whole?",
        )
    return output


def _text(
    text: str,
) -> tuple[Version | None, tuple[JobResult, ...], tuple[DiskUse, ...], list[str]]:
    blocks, disks, rest = textform.split(text)
    line = _VERSION_LINE.search(text)
    version = Version.parse(line[1]) if line else None
    return version, tuple(textform.job(block) for block in blocks), disks, rest
