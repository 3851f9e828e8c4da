"""One gate in its own process: opened, measured for, closed, judged. Used by the pytest plugin."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from kvgate.engine import entry, judging
from kvgate.engine.progress import Progress
from kvgate.engine.scope import connect, kept_in
from kvgate.engine.start import refuse_changed_suite
from kvgate.engine.workspace import Setup, Workspace, frozen_setup
from kvgate.errors import GateClosedError, StoreError
from kvgate.model.finding import GateResult
from kvgate.spec.inventory import Host
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.transport.connect import Connections
from kvgate.witness import Witness

MOST_TEXT = 4000
"""Characters that are kept of a reason or a problem; the evidence has the rest."""


class GateSession:
    """The run's only writer while a gate's tests run; holds its lock.

    1. ``begin`` takes the lock, checks that the suite is the one the run began with, asks the
       hosts for their serial numbers and refuses a gate that may not open.
    2. The tests measure.
    3. ``finish`` closes the gate and judges it.
    """

    def __init__(self, workspace: Workspace, run: Path, gate: str, progress: Progress) -> None:
        reader = RunReader(run)
        self.workspace = workspace
        self.gate = gate
        self.progress = progress
        self.setup: Setup = frozen_setup(reader)
        if gate not in reader.manifest["gates"]:
            raise StoreError(f"{run.name}: this run doesn't decide {gate}")
        refuse_changed_suite(workspace, reader, self.setup.planned(gate).suite)
        self.run = RunWriter.open(run)

    def begin(
        self, witness: Callable[[Host], Witness], connections: Connections | None = None
    ) -> None:
        """Open the gate or raise GateClosedError; the reason is journalled either way."""
        self.run.event("gate_begin", gate=self.gate)
        self.progress.send("gate", self.gate, awaits="serial numbers of the hosts")
        hosts = self.setup.identified
        bom = self.setup.bom.value if self.setup.bom else None
        identities = entry.identify(
            self.run,
            self.gate,
            hosts,
            witness,
            bom,
            connections=connections,
            progress=lambda text, awaits: self.progress.send("progress", text, awaits=awaits),
        )
        self.run.sync()
        if any(RunReader(self.run.path).events("forced")):
            return
        entry.refuse_lost(self.setup, self.gate, self.run, identities)
        try:
            entry.refuse_closed(self.setup, self.gate, self.run, identities)
        except GateClosedError as err:
            self.run.event("gate_refused", gate=self.gate, because=err.message)
            raise

    def attempt(
        self, criterion: str, outcome: str, reasons: tuple[str, ...], test: str, hint: str = ""
    ) -> None:
        """Journal how the test that settles `criterion` ended: ran, not_run or error.

        `hint` is the next step that what ended it advises.
        """
        kept = [reason[:MOST_TEXT] for reason in reasons]
        advice = {"hint": hint[:MOST_TEXT]} if hint else {}
        self.run.event(
            "attempt", criterion=criterion, outcome=outcome, reasons=kept, test=test, **advice
        )

    def finish(self, outcome: str) -> GateResult | None:
        """Close the gate as ``done``, ``refused`` or ``interrupted``; judge it if it is done."""
        self.run.event("gate_end", gate=self.gate, outcome=outcome)
        self.run.sync()
        result = None
        if outcome == "done":
            result = judging.judge_gate_of(RunReader(self.run.path), self.setup, self.gate)
            judging.journal(self.run, result)
        self.close()
        return result

    def close(self) -> None:
        """Give the lock back."""
        self.run.close()


def open_for_soak(workspace: Workspace, run: Path, gate: str) -> None:
    """Open `gate` for its soak and give the lock back; raises GateClosedError as `begin` does."""
    session = GateSession(workspace, run, gate, Progress(None))
    try:
        with connect(session.setup, RunReader(run), scope=lambda: gate) as connections:
            keep = kept_in(session.run, lambda: gate)
            adapter = session.setup.adapter
            session.begin(
                lambda host: Witness(host, connections.to(host), keep, adapter(host)), connections
            )
    finally:
        session.close()


def finished(reader: RunReader, gate: str) -> bool:
    """Tell whether `gate` was closed as done in this run."""
    return any(
        event.fields["gate"] == gate and event.fields["outcome"] == "done"
        for event in reader.events("gate_end")
    )


def note_interruption(run: Path, because: str) -> None:
    """Journal why the process that worked on `run` ended; silent where the run can't be opened."""
    with contextlib.suppress(StoreError), RunWriter.open(run) as writer:
        writer.event("interrupted", because=because)
