"""Reads a run's telemetry, finished or being written: what there is, lines of points, gaps, events.

Times are seconds since 1970 UTC by the controller's clock. Counters are told as rates a second.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kvgate.errors import DamagedRunError, UsageError
from kvgate.store.layout import SERIES
from kvgate.telemetry import hours
from kvgate.telemetry.part import ColumnPart, Held, LogPart, Part
from kvgate.telemetry.pyramid import LEVELS_S, Bins, Floats, joined
from kvgate.telemetry.stream import LATE
from kvgate.telemetry.wire import MISSING


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Series:
    """One series: where it is from, and what its numbers are.

    ``counter``: its points are rates a second. ``every_s`` is 0 where samples come as they come.
    """

    host: str
    name: str
    group: str
    counter: bool
    every_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """Samples from ``at`` on: least, mean and greatest of `count`; one sample is all three."""

    at: float
    low: float
    mean: float
    high: float
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """Nothing is known between two moments: not nought, but not sampled, or not told."""

    begin: float
    end: float


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A series between two moments: points in order, and where there are none.

    ``width_s`` is what one point covers; 0 where each is one sample.
    """

    series: Series
    width_s: float
    points: tuple[Point, ...]
    gaps: tuple[Gap, ...]


class Archive:
    """The telemetry of the run in folder `path`; files are looked at once, at the beginning.

    Raises StoreError where there are columnar files and no pyarrow, DamagedRunError where a file is
    not as it was written. `notes` says what could not be used, such as a log's torn end.
    """

    def __init__(self, path: Path) -> None:
        self.notes: list[str] = []
        self._folder = path / SERIES
        self._parts = [*self._open()] if self._folder.is_dir() else []

    def _open(self) -> Iterator[Part]:
        names = {each.name for each in self._folder.iterdir()}
        stems = sorted({name.split(".")[0] for name in names if hours.NAME.fullmatch(name)})
        for stem in stems:
            if stem + hours.BINS in names:  # written last: the others are whole
                yield ColumnPart(self._folder, stem)
            elif stem + hours.LOG in names:
                part = LogPart(self._folder / (stem + hours.LOG))
                if part.torn:
                    self.notes.append(f"{part.path.name}: ends at byte {part.end}: {part.torn}")
                yield part
            else:
                raise DamagedRunError(f"{self._folder / stem}: neither its log nor its bins exist")

    def series(self) -> tuple[Series, ...]:
        """Return every series there is, ordered by host and name."""
        found = set()
        for part in self._parts:
            for held in part.held:
                for name, spec in part.names(held):
                    found.add(_series(held, name, spec))
        return tuple(sorted(found))

    def span(self) -> tuple[float, float] | None:
        """Return the moments of the first and the last sample; None where there is none."""
        ends = [(held.first_ms, held.last_ms) for part in self._parts for held in part.held]
        if not ends:
            return None
        return min(first for first, _ in ends) / 1000, max(last for _, last in ends) / 1000

    def line(
        self,
        host: str,
        name: str,
        begin: float | None = None,
        end: float | None = None,
        *,
        at_most: int = 1000,
    ) -> Line:
        """Return series `name` of `host` as at most `at_most` points, from the level that fits.

        Raises UsageError where there is no such series.
        """
        if at_most < 2:
            raise UsageError(f"{at_most} points are no line: 2 or more")
        found = [
            (part, held, spec)
            for part in self._parts
            for held in part.held
            if held.host == host and (spec := part.spec(held, name))
        ]
        if not found:
            raise UsageError(f"{host} has no series '{name}'", hint="`kvgate telemetry RUN` lists")
        first = min(held.first_ms for _, held, _ in found)
        last = max(held.last_ms for _, held, _ in found)
        begin_ms = first if begin is None else math.floor(begin * 1000)
        end_ms = last + 1 if end is None else math.ceil(end * 1000)
        there = [each for each in found if _meet(each[1], begin_ms, end_ms)]
        series = _series(found[-1][1], name, found[-1][2])
        every = max(1, min(held.every_ms or 1000 for _, held, _ in found))
        length = max(1, min(end_ms, last + 1) - max(begin_ms, first))
        if length / every <= at_most:
            return _samples(series, name, there, begin_ms, end_ms)
        width = _width_ms(max(begin_ms, first), min(end_ms, last + 1), at_most)
        return _binned(series, name, there, (begin_ms, end_ms), width)

    def gaps(self, host: str | None = None, group: str = "fast") -> dict[str, tuple[Gap, ...]]:
        """Return host → when nothing of `group` was sampled between its first and last sample."""
        found: dict[str, list[tuple[int, int, int]]] = {}
        inner: dict[str, list[Gap]] = {}
        for part in self._parts:
            for held in part.held:
                if held.group == group and host in (None, held.host):
                    known = found.setdefault(held.host, [])
                    known.append((held.first_ms, held.last_ms, held.every_ms))
                    gaps = inner.setdefault(held.host, [])
                    gaps += [Gap(a / 1000, b / 1000) for a, b in part.gaps(held)]
        for name, spans in found.items():
            spans.sort()
            for (_, before, every), (after, _, _) in itertools.pairwise(spans):
                if 0 < LATE * every < after - before:
                    inner[name].append(Gap(before / 1000, after / 1000))
        return {
            name: tuple(sorted(gaps, key=lambda gap: gap.begin)) for name, gaps in inner.items()
        }

    def events(self, *kinds: str) -> Iterator[dict[str, Any]]:
        """Yield what happened in the order it was written: ``t`` (ms), host, kind, text, more."""
        for part in self._parts:
            for line in part.events():
                try:
                    event = json.loads(line)
                    wanted = not kinds or event["kind"] in kinds
                except (ValueError, KeyError, TypeError) as err:
                    raise DamagedRunError(f"{part.path}: an event can't be read: {err!r}") from err
                if wanted:
                    yield event


def _width_ms(begin_ms: int, end_ms: int, at_most: int) -> int:
    """Return the least width, of a level or whole hours, that takes at most so many bins."""
    hour = 1000 * LEVELS_S[-1]
    widths = itertools.chain((1000 * s for s in LEVELS_S), itertools.count(2 * hour, hour))
    return next(w for w in widths if (end_ms - 1) // w - begin_ms // w < at_most)


def has_telemetry(path: Path) -> bool:
    """Tell whether the run at `path` has telemetry in this form."""
    return (path / SERIES).is_dir() and any((path / SERIES).iterdir())


def _meet(held: Held, begin_ms: int, end_ms: int) -> bool:
    return held.first_ms < end_ms and held.last_ms >= begin_ms - 3_600_000 * (not held.every_ms)


def _series(held: Held, name: str, spec: str) -> Series:
    return Series(held.host, name, held.group, spec[0] == "c", held.every_ms / 1000)


def _scale(spec: str) -> int:
    return int(spec[1:] or 1)


def _samples(
    series: Series, name: str, there: list[tuple[Part, Held, str]], begin_ms: int, end_ms: int
) -> Line:
    """Return the samples themselves, and gaps wherever one is missing."""
    points: list[tuple[int, float]] = []
    for part, held, spec in there:
        t, span, values = part.samples(held, name)
        known = (values != MISSING) & (t >= begin_ms) & (t < end_ms)
        if spec[0] == "c":
            known &= span > 0
        numbers: Floats = values[known] / _scale(spec)
        if spec[0] == "c":
            numbers = numbers * 1000 / span[known]
        points += zip(t[known].tolist(), numbers.tolist(), strict=True)
    points.sort()
    late = LATE * series.every_s * 1000
    gaps = tuple(
        Gap(a / 1000, b / 1000) for (a, _), (b, _) in itertools.pairwise(points) if 0 < late < b - a
    )
    return Line(series, 0.0, tuple(Point(t / 1000, v, v, v, 1) for t, v in points), gaps)


def _binned(
    series: Series,
    name: str,
    there: list[tuple[Part, Held, str]],
    between: tuple[int, int],
    width_ms: int,
) -> Line:
    """Return bins of `width_ms`, which may be wider than any level that is kept."""
    level = max(1000 * s for s in LEVELS_S if 1000 * s <= width_ms)
    by_unit: dict[tuple[int, int], list[Bins]] = {}
    for part, held, spec in there:
        unit = (1, _scale(spec))
        if spec[0] == "c":
            unit = (1000, _scale(spec) * max(held.every_ms, 1))
        by_unit.setdefault(unit, []).extend(part.bins(held, name, level))
    points: list[Point] = []
    for unit, parts in by_unit.items():
        if parts:
            points += _points(joined(parts), unit, between, width_ms)
    points.sort(key=lambda each: each.at)
    width = width_ms / 1000
    gaps = tuple(
        Gap(a.at + width, b.at)
        for a, b in itertools.pairwise(points)
        if series.every_s and b.at - a.at > width * LATE and b.at - a.at > LATE * series.every_s
    )
    return Line(series, width, tuple(points), gaps)


def _points(
    bins: Bins, unit: tuple[int, int], between: tuple[int, int], width_ms: int
) -> Iterator[Point]:
    order = np.argsort(bins.t, kind="stable")
    ordered = Bins(
        bins.width_ms,
        bins.t[order],
        bins.low[:, order],
        bins.high[:, order],
        bins.total[:, order],
        bins.count[:, order],
    )
    wide = ordered.wider(width_ms)
    begin, end = between
    times, per = unit
    keep = (wide.count[0] > 0) & (wide.t + width_ms > begin) & (wide.t < end)
    columns = (wide.t, wide.low[0], wide.total[0], wide.high[0], wide.count[0])
    for t, low, total, high, count in zip(*(each[keep].tolist() for each in columns), strict=True):
        yield Point(
            t / 1000, low * times / per, total * times / per / count, high * times / per, count
        )
