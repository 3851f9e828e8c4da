"""The lines that fio prints around its results: complaints, failed verifications, notes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from fiopy.result import Complaint, VerifyFailure

# "fio: pid=16422, err=84/file:io_u.c:2152, func=io_u_sync_complete, error=Invalid …"
_PID_ERR = re.compile(r"fio: pid=\d+, err=(\d{1,5})/file:.*?error=(.*)")
# "fio: io_u error on file /dev/vda: Connection timed out: write offset=1, buflen=4096"
_IO_ERROR = re.compile(r"fio: io_u error on file .*?: ([^:]+): \w+ offset=\d+, buflen=\d+")
# "verify: bad magic header 5858, wanted acca at file F offset 40960, length 4096 (…)";
# "crc32c: verify failed at file F offset 24379392, length 8126464 (…)"
_VERIFY = re.compile(
    r"(?:verify: bad [^,]{1,999}?(?:,[^,]{0,999}?)?|(?<![\w/-])[\w/-]++: verify failed)"
    r" at file (.+) offset (\d{1,19}), length \d+"
)
_SIGNAL = re.compile(r"fio: terminating on signal (\d{1,3})")
# "fio: pid=9645, got signal=9": a job's process was killed; fio 3.33 exits 0 after that
_KILLED = re.compile(r"fio: pid=\d+, got signal=(\d{1,3})")
# "<host> fio: …": what a server said, as the client prints it
_FROM = re.compile(r"<[^<>\s]{1,253}> ?")
_STARTING = re.compile(r"Starting (?:(\d{1,6}) process(?:es)?)?(?: and )?(?:(\d{1,6}) threads?)?")
_FAILING = re.compile(
    r"fio: .*(?:not loadable|failed|error=|error:|can't|cannot|unable|no such|bad option|"
    r"ended with error)"
    r"|fio: (?:job \S+ dropped|engine|unrecognized|unknown)"
    r"|Bad option <",
    re.IGNORECASE,
)
_NOTE = re.compile(r"note: ")
_LONGEST = 8192
"""Characters of a line that are looked at: more than any path and what fio says of it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """The messages among some lines, sorted; ``noise`` is whatever is none of them."""

    complaints: tuple[Complaint, ...] = ()
    verify_failures: tuple[VerifyFailure, ...] = ()
    signal: int | None = None
    killed: int | None = None
    processes: int | None = None
    notes: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()


def sort_lines(lines: Iterable[str]) -> Messages:
    """Return what `lines` (of stdout and stderr, results taken out) say."""
    complaints: list[Complaint] = []
    failures: list[VerifyFailure] = []
    notes: list[str] = []
    noise: list[str] = []
    signal = killed = processes = None
    for line in (_FROM.sub("", each.strip()[:_LONGEST], count=1) for each in lines):
        if not line:
            continue
        if match := _VERIFY.search(line):
            failures.append(VerifyFailure(match[1], int(match[2]), line))
        elif match := _SIGNAL.search(line):
            signal = int(match[1])
        elif match := _KILLED.match(line):
            killed = int(match[1])
        elif found := _complaint(line):
            complaints.append(found)
        elif (match := _STARTING.fullmatch(line)) and (match[1] or match[2]):
            processes = int(match[1] or 0) + int(match[2] or 0)
        else:
            (notes if _NOTE.match(line) else noise).append(line)
    return Messages(
        complaints=tuple(complaints),
        verify_failures=tuple(failures),
        signal=signal,
        killed=killed,
        processes=processes,
        notes=tuple(notes),
        noise=tuple(noise),
    )


def _complaint(line: str) -> Complaint | None:
    if match := _PID_ERR.search(line):
        return Complaint(line, int(match[1]), match[2].strip())
    if match := _IO_ERROR.search(line):
        return Complaint(line, None, match[1].strip())
    return Complaint(line) if _FAILING.match(line) else None
