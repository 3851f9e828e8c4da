"""Which charts a gate has: chosen by what was measured, and said where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.report import bars, failover, heat, latency, ratios, replayed, soak, strips
from kvgate.report.series import Grouped, grouped
from kvgate.report.sources import Sources
from kvgate.report.views import Chart

_FIO = (
    ("fio.read_bw", "fio read bandwidth by job"),
    ("fio.write_bw", "fio write bandwidth by job"),
    ("fio.read_clat_p99", "fio read completion latency by job, p99"),
)
_ARMS = (
    ("arms.read_bw", "Read bandwidth by job and arm"),
    ("arms.write_bw", "Write bandwidth by job and arm"),
)
_FABRIC = (
    ("nvmeof.path_share", "Share of the reads that each path carried", ("item", "host")),
    ("perftest.rate", "RDMA between pairs, alone and together", ("item", "direction", "tool")),
)
_CEILINGS = {"read_bw": "path.read_ceiling", "write_bw": "path.write_ceiling"}
_KV = (
    ("g3.ttft", "Time to first token by arm and concurrency"),
    ("g3.throughput", "Throughput by arm and concurrency"),
)


def of_gate(gate: str, sources: Sources) -> tuple[Chart, ...]:
    """Return the charts of one gate; a gate without a kind of chart has none."""
    found = {"G2": _fio, "G3": _kv, "G4": _soak}.get(gate)
    return tuple(found(gate, sources)) if found else ()


def _fio(gate: str, sources: Sources) -> Iterator[Chart]:
    taken = tuple(_in_gate(gate, sources))
    jobs = [each for each in taken if "job" in each.labels]
    several = len({each.host for each in jobs if each.name.startswith("fio.")}) > 1
    for measure, title in _FIO:
        data = grouped(jobs, measure, *(("job", "host") if several else ("job",)))
        if data.groups:
            most = _ceilings(measure, taken, ("host",) if several else ())
            yield _bars(gate, measure, title, data, sources, most)
        else:
            yield _none(_name(gate, measure), title, measure, data.missing)
    for measure, title in _ARMS:
        labels = ("arm", "host") if several else ("arm",)
        data = grouped(jobs, measure, "job", *labels)
        if data.groups:
            most = _ceilings(measure, taken, labels)
            yield _bars(gate, measure, title, data, sources, most)
    yield from _ratios(gate, sources)
    if drawn := latency.chart(gate, jobs, sources):
        yield drawn
    yield from heat.charts(gate, taken, _by_host(taken))
    yield from _fabric(gate, taken)
    yield from failover.charts(gate, sources.measurements, sources)


def _fabric(gate: str, taken: Iterable[Measurement]) -> Iterator[Chart]:
    """Yield what each path and each pair carried, where a run measured it."""
    for measure, title, labels in _FABRIC:
        data = grouped(taken, measure, *labels)
        if data.groups:
            name, what = _name(gate, measure), "the one run"
            yield bars.draw(name, title, data, {}, what=what, column="Path")


def _bars(
    gate: str,
    measure: str,
    title: str,
    data: Grouped,
    sources: Sources,
    most: bars.Ceilings | None,
) -> Chart:
    name, bounds = _name(gate, measure), _bounds(gate, measure, sources)
    return bars.draw(name, title, data, bounds, what=data.rounds, ceilings=most)


def _ceilings(
    measure: str, taken: Iterable[Measurement], labels: tuple[str, ...]
) -> bars.Ceilings | None:
    """Return what the paths can carry, of a bandwidth, by `labels` (``host`` is one, or ``arm``).

    None where a run did not ask for it.
    """
    name = _CEILINGS.get(measure.partition(".")[2])
    found = [
        each for each in taken if each.name == name and ("arm" in each.labels) == ("arm" in labels)
    ]
    if not found:
        return None
    known: dict[str, float] = {}
    for each in found:
        if isinstance(each.value, Quantity) and each.value.base > 0:
            path, rate = _path(each, labels), float(each.value.base)
            known[path] = min(rate, known.get(path, rate))
    problems = {_path(each, labels): each.problem for each in found}
    unknown = {path: why for path, why in problems.items() if path not in known}
    paths = {*known, *unknown}
    return bars.Ceilings(known, unknown, paths.pop() if not labels and len(paths) == 1 else "")


def _path(each: Measurement, labels: tuple[str, ...]) -> str:
    """Return how bars name a path: by the values of `labels`, else by its host."""
    named = [each.host if label == "host" else each.labels.get(label, "") for label in labels]
    return " on ".join(named) or each.host


def _by_host(taken: Iterable[Measurement]) -> dict[str, float]:
    """Return ceilings by measure and host, as sweeps look for them: ``fio.read_bw/ini1``."""
    some = tuple(taken)
    return {
        f"fio.{figure}/{host}": rate
        for figure in _CEILINGS
        if (most := _ceilings(f"fio.{figure}", some, ("host",)))
        for host, rate in most.known.items()
    }


def _kv(gate: str, sources: Sources) -> Iterator[Chart]:
    for measure, title in _KV:
        name = _name(gate, measure)
        data = grouped(_in_gate(gate, sources), measure, "arm", "concurrency")
        if data.groups:
            yield strips.draw(name, title, data)
        else:
            yield _none(name, title, measure, data.missing)
    taken = tuple(_in_gate(gate, sources))
    most = _ceilings("replay.read_bw", sources.measurements, replayed.by_path(taken))
    yield from replayed.charts(gate, taken, most)
    yield from _ratios(gate, sources)


def _ratios(gate: str, sources: Sources) -> Iterator[Chart]:
    """Yield the chart of arms compared, where criteria of the gate compare any."""
    found = [each.findings for each in sources.result.gates if each.gate == gate]
    if drawn := ratios.chart(gate, (each for part in found for each in part), sources):
        yield drawn


def _soak(gate: str, sources: Sources) -> Iterator[Chart]:
    yield soak.chart(gate, sources) or _none(f"{gate.lower()}-soak", "Soak over time", "soak.*", 0)


def _in_gate(gate: str, sources: Sources) -> Iterator[Measurement]:
    """Yield what was measured in steady state, but for blocks of another gate (``G3/…``)."""
    for each in sources.measurements:
        owner = each.block.partition("/")[0]
        ours = owner not in sources.setup.gates or owner == gate
        if ours and each.phase == "steady_state":
            yield each


def _none(name: str, title: str, measure: str, missing: int) -> Chart:
    why = (
        f"{missing} measurement{'s' if missing != 1 else ''} of {measure} without a value"
        if missing
        else f"no measurement of {measure} in this run"
    )
    return Chart(name, title, f"Nothing to draw: {why}.", None)


def _name(gate: str, measure: str) -> str:
    return f"{gate}-{measure}".lower().replace(".", "-").replace("_", "-")


def _bounds(gate: str, measure: str, sources: Sources) -> dict[str, bars.Bound]:
    """Return the limits of this run's profile on `measure`, by the job that they name."""
    found: dict[str, bars.Bound] = {}
    spec = sources.gate(gate)
    for criterion in spec.criteria if spec else ():
        job, limit = criterion.where.get("job"), criterion.limits.get(sources.result.profile)
        if criterion.measure != measure or job is None or limit is None:
            continue
        bound: Quantity | None = limit.at_least or limit.at_most
        if bound is not None:
            sign = "≥" if limit.at_least else "≤"
            found[job] = bars.Bound(bound, f"limit {sign} {bound}")
    return found
