"""Tests of what the terminal shows: long reasons on one line, whole in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kvgate.cli.show import show_open
from kvgate.model.finding import Finding, GateResult, RunResult
from kvgate.model.verdict import Verdict

LONG = "node-17: " + "the drives differ, " * 20 + "as the last word tells"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_reason_is_cut_on_a_terminal_only(terminal: bool) -> None:
    finding = Finding(
        criterion="G1.1", verdict=Verdict.FAIL, because=LONG, limit="", hint="do this"
    )
    gate = GateResult(gate="G1", verdict=Verdict.FAIL, because="", findings=(finding,))
    result = RunResult(
        run="r",
        profile="acceptance",
        verdict=Verdict.FAIL,
        gates=(gate,),
        criteria_digest="",
        journal_digest="",
    )
    out = io.StringIO()
    console = Console(file=out, width=60, force_terminal=terminal, color_system=None)
    show_open(console, result, {})
    lines = out.getvalue().splitlines()
    assert lines[1] == "    next: do this"
    if terminal:
        assert len(lines[0]) == 60
        assert lines[0].endswith("…")
        assert lines[2] == "… cut to the terminal's width: whole in the report"
    else:
        assert lines[0] == f"✗ G1.1 {LONG}"
        assert len(lines) == 2
