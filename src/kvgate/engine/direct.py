"""An ordinary run begun by a plain ``pytest suites/…``: the same path, one gate."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from kvgate.engine import soak
from kvgate.engine.check import refuse_unsound
from kvgate.engine.finish import finish_run
from kvgate.engine.gate import open_for_soak
from kvgate.engine.holding import Held, hold, places
from kvgate.engine.progress import Progress
from kvgate.engine.start import create_run
from kvgate.engine.supervise import watch_child
from kvgate.engine.workspace import Workspace, default_plan, frozen_setup, load_setup
from kvgate.errors import HarnessError, UsageError
from kvgate.model.finding import RunResult
from kvgate.store.reader import RunReader


@dataclasses.dataclass(slots=True)
class Direct:
    """The run that a plain pytest makes: begun before the tests, ended after them."""

    run: Path
    gate: str
    held: Held
    result: RunResult | None = None

    @classmethod
    def begin(
        cls,
        workspace: Workspace,
        inventory: Path,
        plan: str | None,
        tests: set[Path],
        *,
        command: Sequence[str],
        forced: str,
    ) -> Direct:
        """Make the run for the one gate whose suite `tests` belong to.

        Holds the hosts until `end`, or the end of this process. Raises UsageError for tests of no
        gate or of several, SpecError for unsound files, HostsInUseError.
        """
        path = Path(plan) if plan else default_plan(workspace, inventory)
        setup = load_setup(workspace, path, inventory)
        gates = {
            entry.gate
            for entry in setup.plan.value.gates
            for test in tests
            if test.is_relative_to((workspace.root / entry.suite).resolve())
        }
        if len(gates) != 1:
            raise UsageError(
                f"these tests belong to {', '.join(sorted(gates)) or 'no gate'} of plan "
                f"'{setup.plan.value.plan}'; one pytest is one gate",
                hint="name one suite folder, or run several gates with `kvgate run`",
            )
        refuse_unsound(workspace, setup)
        gate = gates.pop()
        held = hold(workspace.runs, places(setup.inventory.value))
        run = create_run(workspace, setup, gates=[gate], command=command, forced=forced)
        held.name_run(run.name)
        return cls(run, gate, held)

    def soak(self, workspace: Workspace, progress: Progress) -> None:
        """Run the gate's soak first, if its plan has one: tests only read what it recorded.

        Raises GateClosedError if the gate may not open, HarnessError if the soak broke off.
        """
        setup = frozen_setup(RunReader(self.run))
        if not soak.needed(setup.plan.value, self.gate):
            return
        open_for_soak(workspace, self.run, self.gate)
        code = watch_child(
            soak.command(self.run, self.gate),
            run=self.run,
            log=f"{self.gate}-soak",
            give_up_s=setup.planned(self.gate).give_up_after.to("s"),
            tell=lambda message: progress.send(message["t"], message["text"]),
        )
        if code != 0 or not soak.finished(RunReader(self.run)):
            raise HarnessError(
                f"{self.gate}: the soak broke off with exit code {code}",
                hint=f"see {self.run}/logs/{self.gate}-soak.log",
            )

    def end(self) -> None:
        """Seal and judge the run, and let its hosts go."""
        self.result = finish_run(self.run, render=None)
        self.held.release()

    @property
    def exit_code(self) -> int:
        """Return the verdict's exit code; 3 where the run did not come to its end."""
        return self.result.verdict.exit_code if self.result else 3

    def lines(self) -> list[str]:
        """Return what to show at the end: verdict, findings that don't pass, where it lies."""
        if self.result is None:
            return [
                f"kvgate: {self.gate} was not finished: {self.run}",
                f"  go on with: kvgate run --resume {self.run}",
            ]
        gate = self.result.gates[0]
        return [
            f"kvgate: {self.gate} {gate.verdict} ({gate.disposition}): {gate.because}",
            *(
                f"  {f.criterion} {f.verdict}: {f.because}"
                for f in gate.findings
                if f.verdict != "pass"
            ),
            f"  run: {self.run}",
            f"  read it with: kvgate report {self.run}",
        ]
