"""fio's version, as releases print it: ``fio-2.1.4``, ``fio-3.33``, ``fio-3.16-64-gfd988``."""

from __future__ import annotations

import dataclasses
import re

from fiopy.errors import FioOutputError

_PRINTED = re.compile(r"fio-(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:-(\S{1,40}))?", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Version:
    """A fio release; ordered by number, then by its build suffix (a tie-breaker, no more)."""

    major: int
    minor: int
    patch: int = 0
    build: str = ""  # "64-gfd988": 64 commits after the release
    printed: str = dataclasses.field(default="", compare=False)  # as fio printed it

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read ``fio-3.33`` (spaces around it are ignored); raises FioOutputError otherwise."""
        match = _PRINTED.fullmatch(text.strip())
        if not match:
            raise FioOutputError(
                f"{text.strip()[:80]!r} is not a fio version",
                hint="`fio --version` prints e.g. fio-3.33; is this command really fio?",
            )
        major, minor, patch, build = match.groups()
        return cls(int(major), int(minor), int(patch or 0), build or "", match[0])

    @property
    def number(self) -> str:
        """Return the version without its ``fio-``, e.g. ``3.33``."""
        return self.printed.removeprefix("fio-") or str(self).removeprefix("fio-")

    def __str__(self) -> str:
        if self.printed:
            return self.printed
        patch = f".{self.patch}" if self.patch else ""
        return f"fio-{self.major}.{self.minor}{patch}" + (f"-{self.build}" if self.build else "")
