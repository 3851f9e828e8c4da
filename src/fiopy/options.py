"""What each option of fio takes, checked before anything is sent: kinds, bounds, choices.

Meanings are those of fio's HOWTO, "Job file parameters"; ``since`` is the release that brought an
option where that is after 3.0.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

from fiopy.errors import FioJobError

# In a job file '#' and ';' begin a comment wherever they stand, '$' is expanded, '[' opens a
# section and '\' escapes (fio init.c, parse_jobs_ini; options.c, fio_keyword_replace).
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f#;$\\\[\]\"'`\u2028\u2029\x85]")
_NAME_LENGTH = 254  # fio reads a section's name into 256 bytes
_CPUS = r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*"
_GPUS = r"\d{1,3}(:\d{1,3})*"
_LISTS = {"cpus": _CPUS, "gpus": _GPUS, "text": r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}"}


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """What a field is in fio: the option's name, its kind, and the bounds of its value."""

    name: str
    kind: str  # int, bytes, seconds, flag, text, cpus, gpus, path, prefix, choice, percentiles
    least: float = 0
    most: float = 2**63 - 1
    choices: tuple[str, ...] = ()
    since: tuple[int, int] = (3, 0)
    engine: str = ""  # the engine whose own option it is

    @property
    def allowed(self) -> str:
        """Return in a phrase what it takes."""
        if self.choices:
            return "one of: " + ", ".join(self.choices)
        whole = f"a whole number from {self.least:.0f} to {self.most:.0f}"
        return {
            "flag": "True or False",
            "int": whole,
            "bytes": whole + " (bytes)",
            "seconds": "seconds from 0 to 10,000,000, in whole milliseconds",
            "path": "one path under 4,096 bytes, without line breaks and # ; $ \\ [ ] \" ' `",
            "prefix": "the beginning of a log's path, without : and what a path can't hold",
            "percentiles": "1 to 20 floats over 0 and up to 100, as a tuple",
            "text": "a plain word",
            "cpus": "processors such as 0-3,8",
            "gpus": "GPUs such as 0:1",
        }[self.kind]


def option(name: str, kind: str, **bounds: Any) -> Any:
    """Return an optional dataclass field that carries its Option; None leaves it to fio."""
    return dataclasses.field(default=None, metadata={"option": Option(name, kind, **bounds)})


def check_name(name: str) -> None:
    """Raise FioJobError if a job can't be called so."""

    def refuse(because: str, allowed: str = "a text without spaces around it") -> None:
        raise FioJobError(because, job=str(name), option="name", value=name, allowed=allowed)

    if not isinstance(name, str) or not name.strip() or name != name.strip():
        refuse(f"job name {name!r} is empty or has spaces around it")
    if name == "global":
        refuse("a job can't be called 'global': that section holds defaults")
    if FORBIDDEN.search(name) or len(name.encode("utf-8", "replace")) > _NAME_LENGTH:
        refuse(f"job name {name!r} would break the job file", "no # ; $ \\ [ ] \" ' ` in it")


def check(job: str, field: str, taken: Option, value: object) -> None:
    """Raise FioJobError, naming job, field, value and what is allowed, for a bad `value`."""
    good = _GOOD.get(taken.kind, _good_text)(taken, value)
    if good:
        return
    hint = ""
    if isinstance(value, str) and FORBIDDEN.search(value):
        hint = "it holds a character that would break out of its line"
    raise FioJobError(
        f"job '{job}': {field}: {value!r} is refused; {taken.allowed}",
        hint=hint,
        job=job,
        option=field,
        value=value,
        allowed=taken.allowed,
    )


def _good_flag(_taken: Option, value: object) -> bool:
    return isinstance(value, bool)


def _good_whole(taken: Option, value: object) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and taken.least <= value <= taken.most  # type: ignore[operator]


def _good_seconds(_taken: Option, value: object) -> bool:
    """Tell whether `value` is a time that fio's whole milliseconds can say exactly."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value <= 10**7
        and math.isclose(value * 1000, round(value * 1000), abs_tol=1e-6)
    )


def _good_percentiles(_taken: Option, value: object) -> bool:
    return (
        isinstance(value, tuple)
        and 0 < len(value) <= 20
        and all(isinstance(p, float) and 0 < p <= 100 for p in value)
    )


def _good_text(taken: Option, value: object) -> bool:
    if not isinstance(value, str) or not value or value != value.strip():
        return False
    if taken.choices:
        return value in taken.choices
    if FORBIDDEN.search(value):
        return False
    if taken.kind in ("path", "prefix"):
        short = len(value.encode("utf-8", "replace")) < 4096
        return value != "-" and short and (taken.kind == "path" or ":" not in value)
    return re.fullmatch(_LISTS[taken.kind], value, re.ASCII) is not None


_GOOD = {
    "flag": _good_flag,
    "int": _good_whole,
    "bytes": _good_whole,
    "seconds": _good_seconds,
    "percentiles": _good_percentiles,
}
