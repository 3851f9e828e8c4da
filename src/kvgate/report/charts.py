"""Which charts a gate has: chosen by what was measured, and said where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Iterator

from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.report import bars, ratios, soak, strips
from kvgate.report.series import grouped
from kvgate.report.sources import Sources
from kvgate.report.views import Chart

_FIO = (
    ("fio.read_bw", "fio read bandwidth by job"),
    ("fio.write_bw", "fio write bandwidth by job"),
    ("fio.read_clat_p99", "fio read completion latency by job, p99"),
)
_CEILINGS = {"fio.read_bw": "path.read_ceiling", "fio.write_bw": "path.write_ceiling"}
_KV = (
    ("g3.ttft", "Time to first token by arm and concurrency"),
    ("g3.throughput", "Throughput by arm and concurrency"),
)


def of_gate(gate: str, sources: Sources) -> tuple[Chart, ...]:
    """Return the charts of one gate; a gate without a kind of chart has none."""
    found = {"G2": _fio, "G3": _kv, "G4": _soak}.get(gate)
    return tuple(found(gate, sources)) if found else ()


def _fio(gate: str, sources: Sources) -> Iterator[Chart]:
    several = len({each.host for each in sources.measurements if each.name.startswith("fio.")}) > 1
    for measure, title in _FIO:
        name = _name(gate, measure)
        data = grouped(
            _in_gate(gate, sources), measure, *(("job", "host") if several else ("job",))
        )
        if not data.groups:
            yield _none(name, title, measure, data.missing)
            continue
        rounds = max(len(group.rounds) for group in data.groups)
        what = f"median of {rounds} rounds" if rounds > 1 else "the one round"
        bounds = _bounds(gate, measure, sources)
        most = _ceilings(gate, measure, sources)
        yield bars.draw(name, title, data, bounds, what=what, ceilings=most)
    yield from _ratios(gate, sources)


def _ceilings(gate: str, measure: str, sources: Sources) -> bars.Ceilings | None:
    """Return what the paths can carry, of a bandwidth; None where a run did not ask for it."""
    name = _CEILINGS.get(measure)
    taken = [each for each in _in_gate(gate, sources) if each.name == name]
    if not taken:
        return None
    known: dict[str, float] = {}
    for each in taken:
        if isinstance(each.value, Quantity) and each.value.base > 0:
            rate = float(each.value.base)
            known[each.host] = min(rate, known.get(each.host, rate))
    unknown = {each.host: each.problem for each in taken if each.host not in known}
    hosts = {each.host for each in taken}
    return bars.Ceilings(known, unknown, hosts.pop() if len(hosts) == 1 else "")


def _kv(gate: str, sources: Sources) -> Iterator[Chart]:
    for measure, title in _KV:
        name = _name(gate, measure)
        data = grouped(_in_gate(gate, sources), measure, "arm", "concurrency")
        if data.groups:
            yield strips.draw(name, title, data)
        else:
            yield _none(name, title, measure, data.missing)
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
