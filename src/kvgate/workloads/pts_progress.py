"""How far a test of SNIA's has come by what a run has recorded, and what it comes to: pure.

A series is what follows one preconditioning. Its rounds go on after an interruption that was
short; after a longer one (or where the target is gone, as a file is) a new series begins.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

from kvgate.judge import steady
from kvgate.judge.steady import MOST_ROUNDS, Outcome
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Measurement, Reading, evidence_of
from kvgate.workloads.pts import Loop, Point

GONE = "the target went with the process that was interrupted"


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """A loop on a target so far: its newest series, and the values of each whole round of it.

    ``series`` 0: nothing yet. ``latest`` is when the newest block of it was recorded.
    ``problem`` is why a tracked value is missing, which ends the loop.
    """

    series: int
    rounds: tuple[dict[Point, Fraction], ...]
    latest: datetime.datetime | None
    written: int
    problem: str = ""

    def outcome(self, loop: Loop) -> Outcome:
        """Return what the rounds come to, up to the first that lacks a tracked value.

        A loop that tracks nothing is never steady.
        """
        if not loop.tracked:
            return Outcome(len(self.rounds), {}, steady=False)
        whole = list(
            itertools.takewhile(
                lambda values: all(point in values for point in loop.tracked), self.rounds
            )
        )
        return steady.outcome(
            {
                f"{point.mix} {point.block}": [values[point] for values in whole]
                for point in loop.tracked
            }
        )


def so_far(taken: Iterable[Measurement], loop: Loop, host: str, device: str) -> Progress:
    """Return how far `loop` has come on `device` of `host`, by committed measurements."""
    ours = [
        each
        for each in taken
        if each.host == host
        and each.labels.get("test") == loop.name
        and each.labels.get("device") == device
        and each.phase == "precondition"
    ]
    series = max((int(each.labels["series"]) for each in ours), default=0)
    ours = [each for each in ours if int(each.labels["series"]) == series]
    points = {(point.mix, point.block): point for point in loop.points}
    rounds: dict[int, dict[Point, Fraction]] = {}
    problem = ""
    for each in ours:
        if each.name != loop.measure or "round" not in each.labels:
            continue
        point = points.get((each.labels.get("mix", ""), each.labels.get("block_size", "")))
        values = rounds.setdefault(int(each.labels["round"]), {})
        if point is not None and isinstance(each.value, Quantity):
            values[point] = each.value.base
        elif point in loop.tracked:
            problem = problem or f"round {each.labels['round']}: {each.problem}"
    return Progress(
        series=series,
        rounds=tuple(rounds[number] for number in sorted(rounds)),
        latest=max((each.taken_at for each in ours), default=None),
        written=sum(_bytes(each) for each in ours if each.name == "pts.written"),
        problem=problem,
    )


def _bytes(each: Measurement) -> int:
    return int(each.value.base) if isinstance(each.value, Quantity) else 0


def why_again(known: Progress, now: datetime.datetime, *, most_gap_s: float, survives: bool) -> str:
    """Return why a series can't go on and another begins; empty where it can, or none began.

    Clocks of two processes are compared by UTC: one that went backwards makes the gap unknown.
    """
    if known.latest is None:
        return ""
    gap = (now - known.latest).total_seconds()
    if not survives:
        return GONE
    if gap < 0:
        return "the clock went backwards, so how long the gap was is not known"
    if gap > most_gap_s:
        return f"{gap:.0f} s passed since its last round, more than {most_gap_s:.0f} s"
    return ""


def ended(loop: Loop, known: Progress, *, most_rounds: int, saturation: tuple[int, int]) -> str:
    """Return why no further round is wanted; empty where one is.

    `saturation` is after how many rounds, and how many bytes, a loop that tracks nothing ends.
    """
    if known.problem:
        return known.problem
    if not loop.tracked:
        rounds, size = saturation
        if known.written >= size:
            return f"{known.written} B were written, four times the active range"
        return f"{len(known.rounds)} rounds, as planned" if len(known.rounds) >= rounds else ""
    found = known.outcome(loop)
    if found.steady:
        return f"steady after round {found.rounds}"
    if len(known.rounds) >= min(most_rounds, MOST_ROUNDS):
        return f"not steady after {len(known.rounds)} rounds"
    return ""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """A computed value: its reading, how it came about, and the labels beside the loop's."""

    reading: Reading
    inputs: str
    labels: dict[str, str]


def results(loop: Loop, known: Progress, why: str) -> Iterator[Result]:
    """Yield what the rounds come to: ``pts.steady`` and the window's figures by SNIA's rule.

    A loop that did not become steady has no ``pts.steady``, only the reason: its storage may be
    noisy, and that is no failure of it.
    """
    if not loop.tracked:
        return
    found = known.outcome(loop)
    last = found.last
    window = f"rounds {last - steady.WINDOW + 1}-{last}" if last else "no window"
    inputs = f"pts by {loop.measure}, series {known.series}, {window}: {steady.WINDOW} rounds"
    reached = found.steady and not known.problem
    reading = Reading(
        name="pts.steady", value=True if reached else None, problem="" if reached else why
    )
    yield Result(reading, inputs, {})
    yield Result(Reading(name="pts.rounds", value=Quantity.of(len(known.rounds), "")), inputs, {})
    for point in loop.tracked:
        one = found.windows.get(f"{point.mix} {point.block}")
        shares = (
            ("pts.spread", one.spread_share if one else None),
            ("pts.rise", one.rise_share if one else None),
        )
        for name, share in shares:
            yield Result(_percent(name, share), inputs, point.labels)


def _percent(name: str, share: Fraction | None) -> Reading:
    if share is None:
        return Reading(name=name, value=None, problem="no window of five rounds with values")
    return Reading(name=name, value=Quantity.of(round(float(100 * share), 6), "%"))


def figures(loop: Loop, known: Progress, taken: Sequence[Measurement]) -> Iterator[Result]:
    """Yield every figure of every point over the window: its mean, of ``pts.lat_max`` the most.

    A figure that not all five rounds have is left out.
    """
    last = known.outcome(loop).last
    if not loop.tracked or last is None:
        return
    window = range(last - steady.WINDOW + 1, last + 1)
    found: dict[tuple[str, str, str], dict[int, Quantity]] = {}
    for each in taken:
        if each.labels.get("series") == str(known.series) and isinstance(each.value, Quantity):
            key = (each.labels.get("mix", ""), each.labels.get("block_size", ""), each.name)
            found.setdefault(key, {})[int(each.labels.get("round", "0"))] = each.value
    for point in loop.points:
        for name in FIGURES:
            values = found.get((point.mix, point.block, name), {})
            if any(number not in values for number in window):
                continue
            one = _most if name == "pts.lat_max" else _mean
            yield Result(
                Reading(name=name, value=one([values[number] for number in window])),
                f"{'most' if one is _most else 'mean'} of rounds {window[0]}-{last}, "
                f"series {known.series}",
                point.labels,
            )


FIGURES = ("pts.iops", "pts.bw", "pts.lat_mean", "pts.lat_max", "pts.lat_5n")


def _most(values: Sequence[Quantity]) -> Quantity:
    return max(values)


def _mean(values: Sequence[Quantity]) -> Quantity:
    total = sum((each.number for each in values), Decimal(0))
    return Quantity.of(round(total / len(values), 6), values[0].unit)


def cited(loop: Loop, known: Progress, taken: Sequence[Measurement]) -> tuple[EvidenceRef, ...]:
    """Return the evidence of what is tracked in the window that decides."""
    last = known.outcome(loop).last or 0
    tracked = {(point.mix, point.block) for point in loop.tracked}
    return evidence_of(
        each
        for each in taken
        if each.name == loop.measure
        and each.labels.get("series") == str(known.series)
        and last - steady.WINDOW < int(each.labels.get("round", "0")) <= last
        and (each.labels.get("mix", ""), each.labels.get("block_size", "")) in tracked
    )
