"""Looks at a comparison of arms while it is measured: planned before, journaled, the last one ends.

A look is what the judge finds in the run so far, by the plan's looks. Nobody can look in
between, nor go on until it passes: the judge counts only what was planned.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvgate.engine.judging import compared_so_far
from kvgate.engine.workspace import Setup
from kvgate.judge.sequential import levels
from kvgate.model.verdict import Verdict
from kvgate.spec.ratio import LEAST_BLOCKS
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter

PLANNED, LOOK = "looks_planned", "look"


class Looks:
    """The planned looks of one gate's comparisons, by the first word of what is measured."""

    def __init__(self, gate: str, setup: Setup, run: RunWriter) -> None:
        self._gate = gate
        self._setup = setup
        self._run = run
        self._places: Mapping[str, tuple[int, ...]] = setup.plan.value.workloads.looks()

    def plan(self, kind: str) -> None:
        """Journal, once and before the first round, where is looked and how sure each must be."""
        places = self._places.get(kind, ())
        told = RunReader(self._run.path).events(PLANNED)
        if not places or any(e.fields["of"] == f"{self._gate}/{kind}" for e in told):
            return
        able = places[0] >= LEAST_BLOCKS
        self._run.event(
            PLANNED,
            of=f"{self._gate}/{kind}",
            after=list(places),
            levels=[str(level) for level in levels(places)] if able else [],
        )

    def look(self, kind: str, *, after: int, host: str) -> bool:
        """Tell whether all comparisons on `host` are decided, if a look is planned `after` a round.

        The look is journaled; one that was journaled before (a resume) is not made again.
        """
        if after not in self._places.get(kind, ()):
            return False
        self._run.sync()
        reader = RunReader(self._run.path)
        for event in reader.events(LOOK):
            if all(event.fields[k] == v for k, v in self._point(kind, after, host).items()):
                return bool(event.fields["decided"])
        found = compared_so_far(reader, self._setup, self._gate, kind=kind, host=host)
        decided = bool(found) and set(found.values()) <= {Verdict.PASS, Verdict.FAIL}
        self._run.event(
            LOOK,
            **self._point(kind, after, host),
            decided=decided,
            verdicts={criterion: str(verdict) for criterion, verdict in found.items()},
        )
        return decided

    def decided_after(self, kind: str, host: str) -> int | None:
        """Return after which round a look decided all on `host`, None where none did."""
        self._run.sync()
        for event in RunReader(self._run.path).events(LOOK):
            after = int(event.fields["after"])
            if event.fields["decided"] and all(
                event.fields[k] == v for k, v in self._point(kind, after, host).items()
            ):
                return after
        return None

    def _point(self, kind: str, after: int, host: str) -> dict[str, str | int]:
        return {"of": f"{self._gate}/{kind}", "after": after, "host": host}
