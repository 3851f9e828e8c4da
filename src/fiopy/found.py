"""What a machine's fio is: version and I/O engines, and whether it can do some jobs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from fiopy.errors import FioError, FioMissing, FioOutputError, FioUnfit
from fiopy.job import Job
from fiopy.runner import Finished, Runner
from fiopy.version import Version

OLDEST = Version(3, 0)
"""The oldest fio that is run: before it latencies are whole µs. What older ones print is read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The fio of one machine."""

    version: Version
    engines: tuple[str, ...]

    def check(self, jobs: Iterable[Job]) -> None:
        """Raise FioUnfit if this fio is too old, or was built without an engine of `jobs`."""
        if (self.version.major, self.version.minor) < (OLDEST.major, OLDEST.minor):
            raise FioUnfit(
                f"{self.version} is too old: fio {OLDEST.major}.{OLDEST.minor} or newer is needed",
                hint="install a newer fio, or say where one is",
            )
        for job in jobs:
            if job.engine is not None and job.engine not in self.engines:
                raise FioUnfit(
                    f"job '{job.name}': engine: {self.version} has no ioengine "
                    f"'{job.engine}'; it has: {', '.join(self.engines)}",
                    hint="install a fio that was built with it, or choose another engine",
                )


def find(runner: Runner, *, fio: str = "fio", timeout_s: float = 20) -> Found:
    """Ask the runner's machine for its fio; raises FioMissing, FioOutputError, FioError."""
    return Found(
        version(runner, fio=fio, timeout_s=timeout_s), engines(runner, fio=fio, timeout_s=timeout_s)
    )


def missing(finished: Finished) -> None:
    """Raise FioMissing if `finished` says that there is no such command."""
    if finished.exit_status in (126, 127):
        raise FioMissing(
            f"there is no fio at '{finished.argv[0]}'",
            hint="install the package 'fio', or say where it is",
        )


def version(runner: Runner, *, fio: str = "fio", timeout_s: float = 20) -> Version:
    """Return fio's version; raises FioMissing, FioOutputError."""
    return Version.parse(_ask(runner, [fio, "--version"], timeout_s))


def engines(runner: Runner, *, fio: str = "fio", timeout_s: float = 20) -> tuple[str, ...]:
    """Return the I/O engines that fio was built with, as `fio --enghelp` lists them."""
    return parse_engines(_ask(runner, [fio, "--enghelp"], timeout_s))


def parse_engines(text: str) -> tuple[str, ...]:
    """Return the names below ``Available IO engines:``; raises FioOutputError if there are none."""
    _, heading, listed = text.partition("Available IO engines:")
    names = tuple(re.findall(r"^\s+([a-z0-9_-]+)$", listed, re.MULTILINE)) if heading else ()
    if not names:
        raise FioOutputError("`fio --enghelp` lists no engines")
    return names


def _ask(runner: Runner, argv: list[str], timeout_s: float) -> str:
    finished = runner.run(argv, timeout_s=timeout_s)
    missing(finished)
    if finished.exit_status != 0:
        complaint = finished.stderr.decode("utf-8", "replace").strip()[:300]
        raise FioError(f"`{' '.join(argv)}` exited {finished.exit_status}: {complaint}")
    return finished.stdout.decode("utf-8", "replace")
