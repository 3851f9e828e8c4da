"""Latency over time: from the logs that measurements rest on, by job, arm and direction."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

from kvgate.engine.workspace import frozen_setup
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, Measurement
from kvgate.report import latency
from kvgate.report.sources import Sources
from kvgate.report.views import Chart
from kvgate.workloads import fio_logs

T0 = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
BINS = 1856 >> fio_logs.COARSENESS


def logs(latencies_ms: Sequence[int], direction: int = 0, *, count: int = 200) -> Evidence:
    """Return the evidence of a run with one I/O a rank in each 100 ms."""
    lat = "".join(
        f"{100 * at}, {ms * 10**6}, {direction}, 0, 0\n" for at, ms in enumerate(latencies_ms, 1)
    )
    counts = [0] * BINS
    counts[150] = count
    hist = ", ".join(map(str, (250, direction, 4096, *counts)))
    text = f"== log_lat.log\n{lat}== log_clat_hist.log\n{hist}\n"
    return Evidence(
        host="ini1",
        command=("sh", "-c", fio_logs.FETCH, "sh", "/s/log_lat.log"),
        exit_status=0,
        stdout=text.encode(),
        stderr=b"",
        started_at=T0,
        ended_at=T0,
    )


def gap(ref: str, ms: int = 100, name: str = "fio.longest_gap", **labels: str) -> Measurement:
    return Measurement(
        name=name,
        value=Quantity.of(ms, "ms"),
        host="ini1",
        phase="steady_state",
        taken_at=T0,
        labels=labels,
        evidence=("other", ref),
    )


def drawn(sample: Any, taken: Sequence[Measurement], pieces: dict[str, Evidence]) -> Chart | None:
    run, result = sample
    run.pieces |= {**pieces, "other": dataclasses.replace(logs([1]), command=("fio",))}
    return latency.chart("G2", taken, Sources.read(run, result, frozen_setup(run)))


def test_every_job_and_arm_has_a_panel_with_its_figures(sample: Any) -> None:
    taken = [
        gap("a", 130, job="kv-restore", round="1"),
        gap("b", 1600, job="kv-restore", round="2"),
        gap("c", job="kv-store", round="1"),
        gap("a", name="arms.longest_gap", job="kv-restore", arm="device", round="1"),
    ]
    pieces = {"a": logs([10, 20, 30]), "b": logs([30, 40, 50]), "c": logs([7, 7], 1)}
    chart = drawn(sample, taken, pieces)
    assert chart is not None
    assert [row[0] for row in chart.rows] == [
        "kv-restore, reads",
        "kv-restore on device, reads",
        "kv-store, writes",
    ]
    both = chart.rows[0]
    assert both[1:3] == ("30.0 ms", "50.0 ms"), "mean and highest of both rounds"
    assert both[4] == "1600 ms"
    assert str(chart.svg).count('class="band"') == 3
    assert "kv-restore on device, reads, ms" in str(chart.svg)


def test_a_mix_has_a_panel_a_direction(sample: Any) -> None:
    mixed = logs([10, 20])
    text = mixed.stdout.replace(b"200, 20000000, 0,", b"200, 20000000, 1,")
    chart = drawn(
        sample, [gap("m", job="kv-mixed")], {"m": dataclasses.replace(mixed, stdout=text)}
    )
    assert chart is not None
    assert [row[0] for row in chart.rows] == ["kv-mixed, reads", "kv-mixed, writes"]
    assert chart.rows[1][3] == "no window has 100 I/Os"


def test_logs_that_can_not_be_read_are_counted(sample: Any) -> None:
    torn = dataclasses.replace(logs([10]), stdout=b"== log_lat.log\n1, 2")
    taken = [gap("a", job="kv-restore"), gap("t", job="kv-store"), gap("gone", job="kv-mixed")]
    chart = drawn(sample, taken, {"a": logs([10]), "t": torn})
    assert chart is not None
    assert "2 logs could not be read." in chart.note
    assert len(chart.rows) == 1
    lost = drawn(sample, taken[1:], {"t": torn})
    assert lost is not None
    assert lost.svg is None
    assert lost.note == "Nothing to draw. 2 logs could not be read."


def test_a_run_without_logs_has_no_such_chart(sample: Any) -> None:
    assert drawn(sample, [], {}) is None
    nothing = dataclasses.replace(gap("a", job="x"), value=None, problem="fio left no whole logs")
    assert drawn(sample, [nothing], {}) is None
