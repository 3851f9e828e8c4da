"""fio on several hosts at once, by its servers and client: their sum, and how even they are."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import fiopy
from kvgate.errors import NotRunError
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.spec.inventory import Host
from kvgate.spec.workload import FioTogether
from kvgate.witness import Answer, Witness
from kvgate.workloads import fio_errors, shapes
from kvgate.workloads.fio import Place
from kvgate.workloads.host_runner import HostRunner
from kvgate.workloads.shapes import Shape

FAIR, STARTS = "together.fairness", "together.start_apart"
_SLACK_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Station:
    """One host at work: how it is asked, where its files are, and its clock."""

    witness: Witness
    place: Place
    clock_ahead_ms: float


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What a run together came to: of all hosts, and of each."""

    whole: Answer
    each: Mapping[str, Answer]


def address_of(host: Host) -> str:
    """Return the IPv4 address on which a host's fio server listens; raises NotRunError."""
    if host.transport == "local":
        return "127.0.0.1"
    try:
        return str(ipaddress.IPv4Address(host.address or ""))
    except ValueError:
        raise NotRunError(
            (f"{host.name}: '{host.address}' is no IPv4 address for fio's server",),
            hint="give the host's address in the inventory as numbers",
        ) from None


def run(
    stations: Sequence[Station],
    job_name: str,
    workload: FioTogether,
    *,
    around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    cancel: threading.Event | None = None,
) -> Told:
    """Run a job on every station at once; the first one's host runs fio's client too.

    Where they did not begin together, readings say so instead of figures. Raises what `fio.run`
    does.
    """
    shape = shapes.shape(job_name)
    if shape.verify:
        raise NotRunError((f"{job_name}: a verification is not run on several hosts at once",))
    runners = [HostRunner(station.witness) for station in stations]
    initiators = [
        fiopy.Initiator(
            name=station.witness.host.name.replace("_", "-"),
            runner=runner,
            address=address_of(station.witness.host),
            port=workload.port,
            clock_ahead_ms=station.clock_ahead_ms,
        )
        for station, runner in zip(stations, runners, strict=True)
    ]
    jobs = {
        each.name: _jobs(shape, station, workload)
        for each, station in zip(initiators, stations, strict=True)
    }
    evidence = [ref for station in stations for ref in station.place.evidence]
    try:
        with fio_errors.translated(stations[0].witness), around():
            found: fiopy.Together | str = _together(
                jobs, initiators, runners[0], stations[0], workload, cancel
            )
    finally:
        evidence += [ref for runner in runners for ref in runner.evidence]
    return _told(shape, found, stations, initiators, tuple(evidence))


def _jobs(shape: Shape, station: Station, workload: FioTogether) -> list[fiopy.Job]:
    place = station.place
    setting = dataclasses.replace(
        place.setting, ramp_s=workload.ramp.to("s"), runtime_s=workload.runtime.to("s")
    )
    path = place.data.path if shape.on_data else f"{place.folder}/{shape.name}"
    return shapes.jobs(shape, path, setting)


def _together(
    jobs: Mapping[str, Sequence[fiopy.Job]],
    initiators: Sequence[fiopy.Initiator],
    client: HostRunner,
    first: Station,
    workload: FioTogether,
    cancel: threading.Event | None,
) -> fiopy.Together | str:
    """Return how the run went, or that they did not begin together."""
    try:
        return fiopy.run_together(
            jobs,
            initiators,
            client,
            folder=first.place.folder,
            deadline_s=workload.ramp.to("s") + workload.runtime.to("s") + _SLACK_S,
            most_apart_ms=workload.most_apart.to("ms"),
            cancel=cancel,
        )
    except fiopy.FioApart as err:
        return err.message


def _told(
    shape: Shape,
    found: fiopy.Together | str,
    stations: Sequence[Station],
    initiators: Sequence[fiopy.Initiator],
    evidence: tuple[EvidenceRef, ...],
) -> Told:
    """Return each host's bandwidths, their sum, the least over the most, and the starts' spread."""
    problem = found if isinstance(found, str) else ""
    each: dict[str, list[Reading]] = {station.witness.host.name: [] for station in stations}
    apart = None if isinstance(found, str) else Quantity.of(round(found.apart_ms), "ms")
    whole = [Reading(name=STARTS, value=apart, problem=problem)]
    for direction in shape.directions:
        rates = []
        for host, initiator in zip(each, initiators, strict=True):
            rate = None if isinstance(found, str) else _rate(found, initiator.name, direction)
            lacks = problem or ("" if rate is not None else f"fio tells no {direction}s")
            each[host].append(_bandwidth(f"together.host_{direction}_bw", rate, lacks))
            rates.append((rate, lacks))
        lacks = next((why for _, why in rates if why), "")
        known = [rate for rate, _ in rates if rate is not None]
        total = None if lacks else sum(known)
        whole.append(_bandwidth(f"together.{direction}_bw", total, lacks))
        whole.append(_fairness(f"{FAIR}_{direction}", known, lacks))
    return Told(
        Answer(tuple(whole), evidence),
        {host: Answer(tuple(readings), evidence) for host, readings in each.items()},
    )


def _fairness(name: str, rates: Sequence[float], problem: str) -> Reading:
    """Return the slowest host's bandwidth over the fastest's."""
    most = max(rates, default=0)
    if problem or not most:
        return Reading(name=name, value=None, problem=problem or "nothing was moved")
    return Reading(name=name, value=Quantity.of(f"{100 * min(rates) / most:.3f}", "%"))


def _rate(found: fiopy.Together, name: str, direction: str) -> float | None:
    """Return the bytes a second that an initiator moved; None where its results tell none."""
    moved = [part for job in found.by_initiator[name] if (part := job.moved(direction))]
    return sum(part.bytes_per_s for part in moved) if moved else None


def _bandwidth(name: str, rate: float | None, problem: str) -> Reading:
    value = None if problem or rate is None else Quantity.of(f"{rate / 1e6:.6f}", "MB/s")
    return Reading(name=name, value=value, problem=problem)
