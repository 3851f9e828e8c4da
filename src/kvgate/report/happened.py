"""What departed from an undisturbed run: all in the journal that is not its ordinary course."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvgate.report import show
from kvgate.report.sources import JournalEvent, Sources
from kvgate.report.text import sentence
from kvgate.report.views import Deviation

_ORDINARY = frozenset(
    (
        "manifest",
        "run_begin",
        "run_end",
        "gate_begin",
        "gate_end",
        "gate_judged",
        "identity",
        "step_begin",
        "step_end",
        "child_begin",
        "child_end",
        "attempt",
        "block_begin",
        "block_end",
        "measurements_synced",
        "fault_begin",
        "fault_proven",
        "fault_repaired",
    )
)
"""Kinds that every run has. What is not among them is listed, known to us or not."""

_NAMES = {
    "gate_refused": "Gate refused",
    "forced": "Gate forced",
    "destroy_consent": "Devices to be written over",
    "interrupted": "Interrupted",
    "resumed": "Resumed",
    "block_discarded": "Measurements discarded",
    "note": "Note",
    "retest": "Retest",
}


def deviations(sources: Sources) -> tuple[Deviation, ...]:
    """Return what departed from the plan, in the order of the journal."""
    return (*_listed(sources.events), *_faults(sources.events), *_unfinished(sources))


def _listed(events: tuple[JournalEvent, ...]) -> Iterator[Deviation]:
    for event in events:
        if event.kind not in _ORDINARY:
            kind = _NAMES.get(event.kind, event.kind.replace("_", " ").capitalize())
            yield Deviation(show.clock(event.utc), kind, _told(event.kind, event.fields))


def _told(kind: str, fields: Mapping[str, Any]) -> str:
    match kind, dict(fields):
        case "forced", {"gate": gate, "reason": reason, **rest} if not rest:
            return f"{gate} was opened by force, so this run can't be accepted: {reason}"
        case "retest", {"of": of, "criteria": [*criteria]}:
            why = f": {fields['reason']}" if fields.get("reason") else ""
            return f"of run {of}, criteria {', '.join(map(str, criteria))}{why}"
        case "destroy_consent", {"yes_destroy": [*serials], "who": _, **rest} if not rest:
            return f"named by --yes-destroy: {', '.join(map(str, serials))}"
        case "gate_refused", {"gate": gate, "because": because, **rest} if not rest:
            return f"{gate} was not opened: {because}"
        case "block_discarded", {"block": block, "reason": reason, **rest} if (
            rest.keys() <= {"begin"}  # the number of the record that began it
        ):
            return f"{block}: {str(reason).rstrip(': ')}"
        case ("note", {"text": text, **rest}) | ("interrupted", {"because": text, **rest}) if (
            not rest
        ):
            return str(text)
        case _, everything:
            return sentence(f"{name}: {value}" for name, value in everything.items())


def _faults(events: tuple[JournalEvent, ...]) -> Iterator[Deviation]:
    """Yield the faults that were begun and not proven, or not repaired; each needs its own."""
    open_: dict[tuple[object, object], list[tuple[JournalEvent, set[str]]]] = {}
    begun = []
    for event in events:
        key = (event.fields.get("fault"), event.fields.get("host"))
        if event.kind == "fault_begin":
            begun.append((event, seen := set[str]()))
            open_.setdefault(key, []).append((event, seen))
        elif event.kind in ("fault_proven", "fault_repaired") and key in open_:
            open_[key][-1][1].add(event.kind)
    for event, seen in begun:
        what = f"{event.fields.get('fault')} on {event.fields.get('host')}"
        if "fault_proven" not in seen:
            yield Deviation(
                show.clock(event.utc), "Fault not proven", f"{what}: nothing shows that it happened"
            )
        if "fault_repaired" not in seen:
            yield Deviation(
                show.clock(event.utc), "Fault not repaired", f"{what}: its repair was not proven"
            )


def _unfinished(sources: Sources) -> Iterator[Deviation]:
    """Yield that the journal has no end, and gates that were begun and never ended."""
    if not sources.events:
        yield Deviation("", "No journal", "This run's journal holds no records.")
        return
    last = sources.events[-1]
    open_gate = ""
    for event in sources.events:
        if event.kind == "gate_begin":
            open_gate = str(event.fields.get("gate"))
        elif event.kind in ("gate_end", "resumed"):
            open_gate = ""
    if open_gate:
        yield Deviation(
            show.clock(last.utc),
            "Gate not ended",
            f"{open_gate} was begun and the journal does not say that it ended",
        )
    if not any(event.kind == "run_end" for event in sources.events):
        yield Deviation(
            show.clock(last.utc),
            "Run not ended",
            "The journal has no run_end: the run was still going on when this report "
            "was made, or it was ended from outside.",
        )
