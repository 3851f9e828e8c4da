"""What people's acts make of verdicts: which waivers hold, what stays open, and the disposition."""

from __future__ import annotations

import dataclasses
import datetime

from kvgate.model.verdict import Disposition, Verdict


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """One party's approval, as its signature was checked; ``problem`` is "" where it is good."""

    role: str
    principal: str
    at: datetime.datetime  # UTC, as claimed by who signed
    problem: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one waiver, deviation or open item does, and if it does nothing, why (``because``)."""

    waiver: str
    kind: str
    criterion: str
    sha256: str  # of the waiver's file
    holds: bool
    because: str
    owner: str
    until: str  # the day it expires on
    places: tuple[str, ...] = ()
    signed: tuple[Signed, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a conditional acceptance depends on: who brings it to its end, and until when."""

    criterion: str
    waiver: str
    kind: str
    what: str  # the finding that it accepts or leaves open
    owner: str
    until: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A criterion that didn't pass, and why it blocks, or (class C) only is listed."""

    criterion: str
    verdict: Verdict
    because: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateDisposed:
    """What is proposed about one gate; its verdict is the judge's and stays what it is."""

    gate: str
    verdict: Verdict
    disposition: Disposition
    because: str
    conditions: tuple[Condition, ...] = ()
    blocking: tuple[Standing, ...] = ()
    remarks: tuple[Standing, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Disposed:
    """What is proposed about a run at the claimed time ``at``: the gravest of its gates."""

    run: str
    at: datetime.datetime
    verdict: Verdict
    disposition: Disposition
    gates: tuple[GateDisposed, ...]
    effects: tuple[Effect, ...] = ()
