"""Finds in a run's records what a soak's timeline shows: windows, faults, telemetry, its start."""

from __future__ import annotations

import dataclasses
import datetime
import math
import statistics
from collections.abc import Iterable, Iterator

from kvgate.model.quantity import UNITS, Quantity
from kvgate.model.record import Measurement
from kvgate.report import show, timeline
from kvgate.report.series import thinned, unit_of
from kvgate.report.sources import JournalEvent, Sources
from kvgate.report.timeline import Panel, Point, Shade
from kvgate.report.views import Chart

_PREFIX = "soak."
_PANELS = 5
_BINS = 240
_TITLES = {
    "soak.ttft_p50": "TTFT, median of each window",
    "soak.fio_read_clat_p99": "fio read completion latency, p99 of each window",
}
_TITLE = "Soak over time"


def chart(gate: str, sources: Sources) -> Chart | None:
    """Return the timeline of the windows of `gate`, or None if none were measured."""
    windows = [each for each in sources.measurements
               if each.name.startswith(_PREFIX) and "window" in each.labels]
    if not windows:
        return None
    began = _began(gate, sources, windows)
    width_s = _width_s(sources)
    panels = tuple(_panels(windows, width_s))[:_PANELS]
    drawn_end = max((point.at for panel in panels for point in panel.points), default=0.0)
    end_s = max(drawn_end + width_s / 2, width_s)
    cpu = _telemetry(sources, began, end_s)
    shades = tuple(_shades(sources.events, began, end_s))
    name = f"{gate.lower()}-soak"
    if not panels:
        return Chart(name, _TITLE, "No window of the soak has a value that can be drawn.", None)
    missing = sum(not isinstance(each.value, Quantity) for each in windows)
    return timeline.draw(name, _TITLE, (*panels, *cpu), shades, end_s,
                         _note(missing, bool(cpu), bool(shades)))


def _note(missing: int, cpu: bool, shades: bool) -> str:
    parts = ["A point is a window: filled circle normal, diamond with a fault, ring recovering."]
    parts.append("Shaded: a fault, from its begin to its proven repair." if shades
                 else "No fault is journalled.")
    if not cpu:
        parts.append("No telemetry of the CPU was recorded.")
    if missing:
        parts.append(f"{missing} window value{'s' if missing != 1 else ''} missing.")
    return " ".join(parts)


def _began(gate: str, sources: Sources, windows: Iterable[Measurement]) -> datetime.datetime:
    """Return when the soak began: its child's begin, else the first sample, else the gate's."""
    inside = False
    for event in sources.events:
        if event.kind in ("gate_begin", "gate_end"):
            inside = event.kind == "gate_begin" and event.fields.get("gate") == gate
        if inside and event.kind == "child_begin" and "soak" in str(event.fields.get("what")):
            return show.moment(event.utc)
    for sample in sources.run.telemetry():
        if (at := _when(sample.get("utc"))) is not None:
            return at
    return min(show.moment(each.taken_at) for each in windows)


def _width_s(sources: Sources) -> float:
    """Return a window's length: the plan's, else 1, which makes the axis one of windows."""
    soak = sources.setup.plan.value.workloads.soak
    return float(soak.window.base) if soak else 1.0


def _index(each: Measurement) -> float | None:
    for text in (each.item, each.labels.get("window", "")):
        if text.isascii() and text.isdecimal() and len(text) < 9:
            return float(text)
    return None


def _order(name: str) -> tuple[int, str]:
    known = list(_TITLES)
    return (known.index(name) if name in known else len(known), name)


def _panels(windows: list[Measurement], width_s: float) -> Iterator[Panel]:
    first = min((index for each in windows if (index := _index(each)) is not None), default=0.0)
    for name in sorted({each.name for each in windows}, key=_order):
        of_name = [(index, each.value, each.labels.get("state", "normal")) for each in windows
                   if each.name == name and isinstance(each.value, Quantity)
                   and (index := _index(each)) is not None]
        if not of_name:
            continue
        kind = of_name[0][1]
        values = [(index, float(value.base), state) for index, value, state in of_name
                  if value.dimension == kind.dimension]
        unit = unit_of(kind, statistics.median(value for _, value, _ in values))
        factor = float(UNITS[unit][1])
        yield Panel(
            _TITLES.get(name, name.removeprefix(_PREFIX).replace("_", " ")), unit,
            points=tuple(Point((index - first + 0.5) * width_s, value / factor, state)
                         for index, value, state in sorted(values)),
        )


def _shades(events: Iterable[JournalEvent], began: datetime.datetime, end_s: float
            ) -> Iterator[Shade]:
    """Yield the faults; one without a journalled repair lasts to the end."""
    open_: dict[tuple[str, str], float] = {}
    for event in events:
        key = (str(event.fields.get("fault")), str(event.fields.get("host")))
        at = (show.moment(event.utc) - began).total_seconds()
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


def _telemetry(sources: Sources, began: datetime.datetime, end_s: float) -> tuple[Panel, ...]:
    """Return the panel of CPU load over all hosts, or nothing where no sample has it."""
    cpu = _Cpu()
    for sample in sources.run.telemetry():
        at, busy = _when(sample.get("utc")), sample.get("cpu_busy_pct")
        if at is None or isinstance(busy, bool) or not isinstance(busy, int | float):
            continue
        if math.isfinite(busy):
            cpu.points.append(((at - began).total_seconds(), min(max(float(busy), 0.0), 100.0)))
            cpu.hosts.add(str(sample.get("host", "")))
    bins = thinned(cpu.points, 0.0, end_s, _BINS)
    if not bins:
        return ()
    where = f" on {len(cpu.hosts)} hosts" if len(cpu.hosts) > 1 else ""
    return (Panel(f"CPU busy{where}", "%", bins=bins, top=100.0),)


def _when(text: object) -> datetime.datetime | None:
    if isinstance(text, str | datetime.datetime):
        try:
            return show.moment(text)
        except ValueError:
            return None
    return None
