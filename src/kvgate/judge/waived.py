"""Whether one waiver holds against one finding; where it does not, every reason why.

A waiver that is expired, unsigned, one-sided, over-wide, for another unit or for something that
didn't fail has no effect. Signatures are checked before: what comes here says if they are good.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterator, Mapping

from kvgate.model.disposed import Effect, Signed
from kvgate.model.finding import Finding, HostFinding
from kvgate.model.record import ALL_HOSTS
from kvgate.model.verdict import Verdict
from kvgate.spec.waiver import APPROVERS, Scope, Waiver


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A waiver with the SHA-256 of its file and the approvals that were found for it."""

    waiver: Waiver
    sha256: str
    signed: tuple[Signed, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What a waiver is held against beside the finding; times are UTC."""

    severity: str  # of the criterion: A, B or C
    serials: Mapping[str, tuple[str, ...]]  # host → what it is known by
    began: datetime.datetime
    at: datetime.datetime


def concerns(waiver: Waiver, gates: Collection[str], runs: Collection[str]) -> bool:
    """Tell whether `waiver` speaks of one of these runs, or is a deviation for their gates."""
    return waiver.criterion.partition(".")[0] in gates and (
        waiver.run is None or waiver.run in runs
    )


def effect(granted: Granted, finding: Finding | None, where: Where) -> Effect:
    """Return what the waiver does about `finding` (None: its criterion was not judged)."""
    waiver = granted.waiver
    reasons = list(_reasons(granted, finding, where))
    named = _named(waiver, finding) if finding else ()
    places = tuple(told_place(each.host, each.item) for each in named)
    holds = not reasons
    return Effect(
        waiver=waiver.waiver,
        kind=waiver.kind,
        criterion=waiver.criterion,
        sha256=granted.sha256,
        holds=holds,
        because="; ".join(reasons) if reasons else f"holds until {waiver.expires}",
        owner=waiver.owner,
        until=waiver.expires,
        places=places if holds else (),
        signed=granted.signed,
    )


def told_place(host: str, item: str) -> str:
    """Return a place as people read it: ``gpu-1``, ``gpu-1 (disk7)``, ``all hosts together``."""
    named = "all hosts together" if host == ALL_HOSTS else host
    return f"{named} ({item})" if item else named


def is_known_by(serial: str, known: Collection[str]) -> bool:
    """Tell whether `serial` is among what a host is known by (``product:S1``, or ``S1`` alone)."""
    return any(serial in (each, each.partition(":")[2]) for each in known)


def _reasons(granted: Granted, finding: Finding | None, where: Where) -> Iterator[str]:
    """Yield every reason why the waiver has no effect; none where it holds."""
    waiver = granted.waiver
    if "." not in waiver.criterion:
        yield f"over-wide: it names the whole gate {waiver.criterion}; name one criterion"
    elif finding is None:
        yield f"{waiver.criterion} was not judged in this run"
    elif finding.verdict is Verdict.PASS:
        yield f"{waiver.criterion} passes: there is nothing to accept"
    elif finding.verdict is not Verdict.FAIL:
        yield (
            f"{waiver.criterion} is {finding.verdict}: only what is known to have failed can be "
            "accepted; test it again"
        )
    else:
        yield from _out_of_scope(waiver, finding, where.serials)
    if waiver.kind != "open_item":
        yield from _unsigned(granted, where)
    elif where.severity == "A":
        yield f"{waiver.criterion} is class A, which blocks: an open item can't carry it"
    if where.at >= waiver.ends:
        yield f"expired on {waiver.expires}"


def _out_of_scope(
    waiver: Waiver, finding: Finding, serials: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """Yield where the waiver says less than the criterion does of places, or something else."""
    apart = [h for h in finding.hosts if (h.host, h.item) != (ALL_HOSTS, "")]
    if not waiver.scope:
        if apart:
            yield (
                f"over-wide: {waiver.criterion} is judged in {len(finding.hosts)} places, and it "
                f"names none of them; name those that failed, such as {_first_failed(finding)}"
            )
        return
    for scope in waiver.scope:
        covered = [h for h in finding.hosts if _speaks_of(scope, h)]
        if not covered:
            items = [h for h in finding.hosts if h.host == scope.host and h.item]
            if items and scope.item is None:
                yield f"over-wide: name the item on {scope.host}, such as {items[0].item}"
            else:
                place = told_place(scope.host, scope.item or "")
                yield f"{waiver.criterion} does not cover {place}"
        else:
            yield from _other_unit(scope, serials)


def _other_unit(scope: Scope, serials: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    known = serials.get(scope.host, ())
    if scope.serial is None:
        if known and not (scope.item and is_known_by(scope.item, known)):
            yield (
                f"over-wide: it names no serial number of {scope.host}, so that it would outlive "
                f"the unit; known: {', '.join(known[:4])}"
            )
    elif not is_known_by(scope.serial, known):
        yield f"{scope.host} is not the unit it is for: {scope.serial} is not among what it told"


def _unsigned(granted: Granted, where: Where) -> Iterator[str]:
    """Yield what is wrong with the approvals: both parties, two people, in time."""
    good = {each.role: each for each in granted.signed if not each.problem}
    missing = [role for role in APPROVERS if role not in good]
    for each in granted.signed:
        if each.problem and each.role in missing:
            yield f"the {each.role}'s signature does not count: {each.problem}"
    told = {each.role for each in granted.signed}
    absent = [role for role in missing if role not in told]
    if len(absent) == len(APPROVERS):
        yield "unsigned: neither party has approved it"
    elif absent:
        yield f"one-sided: the {absent[0]} has not approved it"
    people = {each.principal for each in good.values()}
    if len(good) == len(APPROVERS) and len(people) == 1:
        yield f"one-sided: {people.pop()} signed for both parties"
    for each in good.values():
        if each.at > where.at:
            yield f"the {each.role} claims to have signed it at {each.at:%Y-%m-%d %H:%M} UTC, later"
        elif granted.waiver.kind == "deviation" and each.at > where.began:
            yield (
                f"the {each.role} signed it at {each.at:%Y-%m-%d %H:%M} UTC, after the run began: "
                "what is known afterwards takes a waiver"
            )


def _speaks_of(scope: Scope, host: HostFinding) -> bool:
    return scope.host == host.host and (scope.item or "") == host.item


def _named(waiver: Waiver, finding: Finding) -> list[HostFinding]:
    """Return the places of `finding` that the waiver speaks of; without a scope, the only one."""
    if not waiver.scope:
        return list(finding.hosts)
    return [h for h in finding.hosts if any(_speaks_of(scope, h) for scope in waiver.scope)]


def _first_failed(finding: Finding) -> str:
    failed = next(h for h in finding.hosts if h.verdict is Verdict.FAIL)
    return told_place(failed.host, failed.item)
