"""What did not pass, in one glance: hosts by areas of what was judged, and troubles by host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kvgate.model.finding import GateResult
from kvgate.model.verdict import Verdict
from kvgate.report.findings import host_name
from kvgate.report.sources import Sources
from kvgate.report.views import MARKS, Glance, GlanceCell, GlanceRow, Trouble, TroublesOf

AREAS: Mapping[str, tuple[str, ...]] = {
    "Software": ("os", "kernel", "tool", "rocm"),
    "Set-up, clock": ("host", "iommu", "time", "clock"),
    "CPU, memory": ("cpu", "memory", "numa"),
    "Drives": ("disk", "nvme"),
    "GPUs": ("gpu", "card", "diagnostic"),
    "PCIe": ("pcie",),
    "Network": ("nic", "rdma"),
    "Kernel log": ("log",),
    "Order": ("part", "parts"),
    "Device": ("array", "switch", "bmc"),
    "By people": ("manual",),
}
"""Columns, and the first words of the measures that belong there."""

_OTHER = "Other"
_MOST_ROWS = 24
_ENOUGH = 20  # criteria of a gate from which on a table tells more than the list below it
_GROUPED_BEYOND = 8  # troubles


def tables(sources: Sources) -> tuple[Glance, ...]:
    """Return a table for each gate of many criteria on several hosts, the worst hosts first."""
    return tuple(
        table
        for gate in sources.result.gates
        if len(gate.findings) >= _ENOUGH and (table := _table(gate, sources)) is not None
    )


def _table(gate: GateResult, sources: Sources) -> Glance | None:
    found: dict[str, dict[str, list[Verdict]]] = {}
    for finding in gate.findings:
        criterion = sources.criterion(finding.criterion)
        area = _area(criterion.measure if criterion else "")
        on: dict[str, list[Verdict]] = {}
        for place in finding.hosts:
            on.setdefault(place.host, []).append(place.verdict)
        for host, verdicts in on.items():
            found.setdefault(host, {}).setdefault(area, []).append(Verdict.worst(verdicts))
    if len(found) < 2:
        return None
    known = [*AREAS, _OTHER]
    areas = [area for area in known if any(area in told for told in found.values())]
    rows = sorted((_row(host, found[host], areas) for host in _in_order(found, sources)), key=_good)
    more = rows[_MOST_ROWS:]
    note = f"{len(more)} more hosts, of which none is worse than these." if more else ""
    return Glance(gate.gate, tuple(areas), tuple(rows[:_MOST_ROWS]), note)


def _area(measure: str) -> str:
    word = measure.partition(".")[0]
    return next((area for area, words in AREAS.items() if word in words), _OTHER)


def _in_order(hosts: Iterable[str], sources: Sources) -> list[str]:
    order = {name: number for number, name in enumerate(sources.setup.inventory.value.hosts)}
    return sorted(hosts, key=lambda host: order.get(host, len(order)))


def _row(host: str, told: Mapping[str, list[Verdict]], areas: Iterable[str]) -> GlanceRow:
    every = [verdict for verdicts in told.values() for verdict in verdicts]
    return GlanceRow(
        host=host_name(host),
        mark=MARKS[Verdict.worst(every)],
        failed=sum(verdict is Verdict.FAIL for verdict in every),
        judged=len(every),
        cells=tuple(_cell(area, told.get(area, [])) for area in areas),
    )


def _cell(area: str, verdicts: list[Verdict]) -> GlanceCell:
    if not verdicts:
        return GlanceCell(area, None, "", "not judged here")
    worst = Verdict.worst(verdicts)
    count = sum(verdict is worst for verdict in verdicts)
    title = f"{count} of {len(verdicts)}: {MARKS[worst].word.lower()}"
    return GlanceCell(area, MARKS[worst], "" if worst is Verdict.PASS else str(count), title)


def _good(row: GlanceRow) -> tuple[int, int]:
    mildest_first = [MARKS[verdict].key for verdict in Verdict]
    return -mildest_first.index(row.mark.key), -row.failed


def by_host(troubles: Iterable[Trouble], sources: Sources) -> tuple[TroublesOf, ...]:
    """Return troubles with those of one host together; few ones as one list without a name."""
    listed = tuple(troubles)
    if len(listed) <= _GROUPED_BEYOND:
        return (TroublesOf("", listed),) if listed else ()
    return tuple(_groups(listed, sources))


def _groups(listed: tuple[Trouble, ...], sources: Sources) -> Iterator[TroublesOf]:
    names = [host_name(host) for host in sources.setup.inventory.value.hosts]
    found: dict[str, list[Trouble]] = {}
    for each in listed:
        found.setdefault(each.host if each.host in names else "", []).append(each)
    worst_first = sorted(
        (name for name in names if name in found), key=lambda name: -len(found[name])
    )
    for name in worst_first:
        yield TroublesOf(name, tuple(found[name]))
    if "" in found:
        yield TroublesOf("Several hosts, or none", tuple(found[""]))
