"""The report of SNIA's tests: header, determination, tables, plots, and what it must not claim."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from kvgate.engine.workspace import frozen_setup
from kvgate.judge.steady import WINDOW
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.report import pts
from kvgate.report.pts_plot import percent
from kvgate.report.render import render
from kvgate.report.sources import Sources
from kvgate.report.views import Grid, PtsView
from kvgate.spec.pts import PtsWorkload
from kvgate.workloads import pts as loops_of
from kvgate.workloads import pts_progress
from kvgate.workloads.pts import Loop, Point

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
DRIVE = "S6XTNX0T100201"
Course = Callable[[int], float]


def sources(sample: Any, **asked: object) -> Sources:
    """Return the sample run with a plan that asks for SNIA's tests."""
    run, result = sample
    setup = frozen_setup(run)
    given: dict[str, object] = {
        "tests": ["iops", "throughput", "latency", "saturation"],
        "profile": "full",
    }
    if "file" not in asked:
        given |= {"serials": [DRIVE], "purge": "format"}
    workload = PtsWorkload.model_validate(given | asked)
    plan = setup.plan.value
    loads = plan.workloads.model_copy(update={"pts": workload})
    loaded = dataclasses.replace(setup.plan, value=plan.model_copy(update={"workloads": loads}))
    return Sources.read(run, result, dataclasses.replace(setup, plan=loaded))


def settles_at(rounds: int) -> Course:
    """Return a course that falls for some rounds and then holds: after `rounds` + 4 at most."""
    return lambda number: 1 + 1.9 * 0.6 ** (number - 1) if number < rounds else 1.0


def figures(loop: Loop, point: Point, factor: float) -> dict[str, Quantity]:
    """Return what a drive might do at a point: writes slower than reads, large blocks in bytes."""
    writes = 1 - point.read_pct / 100
    iops = 900e3 * factor / (1 + 3 * writes) * 4096 / (2048 + point.block_bytes)
    if loop.queue_depth == 1:
        iops = 11e3 * factor / (1 + point.block_bytes / 65536) * (1 + writes)
    late = loop.threads * loop.queue_depth / iops * 1e3
    return {
        "pts.iops": Quantity.of(round(iops, 3), "IOPS"),
        "pts.bw": Quantity.of(round(iops * point.block_bytes / 1e6, 3), "MB/s"),
        "pts.lat_mean": Quantity.of(round(late, 6), "ms"),
        "pts.lat_max": Quantity.of(round(late * 41, 6), "ms"),
    }


def record(
    found: Sources, loop: Loop, rounds: int, course: Course, *, host: str = "ini1", **more: Any
) -> None:
    """Record a preconditioning, `rounds` rounds and their results, as the suite does."""
    run: Any = found.run
    device = more.get("device", DRIVE)
    labels = {"test": loop.name, "device": device, "series": "1"}
    about: dict[str, Any] = {
        "pts.model": "PM1743",
        "pts.serial": device,
        "pts.capacity": Quantity.of(7681501126656, "B"),
        "pts.active_range": Quantity.of(7681501126656, "B"),
        "pts.write_cache": "off (write through)",
        "pts.purge": "NVMe format, user data erased (ses 1)",
        "pts.preconditioning": "2 × active range, 128 KiB sequential writes",
        "pts.direct": True,
        "fio.version": "3.36",
        "fio.engine": "libaio",
    }
    for name, value in (about | more.get("about", {})).items():
        run.measure(name, value, host, "precondition", block="G2/pts-precondition", **labels)
    noise = random.Random(loop.name)  # noqa: S311  no secret
    for number in range(1, rounds + 1):
        factor = course(number) * (1 + noise.uniform(-0.015, 0.015))
        for point in loop.points:
            for name, value in figures(loop, point, factor).items():
                run.measure(
                    name,
                    value,
                    host,
                    "precondition",
                    block=f"G2/pts-round/{number}",
                    round=str(number),
                    **point.labels,
                    **labels,
                )
    known = pts_progress.so_far(run.taken, loop, host, device)
    taken: list[Measurement] = [each for each in run.taken if each.labels.get("test") == loop.name]
    for each in (
        *pts_progress.results(loop, known, "not steady"),
        *pts_progress.figures(loop, known, taken),
    ):
        run.measure(
            each.reading.name,
            each.reading.value,
            host,
            "steady_state",
            problem=each.reading.problem,
            block="G2/pts-result",
            **labels,
            **each.labels,
        )


def whole(sample: Any) -> Sources:
    """Return a run with all tests of a drive: steady, steady late, not steady, and saturation."""
    found = sources(sample)
    loops = {loop.name: loop for loop in loops_of.loops(asked(found))}
    record(found, loops["iops"], 9, settles_at(5))
    record(found, loops["throughput-1024k"], 5, lambda _: 1.0)
    record(found, loops["throughput-128k"], 25, lambda n: 1 + 0.2 * (-1) ** n)
    record(found, loops["latency"], 6, settles_at(2))
    record(found, loops["saturation"], 360, settles_at(40))
    return reread(found)


def reread(found: Sources) -> Sources:
    return Sources.read(found.run, found.result, found.setup)


def asked(found: Sources) -> PtsWorkload:
    workload = found.setup.plan.value.workloads.pts
    assert workload is not None
    return workload


def facts(view: PtsView) -> dict[str, str]:
    return {fact.label: fact.text for fact in view.facts}


def table(view: PtsView, title: str) -> list[list[str]]:
    grids = (*view.determination, *view.grids)
    grid: Grid = next(each for each in grids if each.title.startswith(title))
    return [[cell.text for cell in row] for row in grid.rows]


def test_a_run_without_them_has_no_such_part(sample: Any) -> None:
    assert pts.views("G2", sources(sample)) == ()
    run, result = sample
    assert pts.views("G2", Sources.read(run, result, frozen_setup(run))) == ()


def test_the_header_says_what_the_standard_asks_for(sample: Any) -> None:
    iops = pts.views("G2", whole(sample))[0]
    told = facts(iops)
    assert told["After"].startswith("SNIA SSS PTS 2.0.2")
    assert told["Serial"] == DRIVE
    assert told["Capacity"] == "7.68 TB"
    assert told["Purge"].startswith("NVMe format")
    assert told["Preconditioning"].startswith("2 × active range")
    assert told["Threads and depth"] == "4 threads, 32 under way in each"
    assert told["Write cache"] == "off (write through)"
    assert told["Firmware"].startswith("not read by this run")
    assert "fio 3.36" in told["Tool"]
    assert (iops.label, iops.departures) == ("after PTS 2.0.2", ())


def test_each_test_says_how_steady_state_was_determined(sample: Any) -> None:
    views = {view.title.split(":")[0]: view for view in pts.views("G2", whole(sample))}
    iops = views["PTS IOPS"]
    assert iops.ruling.startswith("Steady after round 9: the measurement window is rounds 5 to 9")
    rows = table(iops, "Steady state determination")
    assert len(rows) == 3
    assert {row[2] for row in rows} == {"5-9"}
    assert {row[1] for row in rows} == {"yes"}
    assert all("× round" in row[-1] for row in rows)
    noisy = views["PTS Throughput, 128 KiB"]
    assert noisy.ruling == "Steady state not reached in 25 rounds; the window shown is the last"
    assert {row[1] for row in table(noisy, "Steady state determination")} == {"no"}
    assert views["PTS Write saturation"].determination == ()
    assert "No steady state is asked" in views["PTS Write saturation"].ruling


def test_tables_have_every_cell_of_the_loop(sample: Any) -> None:
    views = {view.title.split(":")[0]: view for view in pts.views("G2", whole(sample))}
    rows = table(views["PTS IOPS"], "IOPS")
    assert [len(row) for row in rows] == [8] * 8
    assert not any("none" in row for row in rows)
    shades = {cell.shade for row in views["PTS IOPS"].grids[0].rows for cell in row[1:]}
    assert shades == {0, 1, 2, 3, 4, 5}
    latency = views["PTS Latency"]
    assert [grid.title.split(",")[0] for grid in latency.grids] == [
        "Average response time",
        "Longest response time",
        "IOPS",
    ]


def test_plots_are_whole_and_tell_every_round(sample: Any) -> None:
    views = {view.title.split(":")[0]: view for view in pts.views("G2", whole(sample))}
    chart, close = views["PTS IOPS"].charts
    assert close.title == "Measurement window"
    assert str(close.svg).count("<circle") == 3 * 5
    root = ET.fromstring(str(chart.svg))  # noqa: S314  made here
    styles = [each.get("class") for each in root.iter()]
    assert styles.count("fit") == styles.count("window") == styles.count("average") == 3
    assert styles.count("bound") == 6
    assert len(chart.rows) == 9
    assert [len(row) for row in chart.rows] == [4] * 9
    (chart,) = views["PTS Write saturation"].charts
    assert chart.title == "Write saturation over time"
    assert len(chart.rows) > 2
    names = [chart.id for view in views.values() for chart in view.charts]
    assert len(set(names)) == len(names)


def test_what_is_not_pts_is_never_called_so(sample: Any) -> None:
    found = sources(sample, file="64 MiB", profile="quick", per_point="1 s")
    (loop, *_) = loops_of.loops(asked(found))
    record(found, loop, WINDOW, lambda _: 1.0, device="file", about={"pts.model": "a file"})
    (view,) = pts.views("G2", reread(found))
    assert view.label == "PTS-shaped on a file, not PTS"
    assert len(view.departures) == 3
    assert facts(view)["Firmware"] == "a file has none"


def test_interruptions_and_new_series_are_told(sample: Any) -> None:
    found = sources(sample)
    loop = loops_of.loops(asked(found))[0]
    record(found, loop, 6, lambda _: 1.0, about={"pts.again": "700 s passed"})
    run: Any = found.run
    run.measure(
        "pts.gap",
        Quantity.of(44, "s"),
        "ini1",
        "precondition",
        block="G2/pts-round/4",
        round="4",
        test="iops",
        device=DRIVE,
        series="1",
    )
    (view,) = pts.views("G2", reread(found))
    assert facts(view)["Preconditioned again"] == "series 1: 700 s passed"
    assert facts(view)["Interrupted"] == "for 44 s before round 4"


def test_a_test_that_was_cut_short_is_shown_as_far_as_it_came(sample: Any) -> None:
    found = sources(sample)
    loop = loops_of.loops(asked(found))[0]
    record(found, loop, 0, lambda _: 1.0)
    (view,) = pts.views("G2", reread(found))
    assert (view.determination, view.grids, view.charts) == ((), (), ())
    assert view.ruling.startswith("Steady state not reached in 0 rounds")
    record(found, loop, 3, lambda _: 1.0)
    (view,) = pts.views("G2", reread(found))
    assert (view.determination, len(view.charts)) == ((), 1)


def test_hostile_names_are_shown_and_break_nothing(sample: Any) -> None:
    found = sources(sample)
    loop = loops_of.loops(asked(found))[0]
    evil = "</script><b>{{ 7*7 }}\x1b[31m"
    record(found, loop, WINDOW, lambda _: 1.0, about={"pts.model": evil})
    run: Any = found.run
    made = render(run, found.result, formats=("html",), templates=TEMPLATES, setup=found.setup)
    html = made["report.html"].decode()
    assert "&lt;/script&gt;&lt;b&gt;{{ 7*7 }}" in html
    assert "\x1b" not in html
    assert html.count('<article class="pts"') == 1


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (Fraction(1, 5), "20.0 %"),
        (Fraction(1, 10), "10.0 %"),
        (Fraction(200001, 1000000), "20.0001 %"),
        (Fraction(199999, 1000000), "19.9999 %"),
        (Fraction(123, 1000), "12.3 %"),
        (Fraction(0), "0.0 %"),
    ],
)
def test_rounding_never_reaches_a_bound(share: Fraction, told: str) -> None:
    assert percent(share) == told
