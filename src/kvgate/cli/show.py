"""Tables and lines for the terminal; text from hosts is made harmless first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvgate.model.finding import Finding, GateResult, RunResult
from kvgate.model.verdict import Verdict
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from kvgate.engine.hosts import HostReport
    from kvgate.engine.outline import Outline

VERDICT_STYLE = {
    "pass": "green",
    "fail": "bold red",
    "inconclusive": "yellow",
    "not_run": "yellow",
    "accepted": "green",
    "rejected": "bold red",
    "running": "cyan",
}
_MARK = {"pass": "✓", "fail": "✗", "inconclusive": "?", "not_run": "–"}


def verdict_text(verdict: Verdict, *, marginal: bool = False) -> Text:
    """Return a verdict as symbol and word, coloured where there is colour."""
    word = str(verdict)
    tail = " (marginal)" if marginal else ""
    return Text(f"{_MARK[word]} {word}{tail}", style=VERDICT_STYLE[word])


def show_result(console: Console, result: RunResult) -> None:
    """Print the verdict table: a row a gate, then every criterion that doesn't pass."""
    title = Text(plain(f"{result.run}   profile {result.profile}"))
    table = Table(title=title, title_justify="left")
    for name in ("gate", "verdict", "criteria", "disposition", "because"):
        table.add_column(name, overflow="fold")
    for gate in result.gates:
        table.add_row(
            Text(plain(gate.gate)),
            verdict_text(gate.verdict),
            _counts(gate),
            Text(str(gate.disposition or "")),
            Text(plain(gate.because)),
        )
    table.add_section()
    table.add_row("run", verdict_text(result.verdict), "", "", "")
    console.print(table)
    show_open(console, result)


def _counts(gate: GateResult) -> str:
    passed = sum(finding.verdict is Verdict.PASS for finding in gate.findings)
    out = f", {len(gate.scoped_out)} scoped out" if gate.scoped_out else ""
    return f"{passed} of {len(gate.findings)} pass{out}"


def show_open(console: Console, result: RunResult) -> None:
    """Print what did not pass: where, by how much, what next; criteria of one reason together."""
    for gate in result.gates:
        for (verdict, because), findings in _troubles(gate).items():
            if verdict is Verdict.NOT_RUN and len(findings) == len(gate.findings):
                told = plain(f"{_MARK['not_run']} {gate.gate} was not begun")
                console.print(Text(told, style="yellow"))
                continue
            ids = ", ".join(finding.criterion for finding in findings)
            mark = (f"{_MARK[verdict]} {ids} ", VERDICT_STYLE[verdict])
            console.print(Text.assemble(mark, plain(because)))
            hint = findings[0].hint if len(findings) == 1 else ""
            if hint:
                shown = plain(hint).replace("\n", "\n          ")
                console.print(Text(f"    next: {shown}", style="dim"))


def _troubles(gate: GateResult) -> dict[tuple[Verdict, str], list[Finding]]:
    """Return what did not pass by verdict and reason, in the gate's order."""
    found: dict[tuple[Verdict, str], list[Finding]] = {}
    for finding in gate.findings:
        if finding.verdict is not Verdict.PASS:
            found.setdefault((finding.verdict, finding.because), []).append(finding)
    return found


def show_hosts(console: Console, reports: Sequence[HostReport]) -> None:
    """Print a row a host: reachable, system, tools present, tools missing and their packages."""
    table = Table()
    for name in ("host", "roles", "state", "system", "clock", "tools", "missing"):
        table.add_column(name, overflow="fold")
    for report in reports:
        table.add_row(*(Text(plain(cell)) for cell in report.row()))
    console.print(table)
    for report in reports:
        if not report.ok:
            console.print(Text(plain(f"✗ {report.problem()}"), style="red"))


def show_outline(console: Console, outline: Outline) -> None:
    """Print what a run would do."""
    console.print(Text(plain(outline.title), style="bold"))
    for line in outline.head:
        console.print(Text("  " + plain(line)))
    for gate in outline.gates:
        console.print(Text(plain(f"\n{gate.title}"), style="bold"))
        console.print(Text(plain(f"  {gate.summary}")))
        for key, text, limit, covered, tests in gate.criteria:
            console.print(Text.assemble((f"  {key:<6}", "bold"), plain(text)), soft_wrap=True)
            detail = f"        {limit}; on {covered}; by {tests}"
            console.print(Text(plain(detail), style="dim"), soft_wrap=True)
        for line in gate.scoped_out:
            console.print(Text(plain(f"  scoped out: {line}"), style="dim"), soft_wrap=True)
    console.print(Text(plain("\n" + outline.foot), style="bold"))
