"""A run's course from fio's logs: figures over time and the longest gaps, streamed.

Reads ``*_lat``, ``*_clat``, ``*_slat``, ``*_bw`` and ``*_iops`` logs of any number of jobs at
once. Memory is bounded by the course's length (its windows, one bit a millisecond), not by the
number of samples.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fiopy import bins, logform
from fiopy.bins import Percentile
from fiopy.errors import FioOutputError
from fiopy.gaps import Gap, Occupied
from fiopy.version import Version

AVERAGES = (
    "the log holds averages over windows (log_avg_msec), and a percentile of averages is none of "
    "latencies: take a histogram log"
)
UNITS = {"lat": "ns", "bw": "B/s", "iops": "IOPS"}
_MOST_WINDOWS = 200_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What some samples of one direction say, in the course's unit.

    ``mean`` of a log of averages is the mean of its windows. ``percentiles`` holds each that was
    asked for, with a value or the reason that there is none; () where it makes no sense at all.
    """

    samples: int
    least: int
    mean: float
    most: int
    percentiles: tuple[Percentile, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The figures of one stretch of time by direction; what completed nothing is left out."""

    begin_ms: int
    figures: Mapping[str, Figures]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What logs say of a run. Times are the log's: ms since its start, or since 1970.

    ``resolution_ms`` is how finely gaps are known: 1, or about the window of averages.
    """

    unit: str
    averaged: bool
    resolution_ms: int
    begin_ms: int
    end_ms: int
    figures: Mapping[str, Figures]
    windows: tuple[Window, ...]
    gaps: Mapping[str, tuple[Gap, ...]]  # "all" and each direction; longest first

    @property
    def samples(self) -> int:
        """Return how many lines the logs have."""
        return sum(each.samples for each in self.figures.values())


@dataclasses.dataclass(slots=True)
class Tally:
    """Counts of one direction in one window."""

    samples: int = 0
    total: int = 0
    least: int = -1
    most: int = -1
    bins: Counter[int] = dataclasses.field(default_factory=Counter)

    def add(self, values: Sequence[int], maxima: Sequence[int], *, binned: bool) -> None:
        """Count more values."""
        self.samples += len(values)
        self.total += sum(values)
        least = min(values)
        self.least = least if self.least < 0 else min(self.least, least)
        self.most = max(self.most, max(maxima))
        if binned:
            self.bins.update(map(bins.index, values))


def course(
    logs: Iterable[Iterable[bytes]],
    *,
    kind: str = "lat",
    version: Version | None = None,
    window_s: float = 60,
    percents: Sequence[float] = (50, 99, 99.9),
    gaps: int = 10,
    begin_ms: int | None = None,
    end_ms: int | None = None,
) -> Course:
    """Return the course that `logs` tell together, each the pieces of one file (`from_file`).

    `kind` is lat (also slat and clat), bw or iops; `version` the fio that wrote them: before 3.0
    latencies are in µs, and without one they are taken as ns. `begin_ms` and `end_ms` are when
    the job began and ended on the logs' clock: silence at the ends is a gap then too.

    Raises FioOutputError, with log and line, for anything that is not a whole log of fio.
    """
    if kind not in UNITS:
        raise ValueError(f"{kind!r} is no kind of log; one of: {', '.join(UNITS)}")
    factor = 1024 if kind == "bw" else 1
    if kind == "lat" and version is not None and version.major < 3:
        factor = 1000
    told = _Told(round(window_s * 1000), factor, binned=kind == "lat")
    for number, pieces in enumerate(logs, 1):
        told.read(pieces, f"log {number}")
    return told.course(
        UNITS[kind], tuple(percents) if kind == "lat" else (), gaps, begin_ms, end_ms
    )


class _Told:
    """Everything that was read so far."""

    def __init__(self, window_ms: int, factor: int, *, binned: bool) -> None:
        if window_ms < 1:
            raise ValueError("a window is at least 1 ms")
        self._window_ms = window_ms
        self._factor = factor
        self._binned = binned
        self._averaged: bool | None = None
        self._windows: dict[tuple[int, int], Tally] = {}
        self._occupied = {at: Occupied() for at in range(3)}
        self._steps: Counter[int] = Counter()
        self._begin_ms: int | None = None
        self._end_ms = 0

    def read(self, pieces: Iterable[bytes], where: str) -> None:
        """Take one log; raises FioOutputError."""
        form = None
        for first_line, lines in logform.whole_lines(pieces, where):
            form = form or logform.form_of(lines, where)
            self._take(logform.columns_of(lines, form, where, first_line), where)
        if form is None:
            raise FioOutputError(
                f"{where} is empty",
                hint="no I/O completed, or fio was ended before it wrote its logs",
            )

    def _take(self, piece: logform.Piece, where: str) -> None:
        averaged = piece.averages
        if averaged is None or self._averaged not in (None, averaged):
            raise FioOutputError(
                f"{where}: single I/Os and averages over windows can't be told together",
                hint="give logs of one log_avg_msec",
            )
        self._averaged = averaged
        if averaged:
            self._note_steps(piece.times_ms)
        self._begin_ms = min(
            piece.times_ms if self._begin_ms is None else [self._begin_ms, min(piece.times_ms)]
        )
        self._end_ms = max(self._end_ms, max(piece.times_ms))
        for direction, part in _by_direction(piece):
            self._occupied[direction].add(part.times_ms)
            self._count(direction, part, where)

    def _note_steps(self, times_ms: list[int]) -> None:
        some = sorted(set(times_ms[:2000]))
        self._steps.update(after - before for before, after in itertools.pairwise(some))

    def _count(self, direction: int, piece: logform.Piece, where: str) -> None:
        for begin, end, window in _runs(piece.times_ms, self._window_ms):
            key = window, direction
            tally = self._windows.get(key)
            if tally is None:
                if len(self._windows) >= _MOST_WINDOWS:
                    raise FioOutputError(
                        f"{where}: more than {_MOST_WINDOWS} windows of {self._window_ms} ms",
                        hint="take longer windows",
                    )
                tally = self._windows[key] = Tally()
            tally.add(
                piece.values[begin:end],
                piece.maxima[begin:end],
                binned=self._binned and not self._averaged,
            )

    def course(
        self,
        unit: str,
        percents: tuple[float, ...],
        most_gaps: int,
        begin_ms: int | None,
        end_ms: int | None,
    ) -> Course:
        """Return everything as a Course; raises FioOutputError if there was no log."""
        if self._begin_ms is None:
            raise FioOutputError("no log was given")
        whole: dict[int, Tally] = {}
        windows: dict[int, dict[str, Figures]] = {}
        for (window, direction), tally in sorted(self._windows.items()):
            named = windows.setdefault(window * self._window_ms, {})
            named[logform.DIRECTIONS[direction]] = self._figures(tally, percents)
            merge(whole.setdefault(direction, Tally()), tally)
        return Course(
            unit=unit,
            averaged=bool(self._averaged),
            resolution_ms=self._resolution_ms(),
            begin_ms=self._begin_ms,
            end_ms=self._end_ms,
            figures={
                logform.DIRECTIONS[direction]: self._figures(tally, percents)
                for direction, tally in sorted(whole.items())
            },
            windows=tuple(Window(begin_ms=at, figures=each) for at, each in windows.items()),
            gaps=self._gaps(sorted(whole), most_gaps, begin_ms, end_ms),
        )

    def _resolution_ms(self) -> int:
        """Return the window of averages as the log's times tell it: the most frequent step."""
        if not self._averaged or not self._steps:
            return 1
        return self._steps.most_common(1)[0][0]

    def _gaps(
        self, directions: list[int], most: int, begin_ms: int | None, end_ms: int | None
    ) -> dict[str, tuple[Gap, ...]]:
        each = {
            logform.DIRECTIONS[at]: self._occupied[at].longest(
                most, begin_ms=begin_ms, end_ms=end_ms
            )
            for at in directions
        }
        if len(directions) == 1:
            return {"all": next(iter(each.values())), **each}
        together = Occupied()
        for at in directions:
            together.merge(self._occupied[at])
        return {"all": together.longest(most, begin_ms=begin_ms, end_ms=end_ms), **each}

    def _figures(self, tally: Tally, percents: tuple[float, ...]) -> Figures:
        if self._averaged:
            told = tuple(Percentile(each, None, AVERAGES) for each in percents)
        else:
            told = percentiles(tally, percents, self._factor)
        return Figures(
            samples=tally.samples,
            least=tally.least * self._factor,
            mean=tally.total * self._factor / tally.samples,
            most=tally.most * self._factor,
            percentiles=told,
        )


def percentiles(tally: Tally, percents: Sequence[float], factor: int = 1) -> tuple[Percentile, ...]:
    """Return the percentiles that `tally` carries; no bin's bound is above the largest value."""
    counts: Counter[int] = Counter()
    for number, count in tally.bins.items():
        counts[min(bins.upper(number), tally.most) * factor] += count
    return bins.percentiles(counts, percents)


def merge(into: Tally, other: Tally) -> None:
    """Add what `other` counted to `into`."""
    into.samples += other.samples
    into.total += other.total
    into.least = other.least if into.least < 0 else min(into.least, other.least)
    into.most = max(into.most, other.most)
    into.bins.update(other.bins)


def _by_direction(piece: logform.Piece) -> Iterator[tuple[int, logform.Piece]]:
    """Yield the lines of each direction that is there."""
    if piece.directions is None:
        yield piece.direction, piece
        return
    for direction in sorted(set(piece.directions)):
        picked = [at for at, each in enumerate(piece.directions) if each == direction]
        yield (
            direction,
            logform.Piece(
                times_ms=[piece.times_ms[at] for at in picked],
                values=[piece.values[at] for at in picked],
                maxima=[piece.maxima[at] for at in picked],
                direction=direction,
                directions=None,
                averages=piece.averages,
            ),
        )


def _runs(times_ms: list[int], window_ms: int) -> Iterator[tuple[int, int, int]]:
    """Yield (begin, end, window) of lines one behind the other that fall into one window."""
    ordered = all(map(int.__le__, times_ms, times_ms[1:]))
    at, count = 0, len(times_ms)
    while at < count:
        window = times_ms[at] // window_ms
        if ordered:
            end = bisect.bisect_left(times_ms, (window + 1) * window_ms, at)
        else:
            end = at + 1
            while end < count and times_ms[end] // window_ms == window:
                end += 1
        yield at, end, window
        at = end
