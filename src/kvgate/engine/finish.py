"""Ends a run: its last record, the seal over it, the findings, the report, the seal over those."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kvgate.engine import judging
from kvgate.engine.check import version
from kvgate.engine.countersign import countersign
from kvgate.model.finding import RunResult
from kvgate.store.findings import write_findings
from kvgate.store.layout import listing, sums_name
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import seal
from kvgate.store.single import write_verifier

Render = Callable[[Path, RunResult], None]
"""Writes the reports of a run into its folder; given by who may import the report."""


def finish_run(run: Path, *, render: Render | None) -> RunResult:
    """Seal, judge, report and seal the additions of a run that came to its end.

    1. ``run_end`` is the journal's last record.
    2. The first seal covers the run: manifest, inputs, journal, measurements, evidence, logs.
    3. The judge decides from what is sealed; findings and reports are written beside it,
       and the single-file verifier.
    4. The second seal covers those.
    Killed anywhere in it, it is called again and goes on: what was sealed stays as it is.
    """
    if not RunReader(run).sealed():
        with RunWriter.open(run) as writer:
            if not any(RunReader(run).events("run_end")):
                countersign(writer, "the close of the run")
                writer.event("run_end")  # 1
        seal(run)  # 2
    result = show_state(run, render=render)  # 3
    write_verifier(run, version())
    if half_finished(run):
        seal(run)  # 4
    return result


def half_finished(run: Path) -> bool:
    """Tell whether `run` was sealed, and what was to follow (findings, report, seal) was not."""
    return RunReader(run).sealed() and sums_name(1) not in listing(run).files


def show_state(run: Path, *, render: Render | None) -> RunResult:
    """Judge a run as it stands and write findings and reports, sealed or not."""
    result = judging.judge_stored(run)
    write_findings(run, result)
    if render is not None:
        render(run, result)
    return result
