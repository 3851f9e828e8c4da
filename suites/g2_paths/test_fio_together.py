"""G2: all serving hosts at once on one storage arm: what they get together, and how evenly."""

from __future__ import annotations

import contextlib
import functools
from typing import cast

from kvgate.model.quantity import Quantity
from kvgate.model.record import ALL_HOSTS, Reading
from kvgate.probes.clock import ask_clock
from kvgate.spec.inventory import Host
from kvgate.spec.workload import FioTogether
from kvgate.suite import Bench, Block, settles
from kvgate.workloads import fio, fio_arms, fio_together
from kvgate.workloads.fio_together import Station


@settles("G2.40", "G2.41", "G2.42")
def test_all_hosts_at_once(bench: Bench) -> None:
    """Lay out files on every host, ask each its time, then run each job on all of them at once."""
    workload, hosts = _workload(bench), bench.hosts("serving")
    rounds = range(1, workload.rounds + 1)
    blocks = list(bench.blocks("together", job=workload.jobs, round=rounds))
    if not blocks:
        return
    with contextlib.ExitStack() as held:
        stations = [_station(bench, host, held) for host in hosts]
        for block in blocks:
            with block:
                _measure(bench, stations, block)


def _workload(bench: Bench) -> FioTogether:
    workload = bench.plan.workloads.fio_together
    few = len(bench.hosts("serving"))
    bench.require(
        "" if workload else "the plan sets no workloads.fio_together",
        "" if few > 1 else f"the inventory has {few} serving host: together takes two or more",
    )
    return cast("FioTogether", workload)  # bench.require has seen that it is there


def _station(bench: Bench, host: Host, held: contextlib.ExitStack) -> Station:
    """Return a host ready to work: its folder and file, and how far its clock is ahead."""
    workload = _workload(bench)
    fio_together.address_of(host)
    place = fio_arms.place_of(host, workload.arm)
    witness = bench.witness(host)
    with bench.asking_for("together-clock", host=host.name):
        told = {each.name: each.value for each in ask_clock(witness).readings}
    ahead = told["clock.offset"]
    held.enter_context(bench.asking_for("together-files", host=host.name))
    with bench.step("Make a folder for fio's files", host=host.name):
        prepared = held.enter_context(
            fio.prepare(
                fio_arms.on(witness, place.scratch or ""),
                workload,
                seed=bench.seed % 2**31,
                around=functools.partial(bench.child, "fio", host=host.name),
            )
        )
    return Station(witness, prepared, ahead.to("ms") if isinstance(ahead, Quantity) else 0.0)


def _measure(bench: Bench, stations: list[Station], block: Block) -> None:
    told = fio_together.run(
        stations,
        block["job"],
        _workload(bench),
        around=functools.partial(bench.child, "fio on all hosts"),
    )
    labels = {"job": block["job"], "round": block["round"]}
    for station in stations:
        host = station.witness.host
        bench.record(told.each[host.name], host=host, phase="steady_state", **labels)
    for reading in told.whole.readings:
        _record_whole(bench, reading, told.whole.evidence, labels, len(stations))


def _record_whole(
    bench: Bench, reading: Reading, evidence: tuple[str, ...], labels: dict[str, str], hosts: int
) -> None:
    bench.compute(
        reading,
        inputs=f"fio's results of {hosts} hosts at once",
        phase="steady_state",
        host=ALL_HOSTS,
        evidence=evidence,
        labels=labels,
    )
