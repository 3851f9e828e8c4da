"""Decides one criterion: what was measured, where it should have been, and what that proves.

Only measurements of the criterion's name and phase that carry its ``where`` labels count, and
only on the hosts and items it covers. Every covered place must have been measured; all of a
place's values must hold, and its worst one is shown. The gravest place decides: fail over
inconclusive over not_run over pass. The order of measurements and repeated ones change nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from kvgate.judge import alike, comparison, unlike
from kvgate.judge import ceilings as ceilings_of
from kvgate.judge.comparison import Planned
from kvgate.judge.limits import Check, check
from kvgate.model.finding import Attempt, Comparison, Finding, HostFinding
from kvgate.model.record import ALL_HOSTS, EvidenceRef, Measurement, evidence_of
from kvgate.model.verdict import Verdict
from kvgate.spec.expect import Coverage, Expectations
from kvgate.spec.gate import Criterion, Limit

EVIDENCE_CITED = 16
"""Pieces of evidence that a finding, or a host's part of it, cites at most, the worst first."""

PLACES_NAMED = 5
"""Hosts and items that a sentence names before it goes on with "and N more"."""

NOT_MEASURED = "not measured"
NO_EVIDENCE = "no evidence was kept for it"

Place = tuple[str, str]
"""A host and an item on it."""


_GRAVITY = list(Verdict)


@dataclasses.dataclass(frozen=True, slots=True)
class _Judged:
    """One measurement held against the limit."""

    check: Check
    taken: Measurement
    order: tuple[object, ...]  # the worst first, then by content: the order taken can't matter
    comparison: Comparison | None = None

    @classmethod
    def of(cls, check: Check, taken: Measurement, comparison: Comparison | None = None) -> _Judged:
        """Return `taken` as judged by `check`, with its place in the order."""
        grave = -_GRAVITY.index(check.verdict)
        labels = tuple(sorted(taken.labels.items()))
        what = (check.shown, check.because, taken.host, taken.item, taken.evidence, labels)
        order = (grave, -check.off, *what, taken.taken_at.isoformat())
        return cls(check, taken, order, comparison)


@dataclasses.dataclass(frozen=True, slots=True)
class _Against:
    """All that one criterion's measurements are held against."""

    criterion: Criterion
    limit: Limit
    expected: Expectations
    planned: Planned
    ceilings: tuple[Measurement, ...]


def decide(
    criterion: Criterion,
    limit: Limit,
    *,
    covers: Coverage,
    expected: Expectations,
    taken: Iterable[Measurement],
    attempt: Attempt | None,
    planned: Planned | None = None,
    ceilings: Iterable[Measurement] = (),
) -> Finding:
    """Return the verdict on one criterion under one of its limits, with everything behind it.

    `taken` may hold any measurements of the run; `attempt` is how the test that settles the
    criterion ended, None where none was started or it never came to its end. `planned` is for
    criteria that compare arms, `ceilings` for those that name a ceiling.
    """
    places = [(host, item) for host in sorted(covers) for item in sorted(set(covers[host]))]
    if not places:
        because = f"no host declares what it covers ({_covered(criterion)})"
        return _finding(criterion, limit, Verdict.NOT_RUN, because, (), ())
    relevant, near = _relevant(criterion, taken)
    against = _Against(criterion, limit, expected, planned or Planned(), tuple(ceilings))
    judged = {place: _held(against, relevant.get(place, ())) for place in places}
    by_place = {place: relevant.get(place, ()) for place in places}
    apart = unlike.together(by_place, expected, alike.apart(by_place, expected))
    judged |= {place: _differing(judged[place], why) for place, why in apart.outliers.items()}
    measured = any(judged.values())
    hosts = tuple(_place(place, judged[place], attempt, measured) for place in places)
    worst_first = sorted((each for all_ in judged.values() for each in all_), key=lambda e: e.order)
    ended_badly = _ended_badly(attempt, measured)
    verdict = Verdict.worst([host.verdict for host in hosts] + [v for v, _ in ended_badly])
    because = _because(verdict, hosts, worst_first, [reason for _, reason in ended_badly], apart)
    if verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_RUN) and not measured and near:
        because += f"; {near}"
    return _finding(criterion, limit, verdict, because, hosts, worst_first)


def _covered(criterion: Criterion) -> str:
    return f"hosts: {criterion.hosts}" + (f", each {criterion.each}" if criterion.each else "")


def _relevant(
    criterion: Criterion, taken: Iterable[Measurement]
) -> tuple[dict[Place, list[Measurement]], str]:
    """Return the measurements that count, by place, and a word on those that nearly did."""
    found: dict[Place, list[Measurement]] = {}
    near: set[str] = set()
    for each in taken:
        if each.name != criterion.measure:
            continue
        if each.phase != criterion.phase:
            near.add(f"phase {each.phase}")
        elif wrong := _other_labels(criterion, each):
            near.add(", ".join(f"{key} {each.labels.get(key, 'unset')}" for key in wrong))
        else:
            found.setdefault((each.host, each.item), []).append(each)
    if found or not near:
        where = sorted({_named(place) for place in found})
        return found, f"measured only on {_list(where)}" if found else ""
    return found, f"measured only with {_list(sorted(near), '; ')}"


def _other_labels(criterion: Criterion, taken: Measurement) -> list[str]:
    """Return the ``where`` labels that a measurement carries otherwise or not at all."""
    return sorted(k for k, wanted in criterion.where.items() if taken.labels.get(k) != wanted)


def _held(against: _Against, taken: Sequence[Measurement]) -> list[_Judged]:
    """Return a place's measurements against the limit, the worst first; a ratio is one of all."""
    if against.criterion.ratio:
        return _compared(against, taken)
    judged = [_Judged.of(_check(against, each), each) for each in taken]
    return sorted(judged, key=lambda each: each.order)


def _differing(judged: Sequence[_Judged], why: str) -> list[_Judged]:
    """Return a place's measurements as failing, where they would hold, as hosts have to agree."""
    failing = [
        _Judged.of(Check(Verdict.FAIL, each.check.shown, why), each.taken, each.comparison)
        if each.check.verdict is Verdict.PASS
        else each
        for each in judged
    ]
    return sorted(failing, key=lambda each: each.order)


def _compared(against: _Against, taken: Sequence[Measurement]) -> list[_Judged]:
    found = comparison.held(against.criterion, against.limit, against.planned, taken)
    if found is None:
        return []
    check, told, used = found
    whole = dataclasses.replace(used[0], evidence=evidence_of(used))
    return [_Judged.of(check, whole, told)]


def _check(against: _Against, taken: Measurement) -> Check:
    criterion = against.criterion
    if taken.value is None or taken.problem:
        return Check(Verdict.INCONCLUSIVE, "", taken.problem or "no value and no reason for it")
    needed = against.expected.get((taken.host, taken.name, taken.item))
    found = check(taken.value, against.limit, needed, criterion.marginal)
    if found.verdict is Verdict.PASS and not taken.evidence:
        return Check(Verdict.INCONCLUSIVE, found.shown, NO_EVIDENCE)
    return ceilings_of.against(found, taken, against.ceilings) if criterion.ceiling else found


def _place(
    place: Place, judged: Sequence[_Judged], attempt: Attempt | None, measured: bool
) -> HostFinding:
    """Return one host's (and item's) part of the finding."""
    if not judged:
        verdict, because = _unmeasured(attempt, measured)
        return HostFinding(
            host=place[0], item=place[1], verdict=verdict, measured="", because=because
        )
    worst = judged[0].check
    return HostFinding(
        host=place[0],
        item=place[1],
        verdict=worst.verdict,
        measured=worst.shown,
        because=worst.because or "holds",
        marginal=worst.verdict is Verdict.PASS and any(each.check.marginal for each in judged),
        evidence=_cited(judged),
        comparison=judged[0].comparison,
    )


def _unmeasured(attempt: Attempt | None, measured: bool) -> tuple[Verdict, str]:
    """Return what it means that a covered place has no measurement."""
    if attempt is None and not measured:
        return Verdict.NOT_RUN, "no test that settles it was run"
    if attempt is not None and attempt.outcome == "not_run":
        return Verdict.NOT_RUN, _reasons(attempt)
    return Verdict.INCONCLUSIVE, NOT_MEASURED


def _ended_badly(attempt: Attempt | None, measured: bool) -> list[tuple[Verdict, str]]:
    """Return what the end of the test that settles the criterion adds, if it did not just run."""
    if attempt is None:
        unended = "the test that settles it was begun and left no record of its end"
        return [(Verdict.INCONCLUSIVE, unended)] if measured else []
    if attempt.outcome == "ran":
        return []
    if attempt.outcome == "not_run":
        return [(Verdict.NOT_RUN, _reasons(attempt))]
    return [(Verdict.INCONCLUSIVE, f"the harness broke: {_reasons(attempt)}")]


def _reasons(attempt: Attempt) -> str:
    return "; ".join(attempt.reasons) or f"its test ended as '{attempt.outcome}' without a reason"


def _because(
    verdict: Verdict,
    hosts: Sequence[HostFinding],
    worst_first: Sequence[_Judged],
    ended: Sequence[str],
    apart: alike.Apart,
) -> str:
    """Return the reason for `verdict` as one sentence, naming places, the worst first."""
    if verdict is Verdict.PASS:
        return _held_everywhere(hosts, worst_first[0])
    grave = {(host.host, host.item): host for host in hosts if host.verdict is verdict}
    worst_places = dict.fromkeys((each.taken.host, each.taken.item) for each in worst_first)
    grave_places = [place for place in worst_places if place in grave]
    outliers = [
        place for place in grave_places if grave[place].because == apart.outliers.get(place)
    ]
    told = [_told(grave[place]) for place in grave_places if place not in outliers]
    silent = [place for place in grave if place not in worst_places]
    parts = [*(apart.told if outliers else ()), *([_list(told, "; ")] if told else [])]
    if silent and (why := grave[silent[0]].because) not in ended:
        places = [_named(place) for place in silent]
        parts.append(f"{why} on {_list(places)}" if why == NOT_MEASURED else why)
    return "; ".join([*parts, *ended])


def _told(host: HostFinding) -> str:
    place = _named((host.host, host.item))
    return (
        f"{host.measured} on {place}, {host.because}"
        if host.measured
        else (f"{place}: {host.because}")
    )


def _held_everywhere(hosts: Sequence[HostFinding], worst: _Judged) -> str:
    place = _named((worst.taken.host, worst.taken.item))
    if len(hosts) == 1:
        also = f"; {worst.check.because}" if worst.check.because else ""
        return f"{worst.check.shown} on {place}{also}"
    several = len({host.host for host in hosts})
    where = (
        f"all {several} hosts"
        if several == len(hosts)
        else (f"all {len(hosts)} items on {several} host{'s' if several > 1 else ''}")
    )
    if len({host.measured for host in hosts}) == 1:
        return f"{worst.check.shown} on {where}"
    return f"holds on {where}; the worst: {worst.check.shown} on {place}"


def _named(place: Place) -> str:
    host, item = place
    named = "all hosts together" if host == ALL_HOSTS else host
    return f"{named} ({item})" if item else named


def _list(parts: Sequence[str], between: str = ", ") -> str:
    more = len(parts) - PLACES_NAMED
    return between.join(parts[:PLACES_NAMED]) + (f" and {more} more" if more > 0 else "")


def _cited(judged: Iterable[_Judged]) -> tuple[EvidenceRef, ...]:
    refs = dict.fromkeys(ref for each in judged for ref in each.taken.evidence)
    return tuple(refs)[:EVIDENCE_CITED]


def _finding(
    criterion: Criterion,
    limit: Limit,
    verdict: Verdict,
    because: str,
    hosts: tuple[HostFinding, ...],
    worst_first: Sequence[_Judged],
) -> Finding:
    deciding = [each for each in worst_first if each.check.verdict is verdict] or worst_first
    return Finding(
        criterion=criterion.id,
        verdict=verdict,
        because=because,
        limit=str(limit),
        measured=worst_first[0].check.shown if worst_first else "",
        marginal=verdict is Verdict.PASS and any(host.marginal for host in hosts),
        hint="" if verdict is Verdict.PASS else criterion.hint,
        hosts=hosts,
        evidence=_cited(deciding),
    )
