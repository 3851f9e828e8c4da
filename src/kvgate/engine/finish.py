"""Ends a run: its last record, the seal over it, the findings, the report, the seal over those."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kvgate.engine import judging
from kvgate.model.finding import RunResult
from kvgate.store.findings import write_findings
from kvgate.store.run import RunWriter
from kvgate.store.seal import seal

Render = Callable[[Path, RunResult], None]
"""Writes the reports of a run into its folder; given by who may import the report."""


def finish_run(run: Path, *, render: Render | None) -> RunResult:
    """Seal, judge, report and seal the additions of a run that came to its end.

    1. ``run_end`` is the journal's last record.
    2. The first seal covers the run: manifest, inputs, journal, measurements, evidence, logs.
    3. The judge decides from what is sealed; findings and reports are written beside it.
    4. The second seal covers those.
    """
    with RunWriter.open(run) as writer:
        writer.event("run_end")  # 1
    seal(run)  # 2
    result = show_state(run, render=render)  # 3
    seal(run)  # 4
    return result


def show_state(run: Path, *, render: Render | None) -> RunResult:
    """Judge a run as it stands and write findings and reports, sealed or not."""
    result = judging.judge_stored(run)
    write_findings(run, result)
    if render is not None:
        render(run, result)
    return result
