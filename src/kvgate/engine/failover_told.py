"""What a fault under load came to, computed from what was seen of the paths and what fio logged."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from decimal import Decimal

import fiopy
from kvgate.faults.paths import Loss
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.telemetry.paths import away, departures
from kvgate.telemetry.paths_seen import Moment, PathId
from kvgate.workloads import fio_readings
from kvgate.workloads.acknowledged import Written
from kvgate.workloads.failover import Met

PATHS = ("failover.flaps", "failover.least_share")
FIO = (
    "failover.io_errors",
    "failover.verify_errors",
    "failover.longest_gap",
    "failover.longest_io",
)
REPAIR = ("failover.proven", "failover.repaired", "failover.recovery_time", "failover.moments")
LEFT = ("failover.left_after",)
RESUMED = ("failover.resumed",)
ACKNOWLEDGED = (
    "failover.io_errors",
    "failover.longest_gap",
    "failover.longest_io",
    "failover.acknowledged",
    "failover.lost_writes",
    "failover.wrong_data",
)
CLEAR = ("failover.clear_error",)

_LEAST_IOS = 50
_CLOCK_MOVED_S = 0.5
_LOADED_S = 5.0  # how long a load may have been silent before a repair was proven
_CLOCK_SET = "the host's clock was set while the load ran"


@dataclasses.dataclass(slots=True)
class Times:
    """When a fault was begun, proven, undone and proven repaired, by the initiator's uptime."""

    begun: float | None = None
    proven: float | None = None
    undone: float | None = None
    repaired: float | None = None

    def __str__(self) -> str:
        told = ((name, getattr(self, name)) for name in self.__slots__)
        return ", ".join(f"{name} {at:.2f} s" for name, at in told if at is not None)


def missing(names: Sequence[str], why: str) -> tuple[Reading, ...]:
    """Return a reading without a value, with the reason, for each of `names`."""
    return tuple(Reading(name=name, value=None, problem=why) for name in names)


def seconds(value: float) -> Quantity:
    """Return a time in seconds, to the millisecond."""
    return Quantity.of(Decimal(str(round(value, 3))), "s")


def of_fio(met: Met, moments: Sequence[Moment], begun: float | None) -> Iterator[Reading]:
    """Yield the errors that fio met, and its longest gap and I/O since `begun` (None: ever)."""
    io = sum(fio_readings.errors(each, wrong=False) for each in met.outputs)
    wrong = sum(
        max(fio_readings.errors(each, wrong=True), len(each.verify_failures))
        for each in met.outputs
    )
    for name, count in zip(FIO[:2], (io, wrong), strict=True):
        yield Reading(name=name, value=Quantity.of(count, ""))
    why, ahead = met.problem, _clock_ahead(moments)
    if ahead is None:
        why = _CLOCK_SET
    if met.course is None or ahead is None:
        yield from missing(FIO[2:], why)
        return
    since_ms = None if begun is None else round(1000 * (begun + ahead))
    yield Reading(name=FIO[2], value=seconds(longest_gap_ms(met.course, since_ms) / 1000))
    most = longest_io_ns(met.course, since_ms)
    none = "" if most is not None else "nothing was completed since the fault began"
    yield Reading(name=FIO[3], value=None if most is None else seconds(most / 1e9), problem=none)


def _clock_ahead(moments: Sequence[Moment]) -> float | None:
    """Return how far the host's clock is ahead of its uptime; None where it was set meanwhile."""
    first, last = (each.clock_s - each.uptime_s for each in (moments[0], moments[-1]))
    return first if abs(first - last) < _CLOCK_MOVED_S else None


def longest_gap_ms(course: fiopy.Course, since_ms: int | None) -> int:
    """Return the longest time without a completion that ended after `since_ms`.

    At least what the log can tell. Silence from the last completion on is none: fio ended.
    """
    found = [
        gap.length_ms for gap in course.gaps["all"] if since_ms is None or gap.end_ms > since_ms
    ]
    return max([*found, course.resolution_ms])


def longest_io_ns(course: fiopy.Course, since_ms: int | None) -> int | None:
    """Return the longest I/O of the windows of the log that end after `since_ms`."""
    starts = [window.begin_ms for window in course.windows]
    ends = [*starts[1:], course.end_ms + 1]
    found = [
        figures.most
        for window, end in zip(course.windows, ends, strict=True)
        if since_ms is None or end > since_ms
        for figures in window.figures.values()
    ]
    return max(found, default=None)


def left_after(moments: Sequence[Moment], loss: Loss, times: Times) -> Reading:
    """Return how long after its begin the last path that the fault takes was seen to have left."""
    begun = times.begun or 0.0
    first: dict[PathId, float] = {}
    for path, at in departures(moments, loss.before, loss.taken):
        if at >= begun:
            first.setdefault(path, at)
    unseen = sorted(loss.taken - set(first))
    if unseen:
        return Reading(name=LEFT[0], value=None, problem=f"{unseen[0]} was not seen to leave")
    return Reading(name=LEFT[0], value=seconds(max(first.values()) - begun))


def recovered_at(moments: Sequence[Moment], before: Moment, times: Times) -> float | None:
    """Return when all paths were as `before` again, for good, by the time the repair was proven.

    What leaves after that is a path that flaps.
    """
    if times.undone is None or times.repaired is None:
        return None
    away_at = times.undone
    for each in moments:
        if each.uptime_s <= times.repaired and away(each, before):
            away_at = max(away_at, each.uptime_s)
    later = (each for each in moments if each.uptime_s >= away_at and not away(each, before))
    return next((each.uptime_s for each in later), None)


def all_away_until(moments: Sequence[Moment], before: Moment, times: Times) -> float | None:
    """Return the last moment up to the repair at which no path of `before` was as it had been.

    From then on I/O can go on, by the first path that is back. None: it was not seen, or the
    repair was not.
    """
    if times.repaired is None:
        return None
    gone = [
        each.uptime_s
        for each in moments
        if each.uptime_s <= times.repaired and away(each, before) == frozenset(before.paths)
    ]
    return max(gone, default=None)


def not_under_load(met: Met, moments: Sequence[Moment], times: Times) -> str:
    """Return why a repair was not under load to its end, "" where it was."""
    ahead = _clock_ahead(moments)
    if met.course is None or ahead is None:
        return met.problem or _CLOCK_SET
    early = (times.repaired or 0.0) + ahead - met.course.end_ms / 1000
    if early <= _LOADED_S:
        return ""
    return f"the load ended {early:.0f} s before the repair was proven: it takes a longer 'after'"


def of_repair(recovered: float | None, times: Times, problem: str = "") -> Iterator[Reading]:
    """Yield that the fault was proven and repaired, how long all took to recover, and when.

    With `problem` that time is none.
    """
    yield Reading(name=REPAIR[0], value=True)
    yield Reading(name=REPAIR[1], value=True)
    if problem or times.undone is None or times.repaired is None:
        yield from missing(REPAIR[2:3], problem or "its undo was not timed")
    else:
        at = max(recovered or times.repaired, times.undone)
        yield Reading(name=REPAIR[2], value=seconds(at - times.undone))
    yield Reading(name=REPAIR[3], value=str(times))


def of_paths(
    moments: Sequence[Moment], loss: Loss, times: Times, recovered: float | None
) -> Iterator[Reading]:
    """Yield how often paths left that the fault did not take, and how evenly they are used after.

    Those that it takes may be away from its begin until all are back.
    """
    excused = (times.begun or 0.0, recovered if recovered is not None else times.repaired or 0.0)
    flaps = [
        f"{path} at {at:.1f} s"
        for path, at in departures(moments, loss.before, frozenset(loss.before.paths))
        if not (path in loss.taken and excused[0] <= at <= excused[1])
    ]
    yield Reading(name=PATHS[0], value=Quantity.of(len(flaps), ""))
    if flaps:
        yield Reading(name="failover.flapped", value="; ".join(flaps[:20]))
    after = [each for each in moments if recovered is None or each.uptime_s >= recovered]
    yield least_share(after)


def least_share(after: Sequence[Moment]) -> Reading:
    """Return the I/Os of the optimized path that carried the fewest, over an even share of them."""
    name = PATHS[1]
    if len(after) < 2:
        return Reading(name=name, value=None, problem="the paths were not watched for long enough")
    first, last = after[0], after[-1]
    paths = sorted(first.best & last.best)
    counts = []
    for path in paths:
        pairs = [
            (getattr(first.paths[path], way), getattr(last.paths[path], way))
            for way in ("reads", "writes")
        ]
        if any(one is None or two is None or two < one for one, two in pairs):
            return Reading(name=name, value=None, problem=f"{path}: the kernel counts no I/Os")
        counts.append(sum(two - one for one, two in pairs))
    if len(paths) < 2 or sum(counts) < _LEAST_IOS:
        why = f"{len(paths)} optimized paths carried {sum(counts)} I/Os: too few to compare"
        return Reading(name=name, value=None, problem=why)
    share = Decimal(min(counts) * len(counts)) / Decimal(sum(counts))
    return Reading(name=name, value=Quantity.of(round(100 * share, 2), "%"))


def resumed(met: Met, moments: Sequence[Moment], all_away_until: float | None) -> Reading:
    """Return whether I/Os were completed after the last moment at which all paths were away."""
    ahead, why = _clock_ahead(moments), met.problem
    if all_away_until is None:
        why = "no moment was seen at which all paths were away"
    elif ahead is None:
        why = _CLOCK_SET
    if met.course is None or ahead is None or all_away_until is None:
        return Reading(name=RESUMED[0], value=None, problem=why)
    return Reading(name=RESUMED[0], value=met.course.end_ms > 1000 * (all_away_until + ahead))


def of_writer(written: Written, begun: float) -> Iterator[Reading]:
    """Yield what a writer met: I/O errors, its longest gap and I/O since the fault began."""
    yield Reading(name=ACKNOWLEDGED[0], value=Quantity.of(len(written.errors), ""))
    times = sorted(at for at, _ in written.acks)
    gaps = [after - before for before, after in itertools.pairwise(times) if after > begun]
    took = [each for at, each in written.acks if at > begun]
    none = "nothing was acknowledged since the fault began"
    for name, found in ((ACKNOWLEDGED[1], gaps), (ACKNOWLEDGED[2], took)):
        value = seconds(max(found)) if found else None
        yield Reading(name=name, value=value, problem="" if found else none)


def clear_error(written: Written, hung: bool) -> Reading:
    """Return whether the writer was told an error, and none of its I/Os hung."""
    return Reading(name=CLEAR[0], value=bool(written.errors) and not hung)
