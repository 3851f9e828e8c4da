"""The figures of a load with their intervals; a request that failed is later than any other."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Sequence

from kvgate.judge.percentile import least_sample, rank
from kvgate.judge.student import t_above
from kvgate.load.rows import Failure, LoadResult, Row
from kvgate.load.slo import Slo

WINDOWS = 10
"""Parts of a load's time whose rates make a rate's interval."""

PERCENTS = (50.0, 90.0, 99.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure: base units (s, 1/s, tok/s), and a 95 % interval where the sample carries one.

    ``value`` infinite: so many failed that this percentile was never answered.
    """

    name: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a load came to. ``failures`` counts every kind there was, with the first one's error."""

    requests: int
    good: int
    input_tokens: int
    cached_tokens: int | None
    output_tokens: int
    times: tuple[Figure, ...]
    rates: tuple[Figure, ...]
    goodput: Figure | None
    within_slo: int | None
    failures: tuple[tuple[Failure, int, str], ...]

    def find(self, name: str) -> Figure | None:
        """Return the figure called `name`, None where the sample could not carry it."""
        return next((each for each in (*self.times, *self.rates) if each.name == name), None)


def figures(result: LoadResult, slo: Slo | None = None) -> Figures:
    """Return the figures of `result`; goodput where there is a service level."""
    rows, good = result.rows, result.good
    cached = [row.cached_tokens for row in good if row.cached_tokens is not None]
    within = None if slo is None else [row for row in rows if not any(slo.late(row))]
    return Figures(
        requests=len(rows),
        good=len(good),
        input_tokens=sum(row.prompt_tokens or 0 for row in good),
        cached_tokens=sum(cached) if cached else None,
        output_tokens=sum(row.output_tokens or 0 for row in good),
        times=tuple(_times(rows)),
        rates=tuple(_rates(result)),
        goodput=None if within is None else _rate("goodput", "1/s", result, _ends(within)),
        within_slo=None if within is None else len(within),
        failures=tuple(_failures(result.failed)),
    )


def _times(rows: Sequence[Row]) -> list[Figure]:
    """Return the percentiles of times; of gaps between tokens all, of whole answers."""
    kinds: list[tuple[str, Callable[[Row], float | None]]] = [
        ("TTFT", lambda row: row.ttft_s),
        ("TPOT", lambda row: row.tpot_s),
        ("end to end", lambda row: row.end_s),
    ]
    found: list[Figure] = []
    for name, value_of in kinds:
        told = [math.inf if row.failure is not None else value_of(row) for row in rows]
        values = [each for each in told if each is not None]
        if any(map(math.isfinite, values)):
            found += _percentiles(name, values)
    gaps = [gap for row in rows if row.failure is None for gap in row.gaps_s]
    return found + _percentiles("ITL", gaps, interval=False)


def _percentiles(name: str, values: Sequence[float], *, interval: bool = True) -> list[Figure]:
    ordered = sorted(values)
    found = []
    for percent in PERCENTS:
        if len(ordered) < least_sample(percent):
            continue
        ends = ranks_around(len(ordered), percent) if interval else None
        low, high = (ordered[ends[0] - 1], ordered[ends[1] - 1]) if ends else (None, None)
        value = ordered[rank(len(ordered), percent) - 1]
        found.append(Figure(name=f"{name} p{percent:g}", value=value, unit="s", low=low, high=high))
    return found


@functools.lru_cache(maxsize=256)
def ranks_around(count: int, percent: float, confidence: float = 0.95) -> tuple[int, int] | None:
    """Return between which of `count` ordered values a percentile lies, with `confidence`.

    Ranks from 1: the values with these ranks hold the percentile between them with the probability
    that a binomial of it falls there (H. A. David, H. N. Nagaraja, Order Statistics (2003), section
    7.1), if requests are independent. None where the sample is too small.
    """
    q = percent / 100
    tail = (1 - confidence) / 2
    below, low = 0.0, 0
    while low < count and below + _binomial(count, low, q) <= tail:
        below += _binomial(count, low, q)
        low += 1
    above, high = 0.0, count
    while high > 0 and above + _binomial(count, high, q) <= tail:
        above += _binomial(count, high, q)
        high -= 1
    return (low, high + 1) if low >= 1 and high + 1 <= count else None


def _binomial(count: int, k: int, q: float) -> float:
    log = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
    return math.exp(log + k * math.log(q) + (count - k) * math.log1p(-q))


def _rates(result: LoadResult) -> list[Figure]:
    ends = _ends(result.good)
    out = [
        (row.sent_s if row.due_s is None else row.due_s) + at
        for row in result.good
        for at in _each_token(row)
    ]
    return [
        _rate("requests", "1/s", result, ends),
        _rate("output tokens", "tok/s", result, out),
    ]


def _ends(rows: Sequence[Row]) -> list[float]:
    return [row.ended_s for row in rows]


def _each_token(row: Row) -> list[float]:
    """Return when each token came; those of one event came together."""
    count, times = row.output_tokens or 0, row.token_times_s
    if not times:
        return []
    return [times[place * len(times) // count] for place in range(count)]


def _rate(name: str, unit: str, result: LoadResult, at_s: Sequence[float]) -> Figure:
    """Return how many a second there were, the interval by WINDOWS equal parts of the time.

    Student's t of their rates; none where a part had fewer than one on average.
    """
    elapsed = result.elapsed_s
    if elapsed <= 0:
        return Figure(name=name, value=0.0, unit=unit)
    value = len(at_s) / elapsed
    if len(at_s) < WINDOWS:
        return Figure(name=name, value=value, unit=unit)
    begun = min((row.sent_s for row in result.rows), default=0.0)
    places = collections.Counter(
        min(WINDOWS - 1, max(0, int((each - begun) / elapsed * WINDOWS))) for each in at_s
    )
    rates = [places[place] * WINDOWS / elapsed for place in range(WINDOWS)]
    half = t_above(0.025, WINDOWS - 1) * statistics.stdev(rates) / math.sqrt(WINDOWS)
    return Figure(name=name, value=value, unit=unit, low=max(0.0, value - half), high=value + half)


def _failures(failed: Sequence[Row]) -> list[tuple[Failure, int, str]]:
    """Return each kind of failure, the most frequent first, with the first error of it."""
    counts = collections.Counter(row.failure for row in failed if row.failure is not None)
    first: dict[Failure, str] = {}
    for row in failed:
        if row.failure is not None:
            first.setdefault(row.failure, row.error)
    return [(kind, count, first[kind]) for kind, count in counts.most_common()]
