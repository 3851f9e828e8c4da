"""Measurements → series to draw: grouped by labels, in one unit, medians, long ones thinned."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Sequence

from kvgate.model.quantity import UNITS, Quantity
from kvgate.model.record import Measurement
from kvgate.report import show


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """The values of one group (say, a job on a host), by round, in the dimension's base unit."""

    key: tuple[str, ...]
    rounds: tuple[tuple[str, float], ...]  # (round, median of that round)
    median: float


@dataclasses.dataclass(frozen=True, slots=True)
class Grouped:
    """All groups of one measure, the unit they read best in, and how many had no value."""

    groups: tuple[Group, ...]
    unit: str
    missing: int

    @property
    def rounds(self) -> str:
        """Return what a group's median is of: ``median of 5 rounds``."""
        most = max(len(group.rounds) for group in self.groups)
        return f"median of {most} rounds" if most > 1 else "the one round"

    def scaled(self, base: float) -> float:
        """Return a value of the base unit in `unit`."""
        return base / float(UNITS[self.unit][1])

    def shown(self, base: float) -> str:
        """Return a value of the base unit for people, in `unit`."""
        return f"{significant(self.scaled(base))} {show.written(self.unit)}".rstrip()


def grouped(taken: Iterable[Measurement], name: str, *labels: str) -> Grouped:
    """Group the measurements called `name` by `labels`, ``host`` and ``item`` too.

    What has no value, no number, or another dimension than the first is counted, not drawn.
    """
    rounds: dict[tuple[str, ...], dict[str, list[float]]] = {}
    first: Quantity | None = None
    missing = 0
    for each in taken:
        if each.name != name:
            continue
        if not isinstance(each.value, Quantity) or (
            first is not None and each.value.dimension != first.dimension
        ):
            missing += 1
            continue
        first = first or each.value
        own = {"host": each.host, "item": each.item}
        key = tuple(own.get(label, each.labels.get(label, "")) for label in labels)
        in_round = rounds.setdefault(key, {}).setdefault(each.labels.get("round", ""), [])
        in_round.append(float(each.value.base))
    groups = tuple(_group(key, rounds[key]) for key in sorted(rounds, key=natural))
    middle = statistics.median(group.median for group in groups) if groups else 0.0
    return Grouped(groups, unit_of(first, middle) if first else "", missing)


def _group(key: tuple[str, ...], rounds: dict[str, list[float]]) -> Group:
    points = tuple(
        (name, statistics.median(rounds[name]))
        for name in sorted(rounds, key=lambda each: natural((each,)))
    )
    return Group(key, points, statistics.median(value for _, value in points))


def unit_of(first: Quantity, middle: float) -> str:
    """Return the unit, of the kind of `first`, in which `middle` (in base units) reads best."""
    base = next(
        unit for unit in reversed(show.ladder(first.unit)) if UNITS[unit][0] == first.dimension
    )
    per_unit = float(UNITS[base][1])
    return show.unit_for(Quantity.of(f"{middle / per_unit:.9f}", base))


def natural(key: Sequence[str]) -> tuple[tuple[int, float, str], ...]:
    """Return a sort key in which numbers go by value: 2 before 16, and before words."""
    return tuple(
        (0, float(part), part) if part.isdecimal() and part.isascii() else (1, 0.0, part)
        for part in key
    )


def significant(value: float) -> str:
    """Return `value` with three significant digits, and all digits before the point."""
    if value == 0:
        return "0"
    size = abs(value)
    places = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    if size < 0.0005:
        return f"{value:.2e}"
    return f"{value:.{places}f}"


@dataclasses.dataclass(frozen=True, slots=True)
class Bin:
    """Neighbouring points of a long series drawn as one: middle, and from lowest to highest."""

    at: float
    low: float
    middle: float
    high: float


def thinned(
    points: Iterable[tuple[float, float]], start: float, end: float, most: int
) -> tuple[Bin, ...]:
    """Return at most `most` bins of equal width over (x, y) points between `start` and `end`."""
    width = (end - start) / most or 1.0
    held: dict[int, list[float]] = {}
    for x, y in points:
        if start <= x <= end:
            held.setdefault(min(int((x - start) / width), most - 1), []).append(y)
    return tuple(
        Bin(start + (slot + 0.5) * width, min(ys), statistics.median(ys), max(ys))
        for slot, ys in sorted(held.items())
    )
