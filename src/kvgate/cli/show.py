"""Tables and lines for the terminal; text from hosts is made harmless first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def show_result(
    console: Console, result: RunResult, closed: Mapping[str, str] | None = None
) -> None:
    """Print the verdict table: a row a gate, then every criterion that doesn't pass.

    `closed` tells of gates that did not open, and why.
    """
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
            Text(plain(gate.told + (f"; FORCED: {gate.forced}" if gate.forced else ""))),
        )
    table.add_section()
    table.add_row("run", verdict_text(result.verdict), "", "", "")
    console.print(table)
    show_open(console, result, closed or {})


def _counts(gate: GateResult) -> str:
    passed = sum(finding.verdict is Verdict.PASS for finding in gate.findings)
    out = f", {len(gate.scoped_out)} scoped out" if gate.scoped_out else ""
    return f"{passed} of {len(gate.findings)} pass{out}"


def show_open(console: Console, result: RunResult, closed: Mapping[str, str]) -> None:
    """Print what did not pass: where, by how much, what next; criteria of one reason together.

    On a terminal a reason is cut to one line, and that it was is said; in a pipe it is whole.
    """
    cut = False
    for gate in result.gates:
        if gate.gate in closed:
            told = Text(plain(f"{_MARK['not_run']} {closed[gate.gate]}"), style="yellow")
            console.print(told, soft_wrap=True)
            continue
        for (verdict, because), findings in _troubles(gate).items():
            whole = verdict is Verdict.NOT_RUN and len(findings) == len(gate.findings) > 1
            ids = ", ".join(finding.criterion for finding in findings)
            name = f"{gate.gate}, all {len(findings)} criteria:" if whole else ids
            mark = (f"{_MARK[verdict]} {name} ", VERDICT_STYLE[verdict])
            line = Text.assemble(mark, plain(because))
            if console.is_terminal and ("\n" in line.plain or line.cell_len > console.width):
                line = Text.assemble(mark, " ".join(plain(because).split()))
                cut = cut or line.cell_len > console.width
                line.truncate(console.width, overflow="ellipsis")
            console.print(line, soft_wrap=True)
            hint = findings[0].hint if len(findings) == 1 else ""
            if hint:
                shown = plain(hint).replace("\n", "\n          ")
                console.print(Text(f"    next: {shown}", style="dim"), soft_wrap=True)
    if cut:
        console.print(Text("… cut to the terminal's width: whole in the report", style="dim"))


def _troubles(gate: GateResult) -> dict[tuple[Verdict, str], list[Finding]]:
    """Return what did not pass by verdict and reason, in the gate's order."""
    found: dict[tuple[Verdict, str], list[Finding]] = {}
    for finding in gate.findings:
        if finding.verdict is not Verdict.PASS:
            found.setdefault((finding.verdict, finding.because), []).append(finding)
    return found


def show_hosts(console: Console, reports: Sequence[HostReport]) -> None:
    """Print each host: reachable, system, tools present, tools missing and their packages.

    Lines are not wrapped: a line to add to known_hosts has to be copied whole.
    """
    for report in reports:
        name, roles, state, system, clock, tools, missing = (plain(cell) for cell in report.row())
        mark = ("✓ ", "green") if report.ok else ("✗ ", "bold red")
        console.print(Text.assemble(mark, (name, "bold"), f"  {roles}  {state}"), soft_wrap=True)
        for label, cell in (("system", system), ("clock", clock), ("tools", tools)):
            if cell:
                shown = cell.replace("\n", "; ")
                console.print(Text(f"    {label:<8}{shown}", style="dim"), soft_wrap=True)
        if missing:
            shown = missing.replace("\n", "; ")
            console.print(Text(f"    {'missing':<8}{shown}", style="yellow"), soft_wrap=True)
        if not report.ok:
            console.print(Text(f"    {plain(report.problem())}", style="red"), soft_wrap=True)


def show_outline(console: Console, outline: Outline) -> None:
    """Print what a run would do."""
    console.print(Text(plain(outline.title), style="bold"))
    for line in outline.head:
        console.print(Text("  " + plain(line)))
    for gate in outline.gates:
        console.print(Text(plain(f"\n{gate.title}"), style="bold"))
        console.print(Text(plain(f"  {gate.summary}")))
        for line in gate.long:
            console.print(Text(plain(f"    {line}")))
        for key, text, limit, covered, tests in gate.criteria:
            console.print(Text.assemble((f"  {key:<7}", "bold"), plain(text)), soft_wrap=True)
            detail = f"         {limit}; on {covered}; by {tests}"
            console.print(Text(plain(detail), style="dim"), soft_wrap=True)
        for line in gate.scoped_out:
            console.print(Text(plain(f"  scoped out: {line}"), style="dim"), soft_wrap=True)
    console.print(Text(plain("\n" + outline.foot), style="bold"))
