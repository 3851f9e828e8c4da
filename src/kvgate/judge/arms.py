"""Measurements of two arms → the ratio of each block, by their labels ``arm`` and ``round``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from kvgate.judge.percentile import (
    SampleTooSmallError,
    least_for_interval,
    least_sample,
    percentile,
)
from kvgate.judge.ratio import BlockRatio, Interval, interval_of
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.spec.ratio import AGAIN, LEAST_BLOCKS, RatioOf

ARM, ROUND = "arm", "round"
_PERCENTS = {"p50": 50.0, "p90": 90.0}


def of_arms(taken: Iterable[Measurement], spec: RatioOf) -> tuple[Measurement, ...]:
    """Return the measurements that a ratio uses: those of either arm, and of its A/A rounds."""
    arms = {spec.of, spec.to, spec.of + AGAIN, spec.to + AGAIN}
    return tuple(each for each in taken if each.labels.get(ARM) in arms)


def mixed(taken: Iterable[Measurement]) -> str:
    """Return which labels differ besides arm and round, so that blocks would mix unlike points."""
    seen: dict[str, set[str]] = {}
    for each in taken:
        for label, value in each.labels.items():
            seen.setdefault(label, set()).add(value)
    return ", ".join(
        sorted(label for label in seen if label not in (ARM, ROUND) and len(seen[label]) > 1)
    )


def paired(taken: Iterable[Measurement], spec: RatioOf) -> tuple[BlockRatio, ...]:
    """Return every block's log-ratio, above 0 where ``of`` is better, in the order of rounds."""
    held: dict[str, dict[str, list[Measurement]]] = {}
    for each in taken:
        if (arm := each.labels.get(ARM)) in (spec.of, spec.to):
            held.setdefault(each.labels.get(ROUND, ""), {}).setdefault(str(arm), []).append(each)
    pooled = {
        arm: len([each for arms in held.values() for each in arms.get(arm, ())])
        for arm in (spec.of, spec.to)
    }
    return tuple(_block(name, held[name], spec, pooled) for name in sorted(held, key=_by_number))


def _by_number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() and name.isascii() else (10**9, name)


def _block(
    name: str, arms: dict[str, list[Measurement]], spec: RatioOf, pooled: dict[str, int]
) -> BlockRatio:
    values = {}
    for arm in (spec.of, spec.to):
        found = _value(arms.get(arm, ()), spec.statistic, pooled[arm])
        if isinstance(found, str):
            return BlockRatio(name, None, f"{arm}: {found}")
        values[arm] = found
    log = math.log(values[spec.of]) - math.log(values[spec.to])
    return BlockRatio(name, log if spec.better == "higher" else -log)


def _value(taken: Sequence[Measurement], statistic: str, pooled: int) -> float | str:
    """Return one arm's number in a block, or why there is none."""
    if not taken:
        return "not measured"
    numbers: list[float] = []
    for each in taken:
        if not isinstance(each.value, Quantity):
            return each.problem or "no number"
        if not each.evidence:
            return "no evidence was kept for it"
        if (number := float(each.value.base)) <= 0:
            return f"{each.value} has no place in a ratio"
        numbers.append(number)
    if len({each.value.dimension for each in taken if isinstance(each.value, Quantity)}) > 1:
        return "measured in units that can't be compared"
    if statistic == "median":
        return statistics.median(numbers)
    if statistic == "mean":
        return statistics.fmean(numbers)
    return _percentile(numbers, _PERCENTS[statistic], pooled)


def _percentile(numbers: Sequence[float], p: float, pooled: int) -> float | str:
    """Return a percentile that the block's sample and that of all blocks can carry."""
    least = least_for_interval(p)
    if pooled < least:
        return f"p{p:g} of {pooled} values over all blocks; it takes {least}"
    try:
        return percentile(numbers, p)
    except SampleTooSmallError:
        return f"p{p:g} of {len(numbers)} values; it takes {least_sample(p)} in each block"


def noise_of(taken: Sequence[Measurement], spec: RatioOf) -> Interval | str:
    """Return the A/A ratio of one of the two arms against its own second run, or why none."""
    arms = {each.labels.get(ARM) for each in taken}
    again = next((arm for arm in (spec.to, spec.of) if arm + AGAIN in arms), None)
    if again is None:
        return "not measured: no A/A rounds"
    pair = spec.model_copy(update={"of": again + AGAIN, "to": again})
    blocks = paired(taken, pair)
    logs = [each.log for each in blocks if each.log is not None]
    if len(logs) < max(LEAST_BLOCKS, len(blocks)):
        return f"not known: {len(logs)} of {len(blocks)} A/A blocks have a ratio"
    return interval_of(logs)
