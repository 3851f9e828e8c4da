"""G4 thin: reads what the soak recorded, window by window, and computes what it amounts to.

The soak itself is a process of the engine (kvgate.engine.soak), which has ended by now.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import cast

from kvgate.judge.drift import SeriesError, trend
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Reading
from kvgate.spec.inventory import Host
from kvgate.spec.workload import SoakWorkload
from kvgate.suite import Bench, evidence_of, settles


@settles("G4.1", "G4.2", "G4.4", "G4.5")
def test_sustained_load_of_requests_and_fio(bench: Bench) -> None:
    """Add up the time of all windows; their requests and errors stand as they were recorded."""
    _workload(bench)
    for host in bench.hosts("serving"):
        windows = _of(bench, "soak.window_time", host)
        bench.compute(
            _sum("soak.duration", windows),
            inputs=f"sum of {len(windows)} soak.window_time",
            phase="steady_state",
            host=host.name,
            evidence=evidence_of(windows),
        )


@settles("G4.3")
def test_telemetry_of_every_host(bench: Bench) -> None:
    """Hold the samples that came against those that were due, over all windows."""
    every_s = _workload(bench).sample_every.base
    windows = [m for host in bench.hosts("serving") for m in _of(bench, "soak.window_time", host)]
    due_s = sum((_longest(windows, number) for number in _numbers(windows)), Fraction(0))
    for host in bench.hosts():
        samples = _of(bench, "soak.telemetry_samples", host)
        bench.compute(
            _share("soak.telemetry_share", samples, int(due_s / every_s)),
            inputs=f"sum of {len(samples)} soak.telemetry_samples over seconds of all windows",
            phase="steady_state",
            host=host.name,
            evidence=evidence_of(windows),
        )


@settles("G4.6", "G4.7")
def test_drift_of_latency_over_normal_windows(bench: Bench) -> None:
    """Fit Sen's line through the windows that saw no fault, and test it for a trend."""
    _workload(bench)
    for host in bench.hosts("serving"):
        for name, drift in (
            ("soak.ttft_p50", "soak.ttft_drift"),
            ("soak.fio_read_clat_p99", "soak.fio_read_clat_p99_drift"),
        ):
            taken = [m for m in _of(bench, name, host) if m.labels.get("state") == "normal"]
            for reading in _drift(drift, taken):
                bench.compute(
                    reading,
                    phase="steady_state",
                    host=host.name,
                    inputs=f"Mann-Kendall and Sen's slope of {len(taken)} normal {name}",
                    evidence=[ref for m in taken for ref in m.evidence[-1:]],
                )


@settles("G4.8", "G4.9", "G4.10", "G4.11")
def test_recovery_from_every_scheduled_fault(bench: Bench) -> None:
    """Count the scheduled faults that were not injected; the others stand as recorded."""
    load = _workload(bench)
    bench.require("" if load.faults else "the plan schedules no fault for the soak")
    for host in bench.hosts("serving"):
        seen = _of(bench, "soak.fault_proven", host)
        bench.compute(
            Reading(
                name="soak.faults_missing",
                value=Quantity.of(max(0, len(load.faults) - len(seen)), ""),
            ),
            inputs=f"{len(load.faults)} faults scheduled, {len(seen)} soak.fault_proven",
            phase="fault",
            host=host.name,
            evidence=evidence_of(seen),
        )


def _workload(bench: Bench) -> SoakWorkload:
    """Return the plan's soak; what kept it from being run goes into NotRunError."""
    load = bench.plan.workloads.soak
    bench.require(
        "" if load else "the plan has no workloads.soak",
        *(str(refused.value) for refused in bench.measurements("soak.refused")),
    )
    return cast(SoakWorkload, load)  # required above


def _of(bench: Bench, name: str, host: Host) -> list[Measurement]:
    return [m for m in bench.measurements(name) if m.host == host.name]


def _sum(name: str, taken: Sequence[Measurement]) -> Reading:
    """Return the sum of quantities, or why there is none."""
    values = [m.value for m in taken if isinstance(m.value, Quantity)]
    if not values or len(values) != len(taken):
        return Reading(name=name, value=None, problem=_why_not(taken))
    total = sum((value.number for value in values[1:]), values[0].number)
    return Reading(name=name, value=Quantity(total, values[0].unit))


def _share(name: str, taken: Sequence[Measurement], due: int) -> Reading:
    """Return the share of `due` samples that came, at most 100 %."""
    came = _sum(name, taken)
    if not isinstance(came.value, Quantity):
        return came
    if due < 1:
        return Reading(name=name, value=None, problem="no sample was due")
    share = min(1.0, float(came.value.base) / due)
    return Reading(name=name, value=Quantity.of(round(100 * share, 2), "%"))


def _drift(name: str, taken: Sequence[Measurement]) -> tuple[Reading, ...]:
    """Return how much a series rises over its length, and the probability of that by chance."""
    points = sorted(
        (int(m.labels["window"]), float(m.value.base))
        for m in taken
        if isinstance(m.value, Quantity)
    )
    if len(points) != len(taken):
        return (Reading(name=name, value=None, problem=_why_not(taken)),)
    try:
        found = trend([x for x, _ in points], [y for _, y in points])
    except SeriesError as err:
        return (Reading(name=name, value=None, problem=err.message),)
    return (
        Reading(name=name, value=Quantity.of(round(100 * found.rise, 2), "%")),
        Reading(name=f"{name}_p", value=Quantity.of(found.p, "x")),
    )


def _why_not(taken: Sequence[Measurement]) -> str:
    return next(
        (f"window {m.labels.get('window', '?')}: {m.problem}" for m in taken if m.problem),
        "no window was recorded",
    )


def _numbers(windows: Sequence[Measurement]) -> list[str]:
    return sorted({m.labels["window"] for m in windows})


def _longest(windows: Sequence[Measurement], number: str) -> Fraction:
    """Return how long a window lasted, in seconds: until its last host was done."""
    return max(
        (
            m.value.base
            for m in windows
            if m.labels["window"] == number and isinstance(m.value, Quantity)
        ),
        default=Fraction(0),
    )
