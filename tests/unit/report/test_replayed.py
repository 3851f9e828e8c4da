"""Charts of replays: order, units, intervals, ceilings, and what is said where there is none."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from kvgate.engine.workspace import frozen_setup
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.report import bars, charts, replayed
from kvgate.report.sources import Sources
from kvgate.report.views import Chart

T0 = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def measured(name: str, value: Quantity | None, host: str = "ini1", **labels: str) -> Measurement:
    return Measurement(
        name=name,
        value=value,
        host=host,
        phase="steady_state",
        taken_at=T0,
        labels=labels,
        problem="" if value is not None else "not cold",
        item="",
    )


def replays(rounds: int = 5, hosts: tuple[str, ...] = ("ini1",)) -> Iterator[Measurement]:
    for host in hosts:
        for arm, gain in (("local", 1.0), ("device", 1.5)):
            for level in (16, 8):
                for reads, way in (("serial", 1), ("parallel", 5)):
                    for number in range(rounds):
                        rate = gain * way * (1 + number / 100)
                        labels = {
                            **{"arm": arm, "concurrency": str(level), "reads": reads},
                            "round": str(number + 1),
                        }
                        bw = Quantity.of(f"{rate:.3f}", "GB/s")
                        yield measured(replayed.RATE, bw, host, **labels)
                        seconds = Quantity.of(f"{level * 8 / rate:.3f}", "s")
                        yield measured(replayed.TIME, seconds, host, **labels)


def drawn(sample: Any, taken: list[Measurement]) -> dict[str, Chart]:
    run, result = sample
    setup = frozen_setup(run)
    run.taken = taken
    found = charts.of_gate("G3", Sources.read(run, result, setup))
    return {chart.id: chart for chart in found if "replay" in chart.id}


def texts(chart: Chart) -> list[str]:
    root = ET.fromstring(str(chart.svg))  # noqa: S314  made here
    return [element.text or "" for element in root.iter() if element.tag.endswith("}text")]


def test_times_and_rates_by_concurrency_way_and_arm(sample: Any) -> None:
    most = measured("path.read_ceiling", Quantity.parse("10 GB/s"), arm="device")
    found = drawn(sample, [*replays(), most])
    time, rate = found["g3-replay-restore-time"], found["g3-replay-restore-bw"]
    names = [row[0] for row in rate.rows]
    assert names[:2] == ["8 at once, parallel on device", "8 at once, parallel on local"]
    assert names[-1] == "16 at once, serial on local"
    assert rate.rows[0][1] == "7.65 GB/s"
    assert rate.rows[0][-1] == "76.5 %"
    assert rate.rows[1][-1] == "no ceiling known: not measured"
    assert "76.5 % of ceiling" in texts(rate)
    assert time.rows[1][1] == "12.5 s"
    for chart in (time, rate):
        assert str(chart.svg).count('class="interval"') == 3 * 8, "a line and two ends a bar"
        assert "95 % interval of the mean over rounds" in chart.note
        assert "median of 5 rounds" in chart.note


def test_several_hosts_are_told_apart_and_few_rounds_have_no_interval(sample: Any) -> None:
    found = drawn(sample, list(replays(1, ("ini1", "ini2"))))
    rate = found["g3-replay-restore-bw"]
    assert len(rate.rows) == 16
    assert rate.rows[0][0] == "8 at once, parallel on device on ini1"
    assert 'class="interval"' not in str(rate.svg)
    assert "No ceiling of the path is known: not measured." in rate.note


@pytest.mark.parametrize("name", [replayed.TIME, replayed.RATE])
def test_restores_that_do_not_count_are_said_not_drawn(name: str) -> None:
    taken = [measured(name, None, arm="local", concurrency="8", reads="serial", round="1")]
    (chart,) = replayed.charts("G3", taken, bars.Ceilings({}, {}))
    assert chart.svg is None
    assert chart.note == f"Nothing to draw: 1 measurements of {name} without a value."


def test_a_run_without_replays_has_no_chart_of_them(sample: Any) -> None:
    assert not drawn(sample, [])
