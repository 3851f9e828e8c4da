"""The hosts of a run: roles, the way to them, their serial numbers, and what they reported."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from kvgate.model.record import Measurement
from kvgate.model.verdict import Verdict
from kvgate.report import crowd, show
from kvgate.report.show import Shown
from kvgate.report.sources import Sources
from kvgate.report.views import Fact, FactRow, HostView, Look
from kvgate.spec.inventory import Host

_KEY_FACTS = (
    ("os.pretty_name", "System"),
    ("os.id", "System"),
    ("os.version", "Version"),
    ("kernel.release", "Kernel"),
    ("cpu.model", "CPU"),
    ("cpu.threads", "Threads"),
    ("memory.size", "Memory"),
    ("numa.nodes", "NUMA nodes"),
    ("gpu.count", "GPUs"),
    ("clock.offset", "Clock offset"),
)
"""Measures that stand at the top of a host, where it has them; all others follow in its table."""

_PHASE = "inspection"


def views(sources: Sources) -> tuple[HostView, ...]:
    """Return the inventory's hosts, asked or not, in its order; of very many those to look at.

    These are the ones of which most did not pass.
    """
    facts: dict[str, list[Measurement]] = {}
    for each in sources.measurements:
        if each.phase == _PHASE and not each.labels:
            facts.setdefault(each.host, []).append(each)
    identities, told = _identities(sources), _told(sources)
    return tuple(
        _view(host, facts.get(name, []), identities.get(name, {}))
        for name, host in sources.setup.inventory.value.hosts.items()
        if name in told
    )


def note(sources: Sources) -> str:
    """Return which hosts are not on the page, and where they stand; empty where all are on it."""
    count = len(sources.setup.inventory.value.hosts)
    if count <= crowd.HOSTS_TOLD:
        return ""
    return (
        f"{crowd.HOSTS_TOLD} of {count:,} hosts, those of which most did not pass. What the others "
        "told is in measurements.jsonl and the evidence of the run's folder."
    )


def _told(sources: Sources) -> frozenset[str]:
    """Return the hosts that stand on the page."""
    names = list(sources.setup.inventory.value.hosts)
    if len(names) <= crowd.HOSTS_TOLD:
        return frozenset(names)
    found = collections.Counter(
        place.host
        for gate in sources.result.gates
        for finding in gate.findings
        for place in finding.hosts
        if place.verdict is not Verdict.PASS
    )
    names.sort(key=lambda name: -found[name])  # stable
    return frozenset(names[: crowd.HOSTS_TOLD])


def _identities(sources: Sources) -> dict[str, dict[str, Any]]:
    """Return the last `identity` event of every host."""
    return {
        str(event.fields.get("host")): dict(event.fields)
        for event in sources.events
        if event.kind == "identity"
    }


def _view(host: Host, facts: list[Measurement], identity: dict[str, Any]) -> HostView:
    latest = {(each.name, each.item): each for each in facts}
    top = tuple(
        Fact(label, shown.text, Look.PLAIN, shown.exact)
        for name, label in _KEY_FACTS
        if (each := latest.get((name, ""))) is not None and (shown := _shown(each)).text
    )
    return HostView(
        name=host.name,
        roles=", ".join(host.roles),
        way=_way(host),
        serials=tuple(_serials(identity)),
        key_facts=top,
        facts=tuple(
            FactRow(name, item, _shown(each)) for (name, item), each in sorted(latest.items())
        ),
    )


def _shown(each: Measurement) -> Shown:
    if each.value is None:
        return Shown(f"not available: {each.problem}")
    return show.value(each.value)


def _way(host: Host) -> str:
    if host.transport == "local":
        return "local"
    if host.transport == "recorded":
        return f"{'simulated, ' if host.simulated else ''}recorded ({host.recording})"
    made_up = "simulated: " if host.simulated else ""
    jump = f" by way of {host.jump}" if host.jump else ""
    port = "" if host.port == 22 else f" port {host.port}"
    return f"{made_up}{host.transport} to {host.address}{port}{jump}"


def _serials(identity: dict[str, Any]) -> Iterator[Fact]:
    """Yield the serial numbers a host gave for itself: a list, or by what they are of."""
    serials = identity.get("serials")
    if isinstance(serials, dict):
        for label, serial in serials.items():
            yield Fact(str(label), str(serial), Look.CODE)
    elif isinstance(serials, list | tuple):
        for serial in serials:
            yield Fact("Serial", str(serial), Look.CODE)
    if problem := identity.get("problem"):
        yield Fact("Not identified", str(problem))
    elif not serials:
        yield Fact("Serial", "none reported" if identity else "the host was not asked")
