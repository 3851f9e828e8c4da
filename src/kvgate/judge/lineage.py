"""A run and its retests taken together: the newest finding counts, if its parts are still there.

A part that was replaced, or whose firmware changed, takes with it what was found on it and on
whatever depends on it. Nothing is changed in any run; what falls is not run, with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from kvgate.judge.gate import because_of
from kvgate.model.finding import Finding, GateResult, HostFinding, RunResult
from kvgate.model.record import ALL_HOSTS
from kvgate.model.verdict import Verdict


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One part that is not what it was: on which host, which items it takes with it, and how.

    ``whole`` is for the host itself. ``told`` says it: ``n1: disk:S1 was replaced by disk:S2``.
    """

    host: str
    items: frozenset[str] = frozenset()
    whole: bool = False
    told: str

    def touches(self, host: str, item: str) -> bool:
        """Tell whether what was found at that place depends on this part.

        What names another item of the same host stays. What names the item, the host as a whole,
        or all hosts together falls.
        """
        if host not in (self.host, ALL_HOSTS):
            return False
        return self.whole or not item or item in self.items or host == ALL_HOSTS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One run of a lineage: its result, what it repeated (empty: the first), what changed since.

    ``soaked`` are gates that are one long measurement: any change takes all of them. ``by_people``
    are manual checks: they are of the delivery, and a part that came later has its own papers.
    """

    result: RunResult
    again: tuple[str, ...] = ()
    changed_since: tuple[Change, ...] = ()
    soaked: frozenset[str] = frozenset()
    by_people: frozenset[str] = frozenset()


def reach(items: Iterable[str], edges: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Return `items` and all that depends on them by `edges` (item → what depends on it)."""
    found: set[str] = set()
    waiting = list(items)
    while waiting:
        item = waiting.pop()
        if item not in found:
            found.add(item)
            waiting += edges.get(item, ())
    return frozenset(found)


def merge(tested: Sequence[Tested]) -> tuple[RunResult, dict[str, str]]:
    """Return what a lineage, the first run first, has found, and criterion → the run that did.

    The result is called by the newest run. What a retest repeated counts from it alone, better or
    worse than before.
    """
    newest: dict[str, tuple[Finding, Tested]] = {}
    for each in tested:
        for gate in each.result.gates:
            for finding in gate.findings:
                if not each.again or finding.criterion in each.again:
                    newest[finding.criterion] = (finding, each)
    gates = tuple(_gate(gate, newest) for gate in tested[0].result.gates)
    result = dataclasses.replace(
        tested[-1].result, gates=gates, verdict=Verdict.worst(gate.verdict for gate in gates)
    )
    return result, {id_: each.result.run for id_, (_, each) in newest.items()}


def _gate(gate: GateResult, newest: Mapping[str, tuple[Finding, Tested]]) -> GateResult:
    findings = tuple(_standing(*newest[finding.criterion]) for finding in gate.findings)
    verdict = Verdict.worst(finding.verdict for finding in findings)
    because = because_of(verdict, findings, len(gate.scoped_out))
    return dataclasses.replace(gate, verdict=verdict, because=because, findings=findings)


def _standing(finding: Finding, tested: Tested) -> Finding:
    """Return `finding` with what fell of it: the places that depend on a part that changed."""
    if not tested.changed_since or finding.criterion in tested.by_people:
        return finding
    soaked = finding.criterion.partition(".")[0] in tested.soaked
    fallen = {}
    for host in finding.hosts:
        for change in tested.changed_since:
            if soaked or change.touches(host.host, host.item):
                fallen[host.host, host.item] = change
                break
    if not fallen:
        return finding
    hosts = tuple(_fallen(h, fallen.get((h.host, h.item)), tested) for h in finding.hosts)
    first = next(h for h in hosts if (h.host, h.item) in fallen)
    worst = Verdict.worst(h.verdict for h in hosts)
    return dataclasses.replace(
        finding,
        verdict=worst,
        because=first.because
        if worst is Verdict.NOT_RUN
        else f"{finding.because}; {first.because}",
        marginal=False,
        hosts=hosts,
        hint="kvgate retest",
    )


def _fallen(host: HostFinding, change: Change | None, tested: Tested) -> HostFinding:
    if change is None:
        return host
    because = f"{change.told} after run {tested.result.run} measured it: test it again"
    return dataclasses.replace(host, verdict=Verdict.NOT_RUN, because=because, marginal=False)
