"""Runs SNIA's tests by fio: preconditioning, and one round of a loop, each to readings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

import fiopy
from kvgate.judge.percentile import least_sample
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.spec.pts import PtsWorkload
from kvgate.witness import Answer, Witness
from kvgate.workloads import fio, pts, pts_purge
from kvgate.workloads.fio import Place, Told
from kvgate.workloads.fio_readings import scaled
from kvgate.workloads.pts import Loop, Point

NO_PURGE = "none: a new file"
_NINES = 99.999


AS_LEFT = "none: as the test before has left it"


def precondition(
    witness: Witness,
    workload: PtsWorkload,
    loop: Loop,
    place: Place,
    told: Told,
    *,
    as_left: bool = False,
) -> Answer:
    """Purge the target and write all of it twice, as `loop` begins; return how it was done.

    `as_left` does nothing and says so. Raises what `pts_purge.purge` and `fio.run` do.
    """
    if as_left:
        names = ("pts.purge", "pts.preconditioning")
        return Answer(tuple(Reading(name=name, value=AS_LEFT) for name in names), place.evidence)
    purged, asked = _purged(witness, workload, place, told)
    refs = [*place.evidence, *asked]
    readings = [purged]
    if loop.precondition_block:
        output, asked = fio.output_of(
            witness,
            [pts.precondition_job(loop, place.data, place.setting)],
            place,
            told,
            deadline_s=pts.deadline_s(place.setting, precondition=True),
        )
        refs += asked
        readings += [_errors(output), _written("pts.preconditioned", output)]
    readings.append(Reading(name="pts.preconditioning", value=_how(loop)))
    return Answer(tuple(readings), tuple(refs))


def _purged(
    witness: Witness, workload: PtsWorkload, place: Place, told: Told
) -> tuple[Reading, tuple[EvidenceRef, ...]]:
    """Purge a device, or remove our file; return how."""
    if place.look and workload.purge:
        return pts_purge.purge(witness, place.look, workload.purge, cancel=told[2])
    if place.data.is_ours:
        place.runner(witness).remove_file(place.data.path)
    return Reading(name="pts.purge", value=NO_PURGE), ()


def _how(loop: Loop) -> str:
    if not loop.precondition_block:
        return "none: on what a purge left"
    block = loop.precondition_block // pts.KIB
    return f"{pts.PRECONDITION_PASSES} × active range, {block} KiB sequential writes"


def point(
    witness: Witness, loop: Loop, where: Point, place: Place, told: Told, *, round_: int
) -> Answer:
    """Run one point of a round and return its figures; raises what `fio.run` does."""
    output, refs = fio.output_of(
        witness,
        [pts.job(loop, where, place.data, place.setting, round_=round_)],
        place,
        told,
        deadline_s=pts.deadline_s(place.setting),
    )
    return Answer(readings(output, where), refs)


def readings(output: fiopy.Output, where: Point) -> tuple[Reading, ...]:
    """Return a point's figures: both directions together, as the standard's tables have them.

    Response times are those of whole I/Os (fio's ``lat``); the mean weighs directions by their
    I/Os, and 99.999 % is told of pure reads or writes only.
    """
    moved = [each for direction in ("read", "write") for each in _moved(output, direction)]
    because = f"not a measurement: {output.why()}" if output.failed else ""
    because = because or ("" if moved else "fio moved nothing")
    figures = dict(_figures(moved)) if not because else {}
    pure = where.read_pct in (0, 100)
    names = ["pts.iops", "pts.bw", "pts.lat_mean", "pts.lat_max", *(["pts.lat_5n"] * pure)]
    few = _too_few(moved) if pure and not because else ""
    found = [_errors(output)]
    for name in names:
        if name == "pts.lat_5n" and few:
            found.append(Reading(name=name, value=None, problem=few))
            continue
        value = figures.get(name)
        lacks = "" if value is not None else because or "fio did not report it"
        found.append(Reading(name=name, value=value, problem=lacks))
    return (*found, _written("pts.written", output))


def _written(name: str, output: fiopy.Output) -> Reading:
    written = sum(each.total_bytes or 0 for each in _moved(output, "write"))
    return Reading(name=name, value=Quantity.of(written, "B"))


def _moved(output: fiopy.Output, direction: str) -> list[fiopy.Transfer]:
    return [each for job in output.jobs if (each := job.moved(direction)) is not None]


def _errors(output: fiopy.Output) -> Reading:
    errors = sum(job.total_errors or 1 for job in output.jobs if job.error)
    return Reading(name="pts.errors", value=Quantity.of(errors, ""))


def _too_few(moved: Sequence[fiopy.Transfer]) -> str:
    count = sum(each.total_ios or 0 for each in moved)
    least = least_sample(_NINES)
    return f"takes {least} I/Os, there were {count}" if count < least else ""


def _figures(moved: Sequence[fiopy.Transfer]) -> Iterator[tuple[str, Quantity | None]]:
    yield "pts.iops", Quantity.of(_sum(each.iops for each in moved), "IOPS")
    rate = _sum(each.bytes_per_s for each in moved)
    yield "pts.bw", Quantity.of(rate / 10**6, "MB/s")
    whole = [(each.lat or each.clat, each.total_ios) for each in moved]
    means = [(lat.mean_ns, ios) for lat, ios in whole if lat and lat.mean_ns is not None and ios]
    if means and len(means) == len(moved):
        total = sum(ios for _, ios in means)
        mean = _sum(mean * ios for mean, ios in means) / total
        yield "pts.lat_mean", Quantity.of(round(mean / 10**6, 9), "ms")
    most = [lat.max_ns for lat, _ in whole if lat and lat.max_ns is not None]
    if most and len(most) == len(moved):
        yield "pts.lat_max", Quantity.of(scaled(max(most), 10**6), "ms")
    nines = [each.clat.percentile_ns(_NINES) if each.clat else None for each in moved]
    if len(nines) == 1 and nines[0] is not None:
        yield "pts.lat_5n", Quantity.of(scaled(nines[0], 10**6), "ms")


def _sum(values: Iterator[float] | Sequence[float]) -> Decimal:
    """Return the sum of floats as they are written, exactly."""
    return sum((Decimal(repr(value)) for value in values), Decimal(0))
