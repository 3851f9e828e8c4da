"""Views of people's acts: disposition, waivers, answers to manual checks, retests."""

from __future__ import annotations

import dataclasses

from kvgate.model.finding import LEFT_OUT


@dataclasses.dataclass(frozen=True, slots=True)
class Disposed:
    """One gate's disposition as it was frozen, beside the verdict that stays."""

    gate: str
    verdict: str
    disposition: str
    because: str


@dataclasses.dataclass(frozen=True, slots=True)
class OpenItem:
    """What an acceptance depends on, or what blocks it, or what is only listed."""

    criterion: str
    what: str
    under: str  # the waiver or item, with owner and date; "" where there is none


@dataclasses.dataclass(frozen=True, slots=True)
class WaiverRow:
    """One waiver, deviation or open item, and what it does."""

    waiver: str
    kind: str
    criterion: str
    effect: str  # "holds", "no effect"
    because: str
    places: str
    signed: str


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer to a manual check."""

    check: str
    asked: str
    answer: str
    note: str
    by: str
    when: str
    photos: str


@dataclasses.dataclass(frozen=True, slots=True)
class RetestRow:
    """One run of the lineage: what it repeated, and why."""

    run: str
    what: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class DocumentRow:
    """What the report is about, in the parties' own numbers: "Contract", "C-2026-117"."""

    label: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class PartyRow:
    """One party: who may sign for it, and what it has signed, as claimed."""

    role: str
    name: str
    people: str
    criteria: str  # approved before the run: by whom, when claimed
    results: str  # signed: what was decided, by whom, when claimed


@dataclasses.dataclass(frozen=True, slots=True)
class SignOff:
    """All that people did about a run after it was measured."""

    disposition: str  # "" where none was frozen
    as_of: str
    gates: tuple[Disposed, ...]
    conditions: tuple[OpenItem, ...]
    blocking: tuple[OpenItem, ...]
    remarks: tuple[OpenItem, ...]
    waivers: tuple[WaiverRow, ...]
    answers: tuple[AnswerRow, ...]
    retests: tuple[RetestRow, ...]
    # stored only where the plan names parties
    document: tuple[DocumentRow, ...] = dataclasses.field(default=(), metadata=LEFT_OUT)
    parties: tuple[PartyRow, ...] = dataclasses.field(default=(), metadata=LEFT_OUT)
