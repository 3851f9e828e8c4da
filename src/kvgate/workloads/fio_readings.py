"""What fio measured, as readings: figures of each direction, errors, and what was verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

import fiopy
from fiopy.bins import least_sample
from fiopy.result import EILSEQ
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.workloads.shapes import Shape


def readings(shape: Shape, output: fiopy.Output) -> tuple[Reading, ...]:
    """Return the figures of each direction, and the counts of errors."""
    found = [Reading(name="fio.errors", value=Quantity.of(errors(output, wrong=False), ""))]
    because = f"not a measurement: {output.why()}" if output.failed else ""
    for direction in shape.directions:
        moved = [each for job in output.jobs if (each := job.moved(direction)) is not None]
        found += _direction(direction, moved, because)
    if shape.verify:
        wrong = max(len(output.verify_failures), errors(output, wrong=True))
        found += [Reading(name="verify.errors", value=Quantity.of(wrong, "")), _verified(output)]
    return tuple(found)


def errors(output: fiopy.Output, *, wrong: bool) -> int:
    """Return how many errors the jobs met: blocks of wrong content, or I/O errors."""
    return sum(
        job.total_errors or 1 for job in output.jobs if job.error and (job.error == EILSEQ) is wrong
    )


def _verified(output: fiopy.Output) -> Reading:
    """Return how many bytes were read back and compared (blocks found wrong are among them)."""
    read = [job.read for job in output.jobs if job.name == "verify-read" and job.read]
    total = read[0].total_bytes if len(read) == 1 else None
    if not total:
        return Reading(name="verify.bytes", value=None, problem="nothing was read back")
    return Reading(name="verify.bytes", value=Quantity.of(total, "B"))


def _direction(direction: str, moved: Sequence[fiopy.Transfer], because: str) -> Iterator[Reading]:
    """Yield the five figures of a direction, or five times the reason that there are none."""
    if not because and len(moved) != 1:
        because = f"fio reports {len(moved)} results for {direction}, not one"
    values: dict[str, Quantity | None] = dict.fromkeys(
        (
            f"fio.{direction}_bw",
            f"fio.{direction}_iops",
            f"fio.{direction}_clat_p50",
            f"fio.{direction}_clat_p99",
            f"fio.bytes_{'read' if direction == 'read' else 'written'}",
        )
    )
    if not because:
        values = dict(zip(values, _figures(moved[0]), strict=True))
    count = None if because else moved[0].total_ios
    for name, value in values.items():
        if name.endswith("_p99") and count is not None and count < least_sample(99):
            few = f"p99 takes {least_sample(99)} I/Os, there were {count}: measure for longer"
            yield Reading(name=name, value=None, problem=few)
            continue
        lacks = "" if value is not None else because or "fio did not report it"
        yield Reading(name=name, value=value, problem=lacks)


def _figures(moved: fiopy.Transfer) -> tuple[Quantity | None, ...]:
    """Return bandwidth, IOPS, p50, p99 and bytes; fio's percentiles are within 1.6 % of true."""
    clat = moved.clat
    p50, p99 = (clat.percentile_ns(percent) if clat else None for percent in (50, 99))
    return (
        Quantity.of(scaled(moved.bytes_per_s, 10**6), "MB/s"),
        Quantity.of(moved.iops, "IOPS"),
        None if p50 is None else Quantity.of(scaled(p50, 10**6), "ms"),
        None if p99 is None else Quantity.of(scaled(p99, 10**6), "ms"),
        None if moved.total_bytes is None else Quantity.of(moved.total_bytes, "B"),
    )


def scaled(value: float, by: int) -> Decimal:
    """Return `value` divided by a power of ten, exactly."""
    return Decimal(repr(value) if isinstance(value, float) else value) / by
