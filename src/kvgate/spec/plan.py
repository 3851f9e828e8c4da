"""Plans: which gates, in which profile, with which load, and what is scoped out and why."""

from __future__ import annotations

from typing import Annotated

import pydantic

from kvgate.spec.base import CriterionId, Duration, GateId, Slug, Strict, Text
from kvgate.spec.control import Control
from kvgate.spec.workload import Workloads

REHEARSED = frozenset({"rehearsal", "lab"})
"""Profiles whose limits show that the way works; no run by them can be an acceptance."""


class ScopeOut(Strict):
    """Criteria that this site can't or need not settle: listed, not judged, never silent."""

    criteria: Annotated[list[CriterionId], pydantic.Field(min_length=1)]
    reason: Text


class PlannedGate(Strict):
    """One gate of the plan: the folder of tests that measure for it, and its time limit."""

    gate: GateId
    suite: Text
    give_up_after: Duration


class Retests(Strict):
    """How often one criterion may be tested again before it takes a deviation report."""

    most: Annotated[int, pydantic.Field(ge=0, le=20)] = 2


class Plan(Strict):
    """What is going to be done; ``base`` names a plan file that this one narrows."""

    plan: Slug
    title: Text
    profile: Slug
    seed: int
    gates: Annotated[list[PlannedGate], pydantic.Field(min_length=1)]
    workloads: Workloads
    drafted_for: Slug | None = None  # the inventory it was drafted with; fits no other
    retests: Retests = Retests()
    scope_out: list[ScopeOut] = pydantic.Field(default_factory=list)
    control: Control | None = None  # parties and document: without it nobody can sign

    @property
    def rehearsal(self) -> bool:
        """Tell whether the run can never be signed as an acceptance."""
        return self.profile in REHEARSED

    def scoped_out(self) -> dict[str, str]:
        """Return criterion id → reason."""
        return {each: part.reason for part in self.scope_out for each in part.criteria}
