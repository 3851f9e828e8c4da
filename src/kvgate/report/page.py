"""Records → the finished page: every word, number and order that a report shows is decided here."""

from __future__ import annotations

import dataclasses
import hashlib
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from kvgate.model.finding import GateResult
from kvgate.model.verdict import Verdict
from kvgate.report import charts, findings, glance, happened, hosts, pts, show, signoff, spent
from kvgate.report.exhibits import Exhibits
from kvgate.report.sources import JournalEvent, Sources
from kvgate.report.text import css_string, harmless, visible
from kvgate.report.views import (
    DISPOSITIONS,
    MARKS,
    Count,
    EvidenceView,
    Fact,
    GateView,
    Look,
    Page,
    Trouble,
)
from kvgate.store.layout import SUMS

REHEARSAL = "REHEARSAL — can never be signed as an acceptance"
RECORDED = "RECORDED — can never be signed as an acceptance"
COMPOSED = "RECORDED, COMPOSED BY HAND — can never be signed as an acceptance"
SIMULATED = "SIMULATED DEVICES — can never be signed as an acceptance"


def build(sources: Sources) -> Page:
    """Return the page of one judged run; the same records give the same page."""
    times = spent.spans(sources.events)
    evidence = _evidence(sources)
    acts = signoff.view(sources)
    agreed = signoff.beside(acts)
    gates = tuple(_gate(gate, sources, times, agreed) for gate in sources.result.gates)
    result, troubles = sources.result, _troubles(sources, agreed)
    page = Page(
        title=_title(sources),
        run=result.run,
        banner=_banner(sources),
        footer_css=css_string(visible(f"{result.run}  journal {result.journal_digest[:16]}")),
        facts=tuple(_facts(sources)),
        mark=MARKS[result.verdict],
        conclusion=tuple(_conclusion(sources)),
        counts=_totals(gates),
        gates=gates,
        troubles=troubles,
        marginal=findings.close_calls(sources),
        hosts=hosts.views(sources),
        hosts_note=hosts.note(sources),
        left_out=findings.not_run(sources),
        deviations=happened.deviations(sources),
        spent=spent.view(times),
        evidence=evidence,
        evidence_note=_evidence_note(len(evidence)),
        provenance=tuple(_provenance(sources)),
        verify=tuple(_verify(sources)),
        signoff=acts,
        glances=glance.tables(sources),
        troubles_by_host=glance.by_host(troubles, sources),
    )
    return harmless(page)


def _evidence(sources: Sources) -> tuple[EvidenceView, ...]:
    """Return every piece that a finding cites."""
    exhibits = Exhibits()
    for gate in sources.result.gates:
        for finding in gate.findings:
            exhibits.cite(finding)
    return exhibits.views(sources)


def _troubles(sources: Sources, agreed: Mapping[str, str]) -> tuple[Trouble, ...]:
    """Return what did not pass, with the waiver beside it."""
    return tuple(
        dataclasses.replace(each, waiver=agreed.get(each.criterion, ""))
        for each in findings.troubles(sources)
    )


def _banner(sources: Sources) -> str:
    """Return why the run can never be an acceptance; empty where it can."""
    if sources.recorded:
        return COMPOSED if sources.setup.inventory.value.composed else RECORDED
    if sources.rehearsal:
        return REHEARSAL
    return SIMULATED if sources.setup.inventory.value.simulated else ""


def _title(sources: Sources) -> str:
    gates = [gate.gate for gate in sources.result.gates]
    span = gates[0] if len(gates) == 1 else f"{gates[0]} to {gates[-1]}" if gates else "no gate"
    return f"Qualification report, {span}"


def _facts(sources: Sources) -> Iterator[Fact]:
    """Yield the title block: what was run, when, by whom, with what."""
    manifest, begin = sources.run.manifest, sources.first("run_begin")

    def told(name: str, other: str = "") -> Any:
        return begin.get(name) or manifest.get(other or name)

    plan, inventory = sources.setup.plan.value, sources.setup.inventory.value
    yield Fact("Run", sources.result.run, Look.CODE)
    yield Fact("Plan", f"{plan.title} ({plan.plan})")
    yield Fact("Profile", sources.result.profile)
    yield Fact(
        "Inventory",
        f"{inventory.title or inventory.inventory}, {len(inventory.hosts)} host"
        + ("s" if len(inventory.hosts) != 1 else ""),
    )
    if span := sources.span():
        began, ended = span
        took = show.duration(_took_s(sources.events[0], sources.events[-1]))
        yield Fact("Began", show.clock(began))
        yield Fact("Ended", f"{show.clock(ended)} (after {took})")
    yield Fact("By", _who(told("who")))
    yield Fact("kvgate", str(told("version", "kvgate") or "unknown"))
    yield Fact("Git", _git(told("git")), Look.CODE)
    yield Fact("Command", _command(told("command")), Look.CODE)


def _took_s(first: JournalEvent, last: JournalEvent) -> float:
    """Return the time between two records; within a boot a stepped wall clock changes nothing."""
    if first.boot == last.boot:
        return last.mono - first.mono
    return max(0.0, (show.moment(last.utc) - show.moment(first.utc)).total_seconds())


def _who(who: Any) -> str:
    if isinstance(who, dict):
        user, host = who.get("user"), who.get("host")
        return f"{user} on {host}" if user and host else ", ".join(str(v) for v in who.values())
    return str(who or "not recorded")


def _git(git: Any) -> str:
    if isinstance(git, dict):
        if not git.get("head"):
            return "not under git"
        return f"{git['head']}{' plus uncommitted changes' if git.get('dirty') else ''}"
    return str(git or "not recorded")


def _command(command: Any) -> str:
    if isinstance(command, list | tuple):
        return shlex.join(str(word) for word in command)
    return str(command or "not recorded")


def _conclusion(sources: Sources) -> Iterator[str]:
    """Yield what the verdict means, and what stands against signing it."""
    yield {
        Verdict.PASS: "Every criterion that was judged passed.",
        Verdict.FAIL: "At least one criterion failed: what was measured is outside its limit.",
        Verdict.INCONCLUSIVE: "No criterion failed, but at least one could not be decided.",
        Verdict.NOT_RUN: "At least one criterion was neither run nor scoped out, which blocks.",
    }[sources.result.verdict]
    left = sum(len(gate.scoped_out) for gate in sources.result.gates)
    again = sources.run.manifest.get("retest")
    if again:
        yield (
            f"This is a retest of run {again['of']}: it judges {', '.join(again['criteria'])} "
            "alone and accepts nothing by itself: what counts is decided over both (kvgate status)."
        )
    elif left:
        yield (
            f"{left} criteri{'on was' if left == 1 else 'a were'} scoped out by the plan and "
            "not judged; the reasons are listed."
        )
    forced = [gate.gate for gate in sources.result.gates if gate.forced]
    if forced:
        yield f"{', '.join(forced)} opened by force, which bars this run from acceptance."
    if sources.rehearsal:
        yield "A rehearsal shows that the way works; its limits are no acceptance limits."
    if names := [h.name for h in sources.setup.inventory.value.devices if h.simulated]:
        yield (
            f"Simulated, no hardware: {', '.join(names)}; what they tell shows that the way to "
            "such devices works."
        )
    if sources.setup.inventory.value.composed:
        yield (
            "This site never existed: its recordings were composed, to show what a gate finds; no "
            "hardware was touched."
        )
    elif sources.recorded:
        yield "Recorded hosts answered what they once had answered; no hardware was touched."


def _totals(gates: tuple[GateView, ...]) -> tuple[Count, ...]:
    totals: dict[str, Count] = {}
    for count in (count for gate in gates for count in gate.counts):
        before = totals.get(count.mark.key)
        totals[count.mark.key] = Count(count.mark, count.number + (before.number if before else 0))
    order = ("fail", "inconclusive", "not_run", "pass", "scoped_out")
    return tuple(totals[key] for key in order if key in totals)


def _gate(
    result: GateResult, sources: Sources, times: dict[str, spent.Span], agreed: dict[str, str]
) -> GateView:
    spec = sources.gate(result.gate)
    took_s = times[result.gate].total_s if result.gate in times else None
    began = next(
        (
            show.clock(event.utc)
            for event in sources.events
            if event.kind == "gate_begin" and event.fields.get("gate") == result.gate
        ),
        "",
    )
    return GateView(
        id=result.gate,
        title=spec.title if spec else findings.UNKNOWN,
        question=spec.question if spec else "",
        mark=MARKS[result.verdict],
        because=result.told,
        counts=findings.counts(result),
        criteria_total=len(result.findings) + len(result.scoped_out),
        disposition=DISPOSITIONS[result.disposition],
        forced=result.forced,
        took="" if took_s is None else show.duration(took_s),
        took_s=round(took_s or 0.0, 3),
        began=began,
        criteria=tuple(
            dataclasses.replace(
                findings.criterion_view(each, sources), waiver=agreed.get(each.criterion, "")
            )
            for each in result.findings
        ),
        scoped_out=findings.left_out(result.scoped_out, sources),
        charts=charts.of_gate(result.gate, sources),
        pts=pts.views(result.gate, sources),
    )


def _evidence_note(pieces: int) -> str:
    if not pieces:
        return "The findings cite no evidence."
    return (
        f"Pieces of evidence: {pieces}, each named by the SHA-256 of what was stored. "
        "Only the beginning of an answer is shown; the run folder has it whole."
    )


def _provenance(sources: Sources) -> Iterator[Fact]:
    """Yield the digests that bind this report to its records."""
    result = sources.result
    yield Fact("Criteria", result.criteria_digest, Look.CODE)
    yield Fact("Journal head", result.journal_digest, Look.CODE)
    if (now := sources.run.journal_digest()) != result.journal_digest:
        yield Fact("Journal head now", now, Look.CODE)
    sums = sources.run.path / SUMS
    sealed = sources.run.sealed() and sums.is_file()
    seal = hashlib.sha256(sums.read_bytes()).hexdigest() if sealed else "not sealed yet"
    yield Fact("Seal of the run", seal, Look.CODE if sealed else Look.PLAIN)
    inputs = sources.run.manifest.get("inputs")
    if isinstance(inputs, dict):
        for name, digest in sorted(inputs.items()):
            yield Fact(str(name), _digest(digest), Look.CODE)


def _digest(value: Any) -> str:
    return str(value.get("sha256", value)) if isinstance(value, dict) else str(value)


def _verify(sources: Sources) -> Iterator[Fact]:
    folder = shlex.quote(f"runs/{sources.run.path.name}")
    yield Fact(
        f"kvgate verify {folder}",
        "names every altered, missing or added byte of the run",
        Look.CODE,
    )
    yield Fact(
        f"kvgate judge {folder}",
        "judges the stored records again, without hardware: the same findings, byte for byte",
        Look.CODE,
    )
    yield Fact(
        f"kvgate status {folder}",
        "says what is missing before the run can be signed, by whom, and the command for it",
        Look.CODE,
    )
