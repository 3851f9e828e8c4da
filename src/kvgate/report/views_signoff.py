"""Views of people's acts: disposition, waivers, answers to manual checks, retests."""

from __future__ import annotations

import dataclasses


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
