"""Findings → rows: each criterion with its limit, what was measured, the verdict and its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kvgate.judge.gate import how_to_scope_out
from kvgate.model.finding import Finding, GateResult, ScopedOut
from kvgate.model.quantity import Quantity
from kvgate.model.record import ALL_HOSTS
from kvgate.model.verdict import Verdict
from kvgate.report import crowd, exhibits, show
from kvgate.report.show import Shown
from kvgate.report.sources import Sources
from kvgate.report.views import (
    MARKS,
    SCOPED_OUT,
    Count,
    CriterionView,
    Fact,
    HostRow,
    LeftOut,
    Look,
    Trouble,
)
from kvgate.spec.gate import Criterion

UNKNOWN = "(its text is not among the gate files of this run)"
_FOLDED_BEYOND = 4  # so many host rows stand open even where all of them passed
_NAMED = 5  # places that a trouble lists one by one
_ALIKE = 3  # so many criteria with the same reason are told together


def host_name(host: str) -> str:
    """Return how a host of a finding is called on the page."""
    return "all hosts together" if host == ALL_HOSTS else host


def readable(because: str, finding: Finding) -> str:
    """Return a reason with the finding's own measured values as they are shown beside it."""
    near = show.quantities_in(finding.limit)
    raw = {finding.measured, *(host.measured for host in finding.hosts)}
    for measured in sorted(raw, key=lambda each: (-len(each), each)):
        shown = show.text(measured, near=near)
        if shown.exact:
            because = re.sub(rf"(?<![\w.]){re.escape(measured)}(?![\w/])", shown.text, because)
    return because


def _hosts_told(finding: Finding) -> str:
    places, hosts = len(finding.hosts), len({host.host for host in finding.hosts})
    on = f"{hosts} host{'s' if hosts != 1 else ''}"
    return on if hosts == places else f"{places} items on {on}"


def criterion_view(finding: Finding, sources: Sources) -> CriterionView:
    """Return one criterion's row."""
    criterion = sources.criterion(finding.criterion)
    near = show.quantities_in(finding.limit)
    several = len(finding.hosts) > 1
    rows = tuple(_host_rows(finding, near)) if several else ()
    cited = tuple(
        dict.fromkeys(
            (*finding.evidence, *(ref for host in finding.hosts for ref in host.evidence))
        )
    )
    linked = exhibits.links(finding.evidence or cited)
    claim = criterion.claim if criterion else None
    return CriterionView(
        id=finding.criterion,
        text=criterion.text if criterion else UNKNOWN,
        mark=MARKS[finding.verdict],
        marginal=finding.marginal,
        limit=finding.limit,
        claim=f"{claim.value} ({claim.by})" if claim else "",
        measured=show.text(finding.measured, near=near),
        because=readable(finding.because, finding),
        hint=tuple(finding.hint.splitlines()),
        facts=tuple(_facts(finding, sources)),
        hosts=rows,
        hosts_told=_hosts_told(finding),
        has_items=any(row.item for row in rows),
        hosts_open=len(rows) <= _FOLDED_BEYOND or finding.verdict is not Verdict.PASS,
        evidence=linked,
        more_evidence=len(cited) - len(linked),
    )


def _facts(finding: Finding, sources: Sources) -> Iterator[Fact]:
    criterion = sources.criterion(finding.criterion)
    if criterion is None:
        return
    where = "".join(f", {key} {value}" for key, value in criterion.where.items())
    each = f", each {criterion.each}" if criterion.each else ""
    yield Fact("Measure", criterion.measure + where, Look.CODE)
    yield Fact(
        "Over",
        f"{criterion.hosts} hosts, {criterion.scope}{each}; "
        f"phase {criterion.phase.replace('_', ' ')}",
    )
    if criterion.deployment:
        yield Fact("Deployment", criterion.deployment)
    if criterion.statistic:
        yield Fact("Statistic", criterion.statistic)
    yield from _comparison_facts(finding, criterion)
    yield Fact("Basis", criterion.basis)


def _comparison_facts(finding: Finding, criterion: Criterion) -> Iterator[Fact]:
    """Yield what a comparison rests on; each place its own, where there are several."""
    if criterion.margin and criterion.claim:
        yield Fact("Margin", f"{criterion.margin} of the claim {criterion.claim.number}")
    for host in finding.hosts:
        told = host.comparison
        if told is None:
            continue
        on = f" on {host_name(host.host)}" if len(finding.hosts) > 1 else ""
        ratio = told.ratio or "no ratio"
        within = f", {told.level} interval {told.low} to {told.high}" if told.low else ""
        yield Fact(f"Ratio{on}", f"{told.of} against {told.to}: {ratio}{within}")
        yield Fact(f"Blocks{on}", told.blocks)
        yield Fact(f"Noise floor{on}", f"{told.noise}")


def _host_rows(finding: Finding, near: tuple[Quantity, ...]) -> Iterator[HostRow]:
    """Yield a row for each place; many that agree share one, and what is too much is counted."""
    rows, left = crowd.shown(finding.hosts)
    for row in rows:
        place = row.first
        yield HostRow(
            host=row.named if len(row.hosts) > 1 else host_name(place.host),
            item=place.item,
            mark=MARKS[place.verdict],
            marginal=place.marginal,
            measured=show.text(place.measured, near=near),
            because=row.because,
            evidence=exhibits.links(place.evidence),
        )
    if left:
        yield HostRow(
            host="others",
            item="",
            mark=MARKS[rows[-1].first.verdict],
            marginal=False,
            measured=Shown(""),
            because=f"{left:,} more hosts or items: see findings.json in the run's folder",
            evidence=(),
        )


def counts(result: GateResult) -> tuple[Count, ...]:
    """Return how many criteria ended with each verdict, the gravest first, and were scoped out."""
    found = [
        Count(MARKS[verdict], sum(each.verdict is verdict for each in result.findings))
        for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.NOT_RUN, Verdict.PASS)
    ]
    found.append(Count(SCOPED_OUT, len(result.scoped_out)))
    return tuple(count for count in found if count.number)


def left_out(parts: Iterable[ScopedOut], sources: Sources) -> tuple[LeftOut, ...]:
    """Return the scoped-out criteria with the plan's reasons."""
    return tuple(
        LeftOut(part.criterion, _text(part.criterion, sources), SCOPED_OUT, part.reason)
        for part in parts
    )


def _text(id_: str, sources: Sources) -> str:
    criterion = sources.criterion(id_)
    return criterion.text if criterion else UNKNOWN


def not_run(sources: Sources) -> tuple[LeftOut, ...]:
    """Return what was not run, then what was scoped out, over all gates."""
    missing = [
        LeftOut(each.criterion, _text(each.criterion, sources), MARKS[each.verdict], each.because)
        for gate in sources.result.gates
        for each in gate.findings
        if each.verdict is Verdict.NOT_RUN
    ]
    scoped = [row for gate in sources.result.gates for row in left_out(gate.scoped_out, sources)]
    return (*missing, *scoped)


def troubles(sources: Sources) -> tuple[Trouble, ...]:
    """Return all that did not pass, the gravest first, by host where a finding has several.

    Criteria of one gate that share verdict and reason (its test broke off) are one trouble.
    """
    order = list(Verdict)
    alike: dict[tuple[str, Verdict, str], list[Finding]] = {}
    for gate in sources.result.gates:
        for finding in gate.findings:
            if finding.verdict is not Verdict.PASS:
                alike.setdefault((gate.gate, finding.verdict, finding.because), []).append(finding)
    groups = sorted(alike.items(), key=lambda item: -order.index(item[0][1]))  # stable
    rows: list[Trouble] = []
    for (gate_id, _, _), found in groups:
        if len(found) >= _ALIKE:
            rows.append(_together(gate_id, found))
        else:
            rows += [row for each in found for row in _trouble(gate_id, each, sources)]
    return (*rows, *_gates_without_findings(sources))


def _together(gate: str, found: list[Finding]) -> Trouble:
    hosts = {host.host for finding in found for host in finding.hosts}
    ids = [finding.criterion for finding in found]
    return Trouble(
        gate=gate,
        criterion="",
        text=f"{len(found)} criteria: {', '.join(ids)}",
        mark=MARKS[found[0].verdict],
        host=host_name(hosts.pop()) if len(hosts) == 1 else "",
        item="",
        measured=Shown(""),
        limit="",
        because=found[0].because,
        hint=_shared_hint(found)
        or f"see what ended it under Deviations and events, and what each advises at {gate}",
    )


def _shared_hint(found: list[Finding]) -> str:
    """Return the first line that the hints of all of `found` have, none of how to scope out."""
    told = [
        dict.fromkeys(each.hint.removesuffix(how_to_scope_out(each.criterion)).splitlines())
        for each in found
    ]
    return next((line for line in told[0] if all(line in lines for lines in told)), "")


def close_calls(sources: Sources) -> tuple[Trouble, ...]:
    """Return what passed close to its limit."""
    return tuple(
        _row(gate.gate, finding, sources, "", "", finding.measured, finding.because)
        for gate in sources.result.gates
        for finding in gate.findings
        if finding.marginal
    )


def _trouble(gate: str, finding: Finding, sources: Sources) -> Iterator[Trouble]:
    grave = [host for host in finding.hosts if host.verdict is finding.verdict]
    places = crowd.alike(crowd.worst_first(grave))
    if not places:
        yield _row(gate, finding, sources, "", "", finding.measured, finding.because)
        return
    for each in places[:_NAMED]:
        host = each.first
        because = finding.because if len(grave) == 1 else each.because
        name = each.named if len(each.hosts) > 1 else host_name(host.host)
        yield _row(gate, finding, sources, name, host.item, host.measured, because)
    if len(places) > _NAMED:
        left = sum(len(each.hosts) for each in places[_NAMED:])
        more = f"{left:,} more hosts or items: see {finding.criterion} below"
        on = {host for each in places[_NAMED:] for host in each.hosts}
        name = host_name(on.pop()) if len(on) == 1 else "others"
        yield _row(gate, finding, sources, name, "", "", more)


def _row(
    gate: str, finding: Finding, sources: Sources, host: str, item: str, measured: str, because: str
) -> Trouble:
    return Trouble(
        gate=gate,
        criterion=finding.criterion,
        text=_text(finding.criterion, sources),
        mark=MARKS[finding.verdict],
        host=host,
        item=item,
        measured=show.text(measured, near=show.quantities_in(finding.limit)),
        limit=finding.limit,
        because=readable(because, finding),
        hint=_first_line(finding),
    )


def _first_line(finding: Finding) -> str:
    """Return what to do next; a criterion's advice is for a failure, which this may not be."""
    first, _, more = finding.hint.partition("\n")
    if finding.verdict is Verdict.INCONCLUSIVE and first:
        first = f"settle the reason and measure again; if it fails then: {first}"
    return f"{first.rstrip(':')} (how: see {finding.criterion} below)" if more else first


def _gates_without_findings(sources: Sources) -> Iterator[Trouble]:
    for gate in sources.result.gates:
        if gate.verdict is not Verdict.PASS and not gate.findings:
            spec = sources.gate(gate.gate)
            yield Trouble(
                gate=gate.gate,
                criterion="",
                text=spec.title if spec else "",
                mark=MARKS[gate.verdict],
                host="",
                item="",
                measured=Shown(""),
                limit="",
                because=gate.because,
                hint="",
            )
