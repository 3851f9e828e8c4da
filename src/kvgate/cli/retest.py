"""The verb retest: named criteria of a run tested again, as a new run that cites it."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kvgate.cli.act import conclude, watched
from kvgate.cli.places import run_of
from kvgate.engine import destroy
from kvgate.engine.check import refuse_unsound
from kvgate.engine.countersign import use_key
from kvgate.engine.holding import Held, hold, places
from kvgate.engine.retest import plan_retest
from kvgate.engine.start import create_run
from kvgate.engine.workspace import Workspace
from kvgate.store.reader import RunReader
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from kvgate.engine.retest import Retest


def retest_verb(arguments: argparse.Namespace, command: list[str]) -> int:
    """Test criteria of a run again; the exit code is the new run's verdict."""
    run = run_of(arguments, arguments.run)
    workspace = Workspace.find(run.parent)
    asked = [part.strip() for text in arguments.criterion for part in text.split(",")]
    retest = plan_retest(
        workspace,
        run,
        [each for each in asked if each],
        changed=arguments.changed,
        inventory=Path(arguments.inventory) if arguments.inventory else None,
        reason=arguments.reason,
    )
    inventory = retest.setup.inventory.value
    destroy.refuse_unfit(inventory, arguments.yes_destroy)
    refuse_unsound(workspace, retest.setup)
    use_key(retest.setup.plan.value, arguments.controller_key)
    print(plain(retest.remark), file=sys.stderr)
    with _held(workspace, retest, run, arguments.yes_destroy) as held:
        path = create_run(
            workspace,
            retest.setup,
            gates=retest.gates,
            command=command,
            yes_destroy=arguments.yes_destroy,
            retest=retest.told,
        )
        held.name_run(path.name)
        ended = watched(workspace, retest.setup, path)
    return conclude(workspace, ended, "run")


@contextlib.contextmanager
def _held(
    workspace: Workspace, retest: Retest, run: Path, yes_destroy: list[str]
) -> Iterator[Held]:
    """Hold the hosts; what was rehearsed answers again where the run's inventory has it."""
    first = RunReader(workspace.runs / str(retest.told["root"]))
    if first.manifest["command"][1:2] == ["rehearse"]:
        from kvgate.engine.rehearse import rehearsal

        plan = workspace.root / "gates/plans/rehearsal.yaml"
        with rehearsal(workspace, plan, resumed=run) as (_, _, held):
            yield held
        return
    inventory = retest.setup.inventory.value
    with hold(workspace.runs, places(inventory) | destroy.places(inventory, yes_destroy)) as held:
        yield held
