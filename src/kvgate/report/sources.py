"""What a report is made from: the records of one run, its frozen setup and what was judged."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from kvgate.engine.workspace import Setup
from kvgate.model.finding import Attempt, RunResult
from kvgate.model.record import Evidence, EvidenceRef, Measurement
from kvgate.report import show
from kvgate.spec.gate import Criterion, Gate
from kvgate.spec.plan import REHEARSED


class JournalEvent(Protocol):
    """One record of a run's journal (`store.reader.Event`)."""

    @property
    def seq(self) -> int:
        """Return its number, from 0 or 1 without gaps."""
        ...

    @property
    def utc(self) -> datetime.datetime | str:
        """Return when it was written."""
        ...

    @property
    def mono(self) -> float:
        """Return the monotonic time at which it was written, in seconds."""
        ...

    @property
    def boot(self) -> str:
        """Return the boot that `mono` counts from."""
        ...

    @property
    def kind(self) -> str:
        """Return its kind, e.g. ``gate_begin``."""
        ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """Return its other fields."""
        ...


class RunRecords(Protocol):
    """What the report reads of a run (`store.reader.RunReader` has it)."""

    manifest: dict[str, Any]
    path: Path

    def events(self, *kinds: str) -> Iterator[JournalEvent]:
        """Yield the journal's events, of `kinds` only where any are given."""
        ...

    def measurements(self) -> tuple[Measurement, ...]:
        """Return the committed measurements."""
        ...

    def evidence(self, ref: EvidenceRef) -> Evidence:
        """Return one piece of evidence; raises StoreError."""
        ...

    def telemetry(self) -> Iterator[dict[str, Any]]:
        """Yield the telemetry samples."""
        ...

    def attempts(self) -> tuple[Attempt, ...]:
        """Return the last attempt at each criterion."""
        ...

    def input(self, name: str) -> bytes:
        """Return a frozen input file."""
        ...

    def journal_digest(self) -> str:
        """Return the head of the journal's chain."""
        ...

    def sealed(self) -> bool:
        """Tell whether the run is sealed."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """The records of one run, read once, with what was judged about it."""

    run: RunRecords
    result: RunResult
    setup: Setup
    events: tuple[JournalEvent, ...]
    measurements: tuple[Measurement, ...]

    @classmethod
    def read(cls, run: RunRecords, result: RunResult, setup: Setup) -> Sources:
        """Read `run`'s journal and measurements; raises StoreError where they are damaged."""
        return cls(run, result, setup, tuple(run.events()), run.measurements())

    def criterion(self, id_: str) -> Criterion | None:
        """Return a criterion of the gate files by its id, or None if they do not have it."""
        gate = self.gate(id_.partition(".")[0])
        for criterion in gate.criteria if gate else ():
            if criterion.id == id_:
                return criterion
        return None

    def gate(self, id_: str) -> Gate | None:
        """Return a gate by its id, or None if the gate files do not have it."""
        loaded = self.setup.gates.get(id_)
        return loaded.value if loaded else None

    def first(self, kind: str) -> Mapping[str, Any]:
        """Return the fields of the first event of `kind`; empty if there is none."""
        return next((event.fields for event in self.events if event.kind == kind), {})

    @property
    def rehearsal(self) -> bool:
        """Tell whether the run can never be signed as an acceptance."""
        return self.result.profile in REHEARSED

    @property
    def recorded(self) -> bool:
        """Tell whether hosts were recordings; then too the run is never an acceptance."""
        return self.setup.inventory.value.recorded

    def span(self) -> tuple[datetime.datetime, datetime.datetime] | None:
        """Return when the journal begins and ends, or None if it is empty."""
        if not self.events:
            return None
        return show.moment(self.events[0].utc), show.moment(self.events[-1].utc)
