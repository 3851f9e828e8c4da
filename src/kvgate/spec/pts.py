"""What a plan asks of SNIA's performance tests (SSS PTS), and how far that is from the standard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec.base import Duration, Ratio, Size, Strict, Text, at_least_one, exactly_one_of

VERSION = "SNIA SSS PTS 2.0.2 (1 October 2020)"
"""The standard that tests and steady state are after."""

LEAST_ROUNDS = 5
MOST_ROUNDS = 25
"""Rounds of a test: as many as its measurement window has, and SNIA's most."""

PtsTest = Literal["iops", "throughput", "latency", "saturation"]
Purge = Literal["format", "sanitize", "unmap"]
Positive = Annotated[int, pydantic.Field(ge=1)]

_MINUTE = Quantity.of(1, "min")
_WHOLE = Quantity.of(100, "%")
_LEAST_PREFIX = "PTS-shaped"


class PtsPoint(Strict):
    """One point of the IOPS test's loop: how much of it reads, in which block size."""

    read: Annotated[int, pydantic.Field(ge=0, le=100)]
    block: Size

    @pydantic.model_validator(mode="after")
    def _sectors(self) -> PtsPoint:
        if self.block.base <= 0 or self.block.base % 512:
            raise ValueError(f"block: {self.block} is no multiple of 512 B")
        return self


class PtsWorkload(Strict):
    """SNIA's tests on whole drives (by ``serials``), or shaped like them on a ``file``.

    ``profile``: ``full`` is the standard's; ``quick`` has fewer points and one purge and
    preconditioning for all tests, to fit into a night. ``per_point`` is how long each point of a
    round lasts, ``most_gap`` how long an interruption may be without preconditioning again.
    ``points`` narrow the loop of the IOPS test. Threads and queue depth are those of the IOPS and
    saturation tests. ``saturation`` ends after that time or four capacities.
    """

    model_config = exactly_one_of("serials", "file")

    tests: Annotated[list[PtsTest], pydantic.AfterValidator(at_least_one)]
    profile: Literal["full", "quick"]
    serials: Annotated[list[Text], pydantic.AfterValidator(at_least_one)] | None = None
    file: Size | None = None
    purge: Purge | None = None
    per_point: Duration = _MINUTE
    most_rounds: Annotated[int, pydantic.Field(ge=LEAST_ROUNDS, le=MOST_ROUNDS)] = MOST_ROUNDS
    most_gap: Duration = Quantity.of(10, "min")
    active_range: Ratio = _WHOLE
    threads: Positive = 4
    queue_depth: Positive = 32
    points: Annotated[list[PtsPoint], pydantic.AfterValidator(at_least_one)] | None = None
    saturation: Duration = Quantity.of(6, "h")

    @pydantic.model_validator(mode="after")
    def _sound(self) -> PtsWorkload:
        if (self.serials is None) == (self.file is None):
            raise ValueError("name exactly one of 'serials' (whole drives) or 'file' (its size)")
        if (self.serials is None) != (self.purge is None):
            raise ValueError("purge (format, sanitize or unmap) goes with serials, and only there")
        if not 0 < self.active_range.base <= 1:
            raise ValueError(f"active_range: {self.active_range} is not up to 100 %")
        for name, time in (("per_point", self.per_point), ("saturation", self.saturation)):
            if time.base <= 0 or time.base * 1000 % 1:
                raise ValueError(f"{name}: {time} is not a time in whole milliseconds")
        twice = [each for each in (self.tests, self.serials or []) if len(set(each)) < len(each)]
        if twice:
            raise ValueError(f"{twice[0]}: one stands there twice")
        return self

    @property
    def label(self) -> str:
        """Return what results of this may be called."""
        if self.file is not None:
            return f"{_LEAST_PREFIX} on a file, not PTS"
        if self.profile == "quick":
            return "quick, not PTS"
        if any(self._shortened()):
            return f"{_LEAST_PREFIX}, not PTS"
        return "PTS-derived" if self.purge == "unmap" else "after PTS 2.0.2"

    def departures(self) -> tuple[str, ...]:
        """Return each way in which this is not what the standard asks for."""
        found = []
        if self.file is not None:
            found.append("on a file: no purge, and what lies below the file system is not known")
        if self.purge == "unmap":
            found.append("not purged: unmapped instead, as an array's volume can't be purged")
        if self.profile == "quick":
            found.append(
                "quick: fewer points, one purge and preconditioning for all tests, "
                "an hour of saturation at most"
            )
        return (*found, *self._shortened())

    def _shortened(self) -> Iterator[str]:
        if self.per_point != _MINUTE:
            yield f"{self.per_point} a point, not 1 min"
        if self.points is not None:
            yield f"{len(self.points)} points of the IOPS test's 56"
        if self.most_rounds != MOST_ROUNDS:
            yield f"given up after {self.most_rounds} rounds, not {MOST_ROUNDS}"
        if self.active_range != _WHOLE:
            yield f"active range {self.active_range}, not 100 % (clients: 75 %)"
