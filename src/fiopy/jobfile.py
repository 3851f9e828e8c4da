"""Jobs ↔ the text of a fio job file; reading back what was written gives the same jobs.

Numbers are written as plain bytes and seconds: fio's own suffixes mean the opposite of what they
say (with its default kb_base=1024, ``4KB`` is 4096 bytes and ``4KiB`` is 4000).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from fiopy.errors import FioJobError
from fiopy.job import OPTIONS, Job, Pattern
from fiopy.options import Option

_BY_NAME = {option.name: (field, option) for field, option in OPTIONS.items()}
_SYNONYMS = {
    "blocksize": "bs",
    "readwrite": "rw",
    "wait_for_previous": "stonewall",
    "io_limit": "io_size",
    "timeout": "runtime",
}
_PATTERNS = {"rw": "readwrite"}
_SIZE = re.compile(r"(\d{1,19})([kmgtp]?)", re.ASCII | re.IGNORECASE)
_TIME = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(us|ms|s|m|h|d)?", re.ASCII)
_FACTOR = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def to_text(jobs: Iterable[Job]) -> str:
    """Return the job file of `jobs`, each with its own section; raises FioJobError for none."""
    sections = [_section(job) for job in jobs]
    if not sections:
        raise FioJobError("a job file without jobs")
    return "\n".join(sections)


def _section(job: Job) -> str:
    lines = [f"[{job.name}]"]
    for field, option in OPTIONS.items():
        value = getattr(job, field)
        if value is not None:
            lines.append(_line(option, value))
    return "\n".join(lines) + "\n"


def _line(option: Option, value: object) -> str:
    """Return ``option=value`` in fio's spelling."""
    if option.kind == "flag":
        return f"{option.name}={int(bool(value))}"
    if isinstance(value, int | float) and option.kind == "seconds":
        milliseconds = round(value * 1000)
        whole = milliseconds % 1000 == 0
        return f"{option.name}={milliseconds // 1000 if whole else f'{milliseconds}ms'}"
    if option.kind == "path":
        return f"{option.name}=" + str(value).replace(":", "\\:")  # ':' separates files
    if isinstance(value, tuple):
        return f"{option.name}=" + ":".join(repr(each) for each in value)
    return f"{option.name}={value}"


def parse(text: str) -> tuple[Job, ...]:
    """Return the jobs of a job file, ``[global]`` sections merged into those that follow.

    Raises FioJobError, with the line, for an option that Job does not have and for values whose
    meaning is uncertain: nothing of a job file is ever left out in silence.
    """
    jobs: list[Job] = []
    defaults: dict[str, object] = {}
    for name, first_line, options in _sections(text):
        if name == "global":
            defaults |= options
            continue
        merged = defaults | options
        if "pattern" not in merged:
            merged["pattern"] = Pattern.READ  # fio's default
        jobs.append(_job(name, first_line, merged))
    if not jobs:
        raise FioJobError("the job file has no jobs", hint="a job is a section: [name]")
    return tuple(jobs)


def _job(name: str, line: int, options: Mapping[str, object]) -> Job:
    try:
        return Job(name=name, **options)  # type: ignore[arg-type]  # Job checks every value
    except FioJobError as err:
        raise FioJobError(
            f"line {line}: {err.message}",
            hint=err.hint,
            job=err.job,
            option=err.option,
            value=err.value,
            allowed=err.allowed,
        ) from err


def _sections(text: str) -> list[tuple[str, int, dict[str, object]]]:
    found: list[tuple[str, int, dict[str, object]]] = []
    for number, raw in enumerate(text.split("\n"), 1):
        line = re.split(r"[;#]", raw, maxsplit=1)[0].strip()
        if not line:
            continue
        if re.match(r"include\s", line):
            raise FioJobError(
                f"line {number}: {line!r}: other files are not read",
                hint="put what it includes into this job file: one file says all that is done",
            )
        if line.startswith("["):
            if not line.endswith("]"):
                raise FioJobError(f"line {number}: {line!r} is no section")
            found.append((line[1:-1], number, {}))
        elif not found:
            raise FioJobError(f"line {number}: {line!r} stands before the first section")
        else:
            field, value = _assignment(number, line)
            found[-1][2][field] = value
    return found


def _assignment(number: int, line: str) -> tuple[str, object]:
    key, equals, text = (part.strip() for part in line.partition("="))
    name = _SYNONYMS.get(key, key)
    if name not in _BY_NAME:
        close = difflib.get_close_matches(key, _BY_NAME, n=1)
        raise FioJobError(
            f"line {number}: option '{key}' is not one that fiopy knows",
            hint=f"did you mean '{close[0]}'?" if close else "",
            option=key,
            value=text,
            allowed=", ".join(sorted(_BY_NAME)),
        )
    field, option = _BY_NAME[name]
    return field, _value(f"line {number}: {key}", option, text if equals else None)


def _value(where: str, option: Option, text: str | None) -> object:
    """Return the value that `text` says (None: the option stood without ``=``)."""
    if option.kind == "flag":
        if text not in (None, "0", "1"):
            raise FioJobError(f"{where}: {text!r} is neither 0 nor 1")
        return text != "0"
    if not text:
        raise FioJobError(f"{where} has no value")
    if option.name == "rw":
        return _pattern(where, text)
    if option.kind in ("int", "bytes"):
        return _whole(where, text, option.kind == "bytes")
    if option.kind == "seconds":
        return _seconds(where, text)
    if option.kind == "path":
        return _path(where, text)
    if option.kind == "percentiles":
        return _percentiles(where, text)
    return text


def _pattern(where: str, text: str) -> Pattern:
    try:
        return Pattern(_PATTERNS.get(text, text))
    except ValueError as err:
        raise FioJobError(f"{where}: '{text}' is not one of {', '.join(Pattern)}") from err


def _whole(where: str, text: str, is_size: bool) -> int:
    match = _SIZE.fullmatch(text)
    if not match or (match[2] and not is_size):
        raise FioJobError(
            f"{where}: '{text}' is not a plain number",
            hint="write bytes, or k, m, g, t (powers of 1024); fio takes KB for 1024, KiB for 1000",
        )
    return int(match[1]) * _FACTOR[match[2].lower()]


def _seconds(where: str, text: str) -> float:
    match = _TIME.fullmatch(text)
    if not match:
        raise FioJobError(f"{where}: '{text}' is not a time; write seconds, or 1500ms")
    seconds = round(float(match[1]) * _SECONDS[match[2] or "s"], 6)
    return int(seconds) if seconds.is_integer() else seconds


def _path(where: str, text: str) -> str:
    bare = text.replace("\\:", "\0")
    if ":" in bare or "\\" in bare:
        raise FioJobError(f"{where}: '{text}' names several files; one a job, please")
    return bare.replace("\0", ":")


def _percentiles(where: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in text.split(":"))
    except ValueError as err:
        raise FioJobError(f"{where}: '{text}' is no list such as 50:99:99.9") from err
