"""The report of SNIA's tests: header, steady-state determination, tables of the window, plots."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from kvgate.judge.steady import MOST_RISE, MOST_SPREAD, Outcome, Window
from kvgate.model.quantity import UNITS, Quantity
from kvgate.model.record import Measurement
from kvgate.report import pts_plot, show
from kvgate.report.pts_plot import Tracked, percent
from kvgate.report.series import significant, unit_of
from kvgate.report.sources import Sources
from kvgate.report.views import Cell, Chart, Fact, Grid, PtsView
from kvgate.spec.pts import VERSION, PtsWorkload
from kvgate.workloads import pts, pts_progress
from kvgate.workloads.pts import Loop, Point
from kvgate.workloads.pts_progress import Progress

_SHADES = 5
_OVER_TIME = {"pts.iops": "4 KiB random writes", "pts.lat_mean": "Average response time"}
_TABLES = {
    "pts.iops": "IOPS",
    "pts.bw": "Throughput",
    "pts.lat_mean": "Average response time",
    "pts.lat_5n": "99.999 % of response times",
    "pts.lat_max": "Longest response time",
}
_UNIT = {"pts.iops": "IOPS", "pts.bw": "MB/s", "pts.lat_mean": "ms"}
_OF_LOOP = {
    "pts.iops": ("pts.iops",),
    "pts.bw": ("pts.bw",),
    "pts.lat_mean": ("pts.lat_mean", "pts.lat_max", "pts.lat_5n", "pts.iops"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Test:
    """One test on one target: what was planned, how far it came, and its series' measurements."""

    host: str
    device: str
    loop: Loop
    workload: PtsWorkload
    known: Progress
    found: Outcome
    taken: tuple[Measurement, ...]

    def said(self, name: str) -> str:
        """Return what was recorded of `name`, or why it is not known."""
        for each in self.taken:
            if each.name == name:
                if each.value is None:
                    return each.problem
                return show.value(each.value).text
        return "not recorded"

    def value(self, name: str, point: Point) -> Quantity | None:
        """Return the window's figure of a point."""
        for each in self.taken:
            marks = (each.labels.get("mix"), each.labels.get("block_size"))
            if (each.name, each.phase) == (name, "steady_state") and marks == (
                point.mix,
                point.block,
            ):
                return each.value if isinstance(each.value, Quantity) else None
        return None


def views(gate: str, sources: Sources) -> tuple[PtsView, ...]:
    """Return a view of each of SNIA's tests that `gate` ran, on each target."""
    workload = sources.setup.plan.value.workloads.pts
    taken = [
        each
        for each in sources.measurements
        if each.block.startswith(f"{gate}/pts-") and "test" in each.labels
    ]
    if workload is None or not taken:
        return ()
    targets = dict.fromkeys((each.host, each.labels["device"]) for each in taken)
    return tuple(
        _view(gate, _test(taken, host, device, loop, workload), sources)
        for host, device in targets
        for loop in pts.loops(workload)
        if any(
            (each.host, each.labels["device"], each.labels["test"]) == (host, device, loop.name)
            for each in taken
        )
    )


def _test(
    taken: Sequence[Measurement], host: str, device: str, loop: Loop, workload: PtsWorkload
) -> _Test:
    known = pts_progress.so_far(taken, loop, host, device)
    ours = tuple(
        each
        for each in taken
        if (each.host, each.labels["device"], each.labels["test"]) == (host, device, loop.name)
        and each.labels.get("series") == str(known.series)
    )
    return _Test(host, device, loop, workload, known, known.outcome(loop), ours)


def _view(gate: str, test: _Test, sources: Sources) -> PtsView:
    name = f"{gate.lower()}-pts-{test.host}-{test.device}-{test.loop.name}"
    name = "".join(letter if letter.isalnum() else "-" for letter in name)
    return PtsView(
        id=name,
        title=f"PTS {test.loop.title}: {test.device} on {test.host}",
        label=test.workload.label,
        departures=test.workload.departures(),
        facts=tuple(_facts(test, sources)),
        ruling=_ruling(test),
        determination=tuple(_determination(test)),
        grids=tuple(_grids(test)),
        charts=tuple(_charts(name, test)),
    )


def _facts(test: _Test, sources: Sources) -> Iterator[Fact]:
    """Yield the header that the standard asks of a report."""
    who: Any = sources.first("run_begin").get("who") or sources.run.manifest.get("who")
    tester = f"{who.get('user')} on {who.get('host')}" if isinstance(who, dict) else str(who)
    loop = test.loop
    yield Fact("After", VERSION)
    yield Fact("Tester", f"{tester}, run {sources.result.run}")
    yield Fact("Device", test.said("pts.model"))
    yield Fact("Serial", test.said("pts.serial"))
    yield Fact("Firmware", _firmware(test, sources))
    yield Fact("Capacity", test.said("pts.capacity"))
    yield Fact("Active range", test.said("pts.active_range"))
    yield Fact("Write cache", test.said("pts.write_cache"))
    yield Fact("Purge", test.said("pts.purge"))
    yield Fact("Preconditioning", test.said("pts.preconditioning"))
    mixes = dict.fromkeys(point.mix for point in loop.points)
    blocks = dict.fromkeys(point.block for point in loop.points)
    order = "random" if loop.points[0].random else "sequential"
    yield Fact("Test loop", f"R/W {', '.join(mixes)} by {', '.join(blocks)}, {order}")
    yield Fact("Each point", f"{test.workload.per_point}, random data")
    threads = f"{loop.threads} thread{'s' if loop.threads > 1 else ''}"
    yield Fact("Threads and depth", f"{threads}, {loop.queue_depth} under way in each")
    direct = test.said("pts.direct")
    engine = f"fio {test.said('fio.version')}, {test.said('fio.engine')}"
    yield Fact("Tool", f"{engine}, past the page cache: {direct}")
    if (again := test.said("pts.again")) != "not recorded":
        yield Fact("Preconditioned again", f"series {test.known.series}: {again}")
    gaps = [each for each in test.taken if each.name == "pts.gap"]
    for gap in gaps:
        told = show.value(gap.value).text if gap.value is not None else gap.problem
        yield Fact("Interrupted", f"for {told} before round {gap.labels.get('round', '?')}")


def _firmware(test: _Test, sources: Sources) -> str:
    """Return the firmware that the run read of this drive."""
    for each in sources.measurements:
        if each.name.endswith(".firmware") and (each.host, each.item) == (test.host, test.device):
            return show.value(each.value).text if each.value is not None else each.problem
    return "a file has none" if test.device == "file" else "not read by this run (G1 does)"


def _ruling(test: _Test) -> str:
    """Return in a sentence what came of it."""
    count = len(test.known.rounds)
    if not test.loop.tracked:
        return (
            f"{count} rounds; {test.known.written / 1e9:.2f} GB written. No steady state is asked"
        )
    if test.known.problem:
        return f"Steady state not decided: {test.known.problem}"
    if test.found.steady:
        last = test.found.rounds
        return f"Steady after round {last}: the measurement window is rounds {last - 4} to {last}"
    return f"Steady state not reached in {count} rounds; the window shown is the last"


def _determination(test: _Test) -> Iterator[Grid]:
    """Yield the table of how steady state was determined."""
    if not test.found.windows:
        return
    columns = (
        "Tracked",
        "Steady",
        "Rounds",
        "Average",
        "Range",
        "at most 20 %",
        "Slope",
        "at most 10 %",
        "Least-squares fit",
    )
    rows = tuple(
        (Cell(each.label), *(Cell(text) for text in _determined(each.window, each)))
        for each in _tracked(test)
        if each.window
    )
    yield Grid("Steady state determination", columns, rows)


def _determined(window: Window, each: Tracked) -> Iterator[str]:
    def shown(value: Any) -> str:
        return each.shown(float(value) / each.factor)

    spread, rise = window.spread_share, window.rise_share
    yield "yes" if window.steady else "no"
    yield f"{window.first}-{window.last}"
    yield shown(window.average)
    yield f"{shown(window.spread)} ({percent(spread)})" if spread is not None else "none"
    yield shown(window.average * MOST_SPREAD)
    yield f"{shown(window.rise)} ({percent(rise)})" if rise is not None else "none"
    yield shown(window.average * MOST_RISE)
    slope = float(window.slope) / each.factor
    start = float(window.intercept) / each.factor
    sign = "−" if slope < 0 else "+"
    yield f"{significant(start)} {sign} {significant(abs(slope))} × round"


def _tracked(test: _Test) -> list[Tracked]:
    """Return what is tracked, each in the unit it reads best in."""
    found = []
    for point in test.loop.tracked:
        values = [float(each[point]) for each in test.known.rounds if point in each]
        first = Quantity.of(1, _UNIT[test.loop.measure])
        unit = unit_of(first, sorted(values)[len(values) // 2]) if values else first.unit
        factor = float(UNITS[unit][1])
        label = f"R/W {point.mix}, {point.block}"
        window = test.found.windows.get(f"{point.mix} {point.block}")
        found.append(
            Tracked(label, unit, tuple(value / factor for value in values), window, factor)
        )
    return found


def _grids(test: _Test) -> Iterator[Grid]:
    """Yield a table a figure: block sizes down, mixes across, shaded by size."""
    mixes = tuple(dict.fromkeys(point.mix for point in test.loop.points))
    blocks = dict.fromkeys(point.block for point in test.loop.points)
    for name in _OF_LOOP[test.loop.measure]:
        values = {
            (point.block, point.mix): value
            for point in test.loop.points
            if (value := test.value(name, point)) is not None
        }
        if not values:
            continue
        sizes = [float(value.base) for value in values.values()]
        rows = tuple(
            (Cell(block), *(_cell(values.get((block, mix)), sizes) for mix in mixes))
            for block in blocks
        )
        columns = ("Block", *(f"R/W {mix}" for mix in mixes))
        yield Grid(f"{_TABLES[name]}, over the measurement window", columns, rows)


def _cell(value: Quantity | None, sizes: Sequence[float]) -> Cell:
    """Return a value with its shade: by its place between least and most, on a scale of decades."""
    if value is None:
        return Cell("none")
    low, high = min(sizes), max(sizes)
    size = float(value.base)
    share = 0.0
    if low > 0 and high > low:
        share = math.log(size / low) / math.log(high / low)
    return Cell(show.quantity(value).text, round(share * _SHADES))


def _charts(name: str, test: _Test) -> Iterator[Chart]:
    if test.loop.tracked:
        tracked = _tracked(test) if test.known.rounds else []
        if tracked and all(each.values for each in tracked):
            note = (
                "A point is a round, filled within the measurement window. Shaded: the window's "
                "average ± 10 %; thick line: the least-squares fit."
            )
            yield pts_plot.rounds(f"{name}-rounds", "Rounds until steady state", tracked, note)
            close = "The same window seen closely: the axes do not begin at 0."
            if drawn := pts_plot.window(f"{name}-window", "Measurement window", tracked, close):
                yield drawn
        return
    series = []
    for measure in ("pts.iops", "pts.lat_mean"):
        taken = [
            each.value
            for each in test.taken
            if each.name == measure and isinstance(each.value, Quantity)
        ]
        if taken:
            middle = sorted(float(value.base) for value in taken)[len(taken) // 2]
            unit = unit_of(taken[0], middle)
            values = tuple(float(each.base) / float(UNITS[unit][1]) for each in taken)
            series.append((_OVER_TIME[measure], unit, values))
    if series:
        per_round = test.workload.per_point.to("s")
        yield pts_plot.over_time(f"{name}-time", "Write saturation over time", series, per_round)
