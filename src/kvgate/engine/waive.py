"""Drafts a waiver from what a run found: the failed places and their units are filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvgate.engine.lineage import Lineage, lineage
from kvgate.errors import UsageError
from kvgate.model.finding import Finding
from kvgate.model.record import ALL_HOSTS
from kvgate.model.verdict import Verdict
from kvgate.spec.load import nearest

_BEST = ("product", "machine-id", "disk", "mac")
"""What a unit is named by, the best first: what stands on its type plate."""


def from_finding(run: Path, criterion: str, scope: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the fields of a waiver that the run tells: run, criterion, finding and scope.

    Without a `scope` it names every place that failed, each with a serial number where the host
    told one. Raises UsageError where the criterion was not judged, or did not fail.
    """
    found = lineage(run)
    finding = _finding(found, criterion)
    if finding.verdict is not Verdict.FAIL:
        raise UsageError(
            f"{criterion} is {finding.verdict} in {run.name}: only what is known to have failed "
            "can be accepted",
            hint=f"kvgate status {run.name} says what to do about it",
        )
    places = [dict(each) for each in scope] or [
        {"host": host.host, **({"item": host.item} if host.item else {})}
        for host in finding.hosts
        if host.verdict is Verdict.FAIL and (host.host, host.item) != (ALL_HOSTS, "")
    ]
    for place in places:
        known = found.serials.get(place["host"], ())
        if known and "serial" not in place:
            place["serial"] = _best(known)
    return {
        "criterion": criterion,
        "run": str(found.runs[-1].manifest["run"]),
        "finding": finding.because,
        "scope": places,
    }


def _finding(found: Lineage, criterion: str) -> Finding:
    every = {each.criterion: each for gate in found.result.gates for each in gate.findings}
    if criterion not in every:
        failed = [id_ for id_, each in every.items() if each.verdict is Verdict.FAIL]
        raise UsageError(f"{criterion} was not judged in this run{nearest(criterion, failed)}")
    return every[criterion]


def _best(known: Sequence[str]) -> str:
    """Return the serial number that people would name the unit by."""
    kinds = [each.partition(":")[0] for each in known]
    best = next((kind for kind in _BEST if kind in kinds), kinds[0])
    return known[kinds.index(best)]
