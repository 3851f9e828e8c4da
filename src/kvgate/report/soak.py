"""Finds in a run's records what a soak's timeline shows: windows, faults, telemetry, its start."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kvgate.model.quantity import UNITS, Quantity
from kvgate.model.record import Measurement
from kvgate.report import show, timeline
from kvgate.report.series import thinned, unit_of
from kvgate.report.sources import JournalEvent, Sources
from kvgate.report.timeline import Panel, Point, Shade
from kvgate.report.views import Chart

if TYPE_CHECKING:
    from kvgate.telemetry.archive import Archive

_BINS = 240
_TITLES = {
    "soak.ttft_p50": "TTFT, median of each window",
    "soak.fio_read_clat_p99": "fio read completion latency, p99 of each window",
    "soak.fio_read_bw": "fio read bandwidth, each window",
}
_TITLE = "Soak over time"


def chart(gate: str, sources: Sources) -> Chart | None:
    """Return the timeline of the windows of `gate`, or None if none were measured."""
    windows = [each for each in sources.measurements if each.name in _TITLES]
    if not windows:
        return None
    began = _Began.of(sources, windows)
    width_s = _width_s(sources)
    middles = _middles(width_s, _ends(windows, sources.events, began))
    found = tuple(_panels(windows, middles))
    panels = tuple(panel for panel, _ in found)
    name = f"{gate.lower()}-soak"
    if not panels:
        return Chart(name, _TITLE, "No window of the soak has a value that can be drawn.", None)
    end_s = max(max(point.at for panel in panels for point in panel.points) + width_s / 2, width_s)
    cpu = _telemetry(sources, began.utc, end_s)
    shades = tuple(_shades(sources.events, began, end_s))
    missing = len(windows) - sum(used for _, used in found)
    hosts = len({each.host for each in windows})
    return timeline.draw(
        name, _TITLE, (*panels, *cpu), shades, end_s, _note(missing, hosts, bool(cpu), bool(shades))
    )


def _note(missing: int, hosts: int, cpu: bool, shades: bool) -> str:
    parts = ["A point is a window: filled circle normal, diamond with a fault, ring recovering."]
    if hosts > 1:
        parts.append(f"Each is the median of {hosts} hosts.")
    parts.append(
        "Shaded: a fault, from its begin to its proven repair."
        if shades
        else "No fault is journalled."
    )
    if not cpu:
        parts.append("No telemetry of the CPU was recorded.")
    if missing:
        parts.append(f"{missing} window value{'s' if missing != 1 else ''} missing.")
    return " ".join(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class _Began:
    """When the soak began, by UTC and, where the journal tells, by the clock of a boot."""

    utc: datetime.datetime
    mono: float = 0.0
    boot: str | None = None

    @classmethod
    def of(cls, sources: Sources, windows: Iterable[Measurement]) -> _Began:
        """Return its child's begin, else the first sample, else a window's end."""
        for event in sources.events:
            if event.kind == "child_begin" and str(event.fields.get("what")).startswith("soak"):
                return cls(show.moment(event.utc), event.mono, event.boot)
        for sample in sources.run.telemetry():
            if (at := _when(sample.get("utc"))) is not None:
                return cls(at)
        return cls(min(show.moment(each.taken_at) for each in windows))

    def until(self, event: JournalEvent) -> float:
        """Return the seconds from it to `event`, which a step of the clock doesn't change."""
        if event.boot == self.boot:
            return event.mono - self.mono
        return (show.moment(event.utc) - self.utc).total_seconds()


def _ends(
    windows: Iterable[Measurement], events: Iterable[JournalEvent], began: _Began
) -> dict[float, float]:
    """Return window → the seconds since the start at which it ended."""
    blocks = {
        str(event.fields.get("block")): began.until(event)
        for event in events
        if event.kind == "block_end"
    }
    ends: dict[float, float] = {}
    for each in windows:
        if (index := _index(each)) is not None:
            recorded = (show.moment(each.taken_at) - began.utc).total_seconds()
            at = blocks.get(each.block, recorded)
            ends[index] = max(at, ends.get(index, at))
    return ends


def _width_s(sources: Sources) -> float:
    """Return a window's length: the plan's, else 1, which makes the axis one of windows."""
    soak = sources.setup.plan.value.workloads.soak
    return float(soak.window.base) if soak else 1.0


def _index(each: Measurement) -> float | None:
    for text in (each.labels.get("window", ""), each.item):
        if text.isascii() and text.isdecimal() and len(text) < 9:
            return float(text)
    return None


def _middles(width_s: float, ends: dict[float, float]) -> dict[float, float]:
    """Return window → the seconds since the start at which its middle lies.

    A window is recorded at its end. Where all were recorded at once, they are taken to have
    followed each other without a gap.
    """
    order = sorted(ends)
    times = [ends[index] for index in order]
    if all(late > early for early, late in itertools.pairwise((0.0, *times))):
        return {index: max(ends[index] - width_s / 2, 0.0) for index in order}
    return {index: (index - order[0] + 0.5) * width_s for index in order}


def _panels(windows: list[Measurement], middles: dict[float, float]) -> Iterator[tuple[Panel, int]]:
    """Yield each panel and how many measurements it shows."""
    for name, title in _TITLES.items():
        taken = [
            (index, each.value, each.labels.get("state", "normal"))
            for each in windows
            if each.name == name
            and isinstance(each.value, Quantity)
            and (index := _index(each)) is not None
        ]
        if not taken:
            continue
        kind = taken[0][1]
        values: dict[tuple[float, str], list[float]] = {}
        for index, value, state in taken:
            if value.dimension == kind.dimension:
                values.setdefault((index, state), []).append(float(value.base))
        medians = {key: statistics.median(each) for key, each in values.items()}
        unit = unit_of(kind, statistics.median(medians.values()))
        factor = float(UNITS[unit][1])
        points = tuple(
            Point(middles[index], value / factor, state)
            for (index, state), value in sorted(medians.items())
        )
        yield Panel(title, unit, points=points), sum(len(each) for each in values.values())


def _shades(events: Iterable[JournalEvent], began: _Began, end_s: float) -> Iterator[Shade]:
    """Yield the faults; one without a journalled repair lasts to the end."""
    open_: dict[tuple[str, str], float] = {}
    for event in events:
        key = (str(event.fields.get("fault")), str(event.fields.get("host")))
        at = began.until(event)
        if event.kind == "fault_begin":
            open_[key] = at
        elif event.kind == "fault_repaired" and key in open_:
            start = open_.pop(key)
            if 0 <= start <= end_s:
                yield Shade(start, at, f"{_named(key)}: {show.duration(at - start)} to its repair")
    for key, start in open_.items():
        if 0 <= start <= end_s:
            yield Shade(start, None, f"{_named(key)}: repair not proven")


def _named(key: tuple[str, str]) -> str:
    return f"{key[0].replace('_', ' ')} on {key[1]}"


@dataclasses.dataclass(slots=True)
class _Cpu:
    points: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    hosts: set[str] = dataclasses.field(default_factory=set)

    def add(self, host: str, at: float, busy: float) -> None:
        self.points.append((at, min(max(busy, 0.0), 100.0)))
        self.hosts.add(host)


def _telemetry(sources: Sources, began: datetime.datetime, end_s: float) -> tuple[Panel, ...]:
    """Return the panel of CPU load over all hosts, or nothing where no sample has it."""
    from kvgate.telemetry.archive import Archive, has_telemetry  # with NumPy: of soaks only

    cpu = _Cpu()
    if has_telemetry(sources.run.path):
        _of_archive(Archive(sources.run.path), began.timestamp(), end_s, cpu)
    for sample in sources.run.telemetry():  # of runs before there were series
        at, busy = _when(sample.get("utc")), sample.get("cpu_busy_pct")
        if at is None or isinstance(busy, bool) or not isinstance(busy, int | float):
            continue
        if math.isfinite(busy):
            cpu.add(str(sample.get("host", "")), (at - began).total_seconds(), float(busy))
    bins = thinned(cpu.points, 0.0, end_s, _BINS)
    if not bins:
        return ()
    where = f" on {len(cpu.hosts)} hosts" if len(cpu.hosts) > 1 else ""
    return (Panel(f"CPU busy{where}", "%", bins=bins, top=100.0),)


def _of_archive(archive: Archive, began_s: float, end_s: float, cpu: _Cpu) -> None:
    """Add what the series say: least, mean and greatest of each of their points."""
    for series in archive.series():
        if series.name == "cpu.busy_pct":
            line = archive.line(
                series.host, series.name, began_s, began_s + end_s, at_most=4 * _BINS
            )
            for point in line.points:
                at = point.at - began_s + line.width_s / 2
                for busy in {point.low, point.mean, point.high}:
                    cpu.add(series.host, at, busy)


def _when(text: object) -> datetime.datetime | None:
    if isinstance(text, str | datetime.datetime):
        try:
            return show.moment(text)
        except ValueError:
            return None
    return None
