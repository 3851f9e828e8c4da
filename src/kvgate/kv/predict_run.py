"""What a site's measured bandwidths come to for a model: from a run's folder, with intervals.

Nothing is made up: an arm that was not measured is named as missing, and what no storage test
can measure (prefill rate, decode, overhead) is an assumption with its source.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from kvgate.errors import KvgateError
from kvgate.judge.student import t_above
from kvgate.kv.predict import RECOMPUTE, Outcome, Parameters, Work, most_within, predict, saturation
from kvgate.kv.predict_fit import Fitted
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.spec.inventory import Inventory
from kvgate.spec.load import inventory_of
from kvgate.spec.plan import REHEARSED
from kvgate.spec.ratio import AGAIN
from kvgate.spec.yamlfile import parse
from kvgate.store.reader import RunReader

JOB = "kv-restore"
"""The fio job whose reads are those of a cold restore: whole chunks, a process a rank, O_DIRECT."""

NAMES = ("arms.read_bw", "fio.read_bw")
"""Measurements of bandwidth: of the arm in their label, or of the storage under test."""

_DIRECT = ("arms.direct", "fio.direct")

TAIL = 0.025
LEAST_ROUNDS = 2


class NotMeasuredError(KvgateError):
    """A run holds no bandwidth that anything could be predicted from."""

    exit_code = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Bandwidth:
    """What one arm of one host read a second, over rounds: B/s and its 95 % interval, if any."""

    host: str
    arm: str
    rounds: tuple[float, ...]
    middle: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """What a run holds: bandwidths, what is missing and why, and why it is no acceptance."""

    run: str
    mark: str
    bandwidths: tuple[Bandwidth, ...]
    missing: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One concurrency: what the arm does at its measured bandwidth, and at the interval's ends."""

    concurrency: int
    middle: Outcome
    slow: Outcome | None
    fast: Outcome | None


@dataclasses.dataclass(frozen=True, slots=True)
class Forecast:
    """One arm of one host (recompute: of any): its points, where it saturates, what keeps a limit.

    Of three concurrencies the first is at the measured bandwidth, then the interval's ends.
    """

    host: str
    arm: str
    bandwidth: Bandwidth | None
    points: tuple[Point, ...]
    saturates: tuple[int, ...]
    within_limit: tuple[int, ...]


def measured(reader: RunReader) -> Measured:
    """Return the restore bandwidths of a run; raises NotMeasuredError where there is none."""
    inventory = inventory_of(parse(reader.input("inventory.yaml"), "inputs/inventory.yaml")).value
    of_job = [each for each in reader.measurements() if each.labels.get("job") == JOB]
    taken = [each for each in of_job if each.name in NAMES and _is_first(each)]
    cached = {(m.host, _arm(m)) for m in of_job if m.name in _DIRECT and m.value is False}
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for each in taken:
        groups.setdefault((each.host, _arm(each)), []).append(each)
    found, missing = [], []
    for (host, arm), values in sorted(groups.items()):
        rates = [float(v.value.base) for v in values if isinstance(v.value, Quantity)]
        if (host, arm) in cached:
            missing.append(f"{host}, arm {arm}: {JOB} did not pass the page cache (O_DIRECT)")
        elif rates and min(rates) > 0:
            found.append(_bandwidth(host, arm, rates))
        else:
            why = next((v.problem for v in values if v.problem), "it is 0")
            missing.append(f"{host}, arm {arm}: no bandwidth of {JOB}: {why}")
    missing += _absent(inventory, found)
    run = str(reader.manifest["run"])
    if not found:
        raise NotMeasuredError(
            f"run {run}: nothing to predict from: {'; '.join(missing)}",
            hint=f"run G2 with '{JOB}' in workloads.fio_arms.jobs, arms local and device, several "
            "rounds",
        )
    return Measured(run, _mark(reader, inventory), tuple(found), tuple(missing))


def _arm(taken: Measurement) -> str:
    """Return the arm that a measurement is of: its label, else the storage under test."""
    return taken.labels.get("arm", "storage")


def _is_first(taken: Measurement) -> bool:
    """Tell whether it is of an arm's own run, not of its second one beside it (A/A)."""
    return not taken.labels.get("arm", "").endswith(AGAIN)


def _absent(inventory: Inventory, found: Sequence[Bandwidth]) -> Iterator[str]:
    """Yield what each serving host lacks to compare the arms, and where there is no interval."""
    for host in inventory.with_role("serving"):
        arms = {each.arm for each in found if each.host == host.name}
        for arm in ("local", "device"):
            if arm not in arms:
                yield f"{host.name}: arms.read_bw of job {JOB} on arm {arm} was not measured (G2)"
    for each in found:
        if each.low is None:
            yield f"{each.host}, arm {each.arm}: one round: no interval ({LEAST_ROUNDS} or more)"


def _bandwidth(host: str, arm: str, rates: Sequence[float]) -> Bandwidth:
    """Return the geometric mean over rounds, and Student's interval of its logarithm."""
    logs = [math.log(rate) for rate in rates]
    middle = statistics.fmean(logs)
    if len(logs) < LEAST_ROUNDS:
        return Bandwidth(host, arm, tuple(rates), math.exp(middle), None, None)
    wide = t_above(TAIL, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Bandwidth(
        host, arm, tuple(rates), math.exp(middle), math.exp(middle - wide), math.exp(middle + wide)
    )


def _mark(reader: RunReader, inventory: Inventory) -> str:
    """Return why what was measured there is no site's figure; empty where it may be one."""
    if inventory.recorded:
        return "RECORDED hosts: these bandwidths were not measured now"
    if reader.manifest["profile"] in REHEARSED:
        return "REHEARSAL: bandwidths of a rehearsal's storage, not of a site's"
    return "SIMULATED DEVICES: these are not a site's bandwidths" if inventory.simulated else ""


def forecasts(
    found: Measured,
    work: Work,
    parameters: Parameters,
    *,
    concurrencies: Iterable[int],
    limit_s: float | None = None,
    figure: str = "ttft_p90",
) -> tuple[Forecast, ...]:
    """Return what `work` comes to on each measured arm, and when computed, at `concurrencies`.

    With `limit_s` also the highest concurrency whose `figure` keeps it.
    """
    levels = tuple(concurrencies)
    rates: list[Bandwidth | None] = [*found.bandwidths, None]
    made = []
    for each in rates:
        ends = _ends(each)
        within = (
            tuple(most_within(work, parameters, b, limit_s=limit_s, figure=figure) for b in ends)
            if limit_s is not None
            else ()
        )
        made.append(
            Forecast(
                host=each.host if each else "",
                arm=each.arm if each else RECOMPUTE,
                bandwidth=each,
                points=tuple(_point(work, parameters, c, ends) for c in levels),
                saturates=tuple(saturation(work, parameters, b) for b in ends),
                within_limit=within,
            )
        )
    return tuple(made)


def _ends(bandwidth: Bandwidth | None) -> tuple[float | None, ...]:
    """Return the bandwidth and, where there is an interval, its low and high end."""
    if bandwidth is None:
        return (None,)
    if bandwidth.low is None or bandwidth.high is None:
        return (bandwidth.middle,)
    return bandwidth.middle, bandwidth.low, bandwidth.high


def _point(
    work: Work, parameters: Parameters, concurrency: int, ends: tuple[float | None, ...]
) -> Point:
    outcomes = [predict(work, parameters, concurrency, each) for each in ends]
    slow, fast = (outcomes[1], outcomes[2]) if len(outcomes) == 3 else (None, None)
    return Point(concurrency, outcomes[0], slow, fast)


def assumed(fitted: Fitted, report: str) -> dict[str, float]:
    """Return each assumed parameter by name; raises NotMeasuredError for one that is not told."""
    names = [field.name for field in dataclasses.fields(Parameters)]
    if lacking := [name for name in names if name in fitted.unfitted]:
        raise NotMeasuredError(
            f"report {report} tells nothing of {', '.join(lacking)}",
            hint="assume another report's figures, e.g. --assume R2",
        )
    return {name: fitted.values[name] for name in names}
