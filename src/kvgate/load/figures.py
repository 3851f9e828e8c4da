"""Figures of a load run from its rows, or why there are none."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

from kvgate.judge.percentile import least_sample, percentile
from kvgate.load.rows import LoadResult, Row
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading


def as_readings(
    result: LoadResult, *, prefix: str = "g3", voids: bool = True
) -> tuple[Reading, ...]:
    """Return the figures of a load run, in s and tok/s.

    ``ttft``, ``tpot``, ``itl`` (every gap between tokens) and ``e2e`` are medians, ``ttft_p90``
    and so on stand beside them where the sample can carry them (`judge.percentile`: 10 values for
    p90, 100 for p99). Where a request failed, or was due and never sent, there is no percentile
    (survivors are no sample of all), and the reading says so; throughput counts the tokens of
    whole answers over the whole time. Where the client was the bottleneck there is neither;
    unless `voids` is False: then that is only counted, for loads that share their cores with the
    engine and say so.
    """
    why = result.bottleneck
    readings = [
        _count(f"{prefix}.requests", len(result.rows)),
        _count(f"{prefix}.request_errors", len(result.failed) + result.unsent),
        _of(f"{prefix}.client_lag", result.lag_max_s, "s"),
    ]
    kinds = Counter(str(row.failure) for row in result.failed)
    readings += [
        Reading(name=f"{prefix}.failed", item=kind, value=Quantity.of(count, ""))
        for kind, count in sorted(kinds.items())
    ]
    bottleneck = f"{prefix}.client_bottleneck"
    void = f"the client was the bottleneck: {'; '.join(why)}" if why and voids else ""
    readings.append(_none(bottleneck, void) if void else _count(bottleneck, len(why)))
    problem = void or _why_none(result)
    for name, values in _samples(result.good):
        readings += _percentiles(f"{prefix}.{name}", values, problem or _too_few(result, values))
    tokens = sum(row.output_tokens or 0 for row in result.good)
    rate = f"{prefix}.throughput"
    if tokens and result.elapsed_s > 0 and not void:
        readings.append(_of(rate, tokens / result.elapsed_s, "tok/s"))
    else:
        readings.append(_none(rate, problem or _too_few(result, [])))
    return tuple(readings)


def _samples(rows: tuple[Row, ...]) -> list[tuple[str, list[float]]]:
    """Return what percentiles are taken of, by name."""

    def of(value_of: Callable[[Row], float | None]) -> list[float]:
        return [value for row in rows if (value := value_of(row)) is not None]

    return [
        ("ttft", of(lambda row: row.ttft_s)),
        ("tpot", of(lambda row: row.tpot_s)),
        ("itl", list(itertools.chain.from_iterable(row.gaps_s for row in rows))),
        ("e2e", of(lambda row: row.end_s)),
    ]


def _percentiles(name: str, values: list[float], problem: str) -> list[Reading]:
    if problem:
        return [_none(name, problem)]
    return [
        _of(name if percent == 50 else f"{name}_p{percent}", percentile(values, percent), "s")
        for percent in (50, 90, 99)
        if len(values) >= least_sample(percent)
    ]


def _why_none(result: LoadResult) -> str:
    """Return why the whole answers are no sample of all requests, "" where they are."""
    if result.failed:
        first = result.failed[0]
        return (
            f"{len(result.failed)} of {len(result.rows)} requests failed; "
            f"the first: {first.failure}: {first.error}"
        )
    if result.unsent:
        return (
            f"{result.unsent} requests were due and not sent: {result.concurrency} were under way"
        )
    return ""


def _too_few(result: LoadResult, values: list[float]) -> str:
    """Return why there is no median of `values`, "" where there is."""
    if len(values) >= least_sample(50):
        return ""
    if not result.rows:
        return "no request was sent"
    return f"{len(result.rows)} requests are too few for a median"


def _none(name: str, problem: str) -> Reading:
    return Reading(name=name, value=None, problem=problem)


def _count(name: str, number: int) -> Reading:
    return Reading(name=name, value=Quantity.of(number, ""))


def _of(name: str, number: float, unit: str) -> Reading:
    return Reading(name=name, value=Quantity.of(round(number, 6), unit))
